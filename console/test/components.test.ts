import { describe, expect, it } from "vitest";
import { optionsOf } from "../src/tools/choice";
import { imagesIn } from "../src/tools/images";
import { rowsOf } from "../src/tools/table";

describe("a table", () => {
  it("is made of records that are flat and alike", () => {
    expect(rowsOf([{ a: 1, b: "x" }, { a: 2 }])).toEqual({ columns: ["a", "b"], rows: [[1, "x"], [2, undefined]] });
    expect(rowsOf([[1, 2]], ["a", "b"])).toEqual({ columns: ["a", "b"], rows: [[1, 2]] });
  });

  it.each([null, [], [1], [{}], [{ a: { b: 1 } }], "x", [[1]]])("%j is none", (value) => {
    expect(rowsOf(value)).toBeNull();
  });
});

describe("a choice", () => {
  it("has options of words or of objects, each with the value it stands for", () => {
    expect(optionsOf({ options: ["red", { label: "Blue", value: 2, description: "cold" }, { id: 0 }] })).toEqual([
      { label: "red", value: "red", description: "" },
      { label: "Blue", value: 2, description: "cold" },
      { label: "0", value: 0, description: "" },
    ]);
    expect(optionsOf(null)).toEqual([]);
  });
});

describe("pictures", () => {
  it("are those that came along, of kinds that hold no script", () => {
    const block = (mimeType: string, data = "iVBORw0KGgo=") => ({ type: "image", mimeType, data });
    expect(imagesIn({ content: [block("image/png")] }).map((one) => one.inline)).toEqual(["data:image/png;base64,iVBORw0KGgo="]);
    expect(imagesIn([block("image/svg+xml"), block("text/html"), block("image/png", "<script>"), { type: "image", url: "https://evil.example/" }])).toEqual([]);
  });
});
