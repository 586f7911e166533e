import { describe, expect, it } from "vitest";
import { makeHost, messageIn, resultOf, type HostActions } from "../src/apps/host";

const INFO = { html: "<p>app</p>", csp: {}, tool: { name: "stock", inputSchema: {} }, theme: "light", canSay: true } as const;
const CALL = { type: "tool_call", toolCallId: "c1", toolName: "stock", args: { item: "tea" }, result: null, status: "running", runId: null } as const;

function scene(changes: Partial<HostActions> = {}) {
  const sent: Record<string, unknown>[] = [];
  let floods = 0;
  let moment = 0;
  const refuse = (): Promise<never> => Promise.reject(new Error("not here"));
  const actions: HostActions = {
    send: (message) => void sent.push(message as Record<string, unknown>),
    onHeight: () => undefined,
    openLink: refuse,
    say: refuse,
    callTool: refuse,
    readResource: refuse,
    onFlood: () => void (floods += 1),
    ...changes,
  };
  const host = makeHost(INFO, actions, () => moment);
  const ask = async (method: string, params: object = {}): Promise<Record<string, unknown> | undefined> => {
    host.take({ jsonrpc: "2.0", id: "1", method, params });
    await new Promise((resolve) => setTimeout(resolve));
    return sent.at(-1);
  };
  return { host, sent, ask, floods: () => floods, pass: (ms: number) => (moment += ms), notify: (method: string) => host.take({ jsonrpc: "2.0", method, params: {} }) };
}

describe("the host of an app", () => {
  it("tells the input once the app is there, and the result once there is one", () => {
    const { host, sent, notify } = scene();
    host.show(CALL);
    expect(sent).toEqual([]);
    notify("ui/notifications/initialized");
    host.show({ ...CALL, status: "complete", result: { left: 7 } });
    host.show({ ...CALL, status: "complete", result: { left: 7 } });
    expect(sent.map((one) => one["method"])).toEqual(["ui/notifications/tool-input", "ui/notifications/tool-result"]);
    expect(sent[0]!["params"]).toEqual({ arguments: { item: "tea" } });
  });

  it("answers what it does not know or does not want with an error", async () => {
    const { ask } = scene();
    for (const [method, params, code] of [
      ["ui/eval", {}, -32601],
      ["tools/call", { name: 1 }, -32602],
      ["tools/call", { name: "x", arguments: [] }, -32602],
      ["ui/open-link", { url: "javascript:1" }, -32602],
      ["ui/message", { content: [{ type: "image" }] }, -32602],
      ["ui/open-link", { url: "https://example.org" }, -32000],
    ] as const)
      expect((await ask(method, params))?.["error"]).toMatchObject({ code });
  });

  it("bounds the height, the calls at once and the rate", async () => {
    const heights: number[] = [];
    const { host, ask, floods, pass } = scene({ onHeight: (height) => heights.push(height), callTool: () => new Promise(() => undefined) });
    for (const height of [1e9, -5, NaN, 200.5]) host.take({ jsonrpc: "2.0", method: "ui/notifications/size-changed", params: { height } });
    expect(heights).toEqual([720, 40, 40, 201]);
    for (let made = 0; made < 8; made += 1) await ask("tools/call", { name: "x" });
    expect((await ask("tools/call", { name: "x" }))?.["error"]).toMatchObject({ message: "8 calls are running. Wait for one to end." });
    for (let made = 0; made < 400; made += 1) host.take("noise");
    expect(floods()).toBeGreaterThan(0);
    const before = floods();
    pass(10_000);
    host.take("noise");
    expect(floods()).toBe(before);
  });

  it("hears messages of JSON-RPC only, of a decent size", () => {
    const good = { jsonrpc: "2.0", id: 1, method: "ping", params: {} };
    expect(messageIn(good)).toMatchObject({ id: 1, method: "ping" });
    let deep: object = {};
    for (let level = 0; level < 100; level += 1) deep = { deep };
    const bad = [null, "text", [], { ...good, jsonrpc: "1.0" }, { ...good, id: {} }, { ...good, method: 7 }, { ...good, params: [] }, { ...good, params: deep }];
    for (const one of [...bad, { ...good, params: { text: "x".repeat(300_000) } }, { ...good, params: { map: new Map() } }]) expect(messageIn(one)).toBeNull();
  });
});

describe("a result for an app", () => {
  it("is what its server said, or the plain value as text and structure", () => {
    const form = { content: [{ type: "text", text: "7" }], structuredContent: { left: 7 } };
    expect(resultOf({ status: "complete", result: form })).toEqual(form);
    expect(resultOf({ status: "complete", result: "seven" })).toEqual({ content: [{ type: "text", text: "seven" }] });
    expect(resultOf({ status: "complete", result: { left: 7 } })).toEqual({ content: [{ type: "text", text: '{"left":7}' }], structuredContent: { left: 7 } });
    expect(resultOf({ status: "error", result: null, error: "no" })).toEqual({ content: [{ type: "text", text: "no" }], isError: true });
  });
});
