// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { asCurl, asPython, indented, memberText, shellWord } from "../src/call-code";
import { merged } from "../src/call-list";
import type { CallRecord } from "../src/data";

describe("memberText", () => {
  it("finds a member by its path, as it is written", () => {
    const text = '{"x":{"arguments":1},"call":{"result":"}\\"","arguments":{"big":12345678901234567890, "a":[1,{"b":null}]}}}';
    expect(memberText(text, ["call", "arguments"])).toBe('{"big":12345678901234567890,"a":[1,{"b":null}]}');
    expect(memberText(text, ["call", "none"])).toBeNull();
    expect(memberText(text, ["call", "result", "x"])).toBeNull();
  });
});

describe("commands", () => {
  it("quote whatever comes", () => {
    expect(shellWord("it's")).toBe(String.raw`'it'\''s'`);
    const curl = asCurl("a'b", '{"text":"$(id) `x` \u202e é"}', "http://h");
    expect(curl).toContain(String.raw`'http://h/api/v1/tools/a'\''b/execute'`);
    expect(curl).toContain("\\u202e \\u00e9");
    expect(curl).not.toContain("\u202e");
  });
  it("keep numbers and write Python's words", () => {
    const python = asPython("t", '{"n":12345678901234567890,"on":true,"no":null,"word":"true \\"null\\" \\ud83d\\ude00","e":{}}', "http://h");
    expect(python).toContain('"n": 12345678901234567890');
    expect(python).toContain('"on": True');
    expect(python).toContain('"no": None');
    expect(python).toContain(String.raw`"word": "true \"null\" \U0001f600"`);
    expect(python).toContain('"e": {}');
  });
  it("indent without changing the value", () => {
    const text = '{"a":[1,2,{"b":[]}],"c":"x,{y:"}';
    expect(JSON.parse(indented(text))).toEqual(JSON.parse(text));
    expect(indented(text)).toContain('\n  "a": [\n    1,');
  });
});

describe("merged", () => {
  const call = (id: string, status = "running"): CallRecord => ({ id, status }) as CallRecord;
  const shown = (rows: readonly CallRecord[]): string[] => rows.map(({ id, status }) => `${id} ${status}`);

  it("puts new calls in their place and replaces known ones", () => {
    const rows = [call("d"), call("b"), call("a")];
    expect(shown(merged(rows, [call("b", "completed"), call("e"), call("c")]))).toEqual(["e running", "d running", "c running", "b completed", "a running"]);
    expect(merged(rows, [])).toBe(rows);
    expect(shown(merged([], [call("a"), call("b"), call("a")]))).toEqual(["b running", "a running"]);
    expect(shown(merged(rows, [call("0")]))).toEqual(["d running", "b running", "a running", "0 running"]);
  });
});
