import { describe, expect, it } from "vitest";
import { bodyOf, draftOf, EMPTY, hasHidden, patchOf, variablesIn, wordsOf } from "../src/pages/sources/draft";
import { sideBySide } from "../src/pages/sources/side-by-side";
import { NOTHING, withEvent } from "../src/pages/settings/answer";
import { tablesIn } from "../src/pages/settings/values";

describe("a source as it is typed", () => {
  it("has the words of a command as a shell would", () => {
    expect(wordsOf(`uvx  'a b' "c d"e \\'f ''`)).toEqual(["uvx", "a b", "c de", "'f", ""]);
    expect(() => wordsOf("say 'x")).toThrow("not closed");
  });

  it("goes there and back", () => {
    const body = { kind: "mcp", command: ["uvx", "it's one", "x"], env: { A: "${A}" }, prefix: "p_", allowed_tools: ["list_*"] };
    const draft = draftOf("one", body);
    expect(draft.shape).toBe("command");
    expect(bodyOf(draft)).toEqual(body);
    const openapi = { kind: "openapi", url: "https://a.example/o", headers: { "X-A": "b: c" }, auth: { type: "bearer", token: "${T}" } };
    expect(bodyOf(draftOf("two", openapi))).toEqual(openapi);
    expect(variablesIn([body, openapi])).toEqual(["A", "T"]);
  });

  it("says what cannot be sent", () => {
    expect(() => bodyOf(EMPTY)).toThrow("not a full one");
    expect(() => bodyOf({ ...EMPTY, url: "https://a.example", headers: "nonsense" })).toThrow("without ':'");
    expect(() => bodyOf({ ...EMPTY, url: "https://a.example", more: "[1]" })).toThrow("not a JSON object");
  });

  it("sends only what is different, so that hidden values stay", () => {
    const before = { kind: "mcp", url: "https://a.example", headers: { A: "[redacted]", B: "1" }, prefix: "x" };
    expect(hasHidden(before)).toBe(true);
    expect(patchOf(before, { kind: "mcp", url: "https://a.example", headers: { A: "[redacted]", C: "2" } })).toEqual({ prefix: null, headers: { B: null, C: "2" } });
    expect(patchOf(before, before)).toEqual({});
  });
});

describe("side by side", () => {
  it("puts a changed line beside the one that it was", () => {
    expect(sideBySide(["a", "b", "c", "e"], ["a", "x", "c", "d", "e"])).toEqual([
      { before: "a", after: "a" },
      { before: "b", after: "x" },
      { before: "c", after: "c" },
      { before: null, after: "d" },
      { before: "e", after: "e" },
    ]);
  });

  it("copes with nothing, and with very much", () => {
    expect(sideBySide([], ["a"])).toEqual([{ before: null, after: "a" }]);
    const many = Array.from({ length: 2000 }, (_, place) => `a${place}`);
    const others = many.map((line) => `${line}!`);
    expect(sideBySide(many, others)).toHaveLength(2000);
  });
});

describe("an answer as it comes", () => {
  it("keeps text and calls in their order", () => {
    const events = [
      { type: "response.created", response: { id: "resp_1", status: "in_progress", error: null, usage: null } },
      { type: "response.output_item.added", output_index: 0, item: { type: "mcp_list_tools", id: "l" } },
      { type: "response.output_item.added", output_index: 1, item: { type: "mcp_call", id: "c", name: "roll", arguments: "", status: "in_progress", error: null } },
      { type: "response.mcp_call_arguments.done", output_index: 1, arguments: '{"sides":6}' },
      { type: "response.output_item.done", output_index: 1, item: { type: "mcp_call", id: "c", name: "roll", arguments: '{"sides":6}', output: "6", error: null, status: "completed" } },
      { type: "response.output_item.added", output_index: 2, item: { type: "message", id: "m", content: [] } },
      { type: "response.output_text.delta", output_index: 2, delta: "It is " },
      { type: "response.output_text.delta", output_index: 2, delta: "6." },
      { type: "response.completed", response: { id: "resp_1", status: "completed", error: null, usage: { input_tokens: 4, output_tokens: 2 } } },
    ];
    const answer = events.reduce(withEvent, NOTHING);
    expect(answer).toMatchObject({ id: "resp_1", status: "completed", inputTokens: 4, outputTokens: 2, error: null });
    expect(answer.parts[1]).toMatchObject({ is: "call", name: "roll", output: "6", status: "completed" });
    expect(answer.parts[2]).toMatchObject({ is: "text", text: "It is 6." });
  });

  it("says what went wrong", () => {
    expect(withEvent(NOTHING, { type: "error", message: "no" })).toMatchObject({ status: "failed", error: "no" });
    expect(withEvent(NOTHING, { type: "response.failed", response: { id: "r", status: "failed", error: { message: "out" } } }).error).toBe("out");
  });
});

it("finds the tables of a config by name", () => {
  const values = ["auth.roles.staff.scopes", "auth.roles.a.b.scopes", "auth.keys.x.key"].map((key) => ({ key, value: key, origin: "file" as const, given_by: null }));
  expect(tablesIn(values, "auth.roles").map(({ name }) => name)).toEqual(["staff", "a.b"]);
});
