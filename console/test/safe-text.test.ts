import { describe, expect, it } from "vitest";
import { inOneLine, safeText } from "../src/safe-text";
import { drawingOf } from "../src/tools/chart";

describe("text of tools and models", () => {
  it("shows what is hidden in it", () => {
    expect(safeText("pay \u202e001 to\u200b me")).toBe("pay ⟨U+202E⟩001 to⟨U+200B⟩ me");
    expect(safeText("a\u0000b\u{e0041}")).toBe("a⟨U+0000⟩b⟨U+E0041⟩");
  });

  it("leaves lines, tabs and joined emoji as they are", () => {
    expect(safeText("a\n\tb 👩‍💻")).toBe("a\n\tb 👩‍💻");
  });

  it("has an end", () => {
    expect(safeText("x".repeat(100), 10)).toBe(`${"x".repeat(10)}… (90 more characters)`);
    expect(inOneLine({ a: "b\nc" })).toBe('{"a":"b\\nc"}');
  });
});

describe("what is drawn", () => {
  it.each([
    [{ data: [1, 2] }, ["value"], "label"],
    [{ labels: ["a", "b"], values: [1, 2] }, ["value"], "label"],
    [{ data: { a: 1, b: 2 } }, ["value"], "label"],
    [{ data: [{ city: "Tokyo", price: 3, stars: 4 }] }, ["price", "stars"], "city"],
    [{ data: [["a", 1]] }, ["value"], "label"],
  ])("%j", (args, series, label) => {
    expect(drawingOf(args)).toMatchObject({ series, label });
  });

  it.each([null, {}, { data: "x" }, { data: [] }, { data: [{}] }, { data: [{ a: "b" }] }])("%j is nothing to draw", (args) => {
    expect(drawingOf(args)).toBeNull();
  });
});
