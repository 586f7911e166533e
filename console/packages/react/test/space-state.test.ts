import { describe, expect, it } from "vitest";
import { EMPTY, withEvent, withPage, type SpaceState } from "../src/space-state";
import { frames, type Frame } from "@jackfield/client";
import type { SpaceEvent, SpaceMessage } from "../src/types";

function message(seq: number, content = `number ${seq}`, metadata: Record<string, unknown> = {}): SpaceMessage {
  return {
    id: `msg_${seq}`,
    spaceId: "lobby",
    entityId: "ada",
    senderName: "Ada",
    senderType: "person",
    role: "user",
    content,
    metadata,
    seq,
    runId: null,
    createdAt: "2026-01-15T10:30:00.000Z",
  };
}

const told = (seq: number, content?: string): SpaceEvent => ({ type: "space.message", seq, message: message(seq, content) });
const play = (events: SpaceEvent[], state: SpaceState = EMPTY): SpaceState => events.reduce(withEvent, state);

describe("a space's state", () => {
  it("has every durable event once, however often it comes", () => {
    const state = play([told(1), told(2), told(1), told(2), told(3)]);
    expect(state.messages.map((one) => one.seq)).toEqual([1, 2, 3]);
    expect(state.seq).toBe(3);
  });

  it("goes on after a page without losing or repeating what came before it", () => {
    const state = withPage(play([told(5)]), [message(3), message(4), message(5)], 5);
    expect(play([told(4), told(6)], state).messages.map((one) => one.seq)).toEqual([3, 4, 5, 6]);
  });

  it("keeps the newer form of a message that an older page has too", () => {
    const call = { type: "tool_call", toolCallId: "call_1", toolName: "chart", args: {}, result: null, status: "running", runId: null };
    const now = play([{ type: "space.message", seq: 1, message: message(1, "", call) }, { type: "tool.done", seq: 2, streamId: "call_1", result: 7 }]);
    const state = withPage(now, [message(1, "", call)], 1);
    expect(state.messages[0]?.metadata).toMatchObject({ status: "complete", result: 7 });
  });

  it("puts pieces together by their offset, so that a piece that comes twice is there once", () => {
    const piece = (offset: number, delta: string): SpaceEvent => ({ type: "space.message.streaming", streamId: "call_1", phase: "delta", offset, delta });
    const state = play([piece(0, "Hello "), piece(6, "wor"), piece(6, "wor"), piece(9, "ld"), piece(0, "Hello world")]);
    expect(state.inFlight.map((one) => one.text)).toEqual(["Hello world"]);
  });

  it("replaces what is in flight by the message that comes of it", () => {
    const begun = play([{ type: "space.message.streaming", streamId: "call_1", phase: "delta", offset: 0, delta: "Hi" }]);
    const state = play([{ type: "space.message", seq: 1, streamId: "call_1", message: message(1, "Hi") }], begun);
    expect([state.inFlight.length, state.messages.length]).toEqual([0, 1]);
  });

  it("drops what a stream that was broken off left in flight", () => {
    const begun = play([{ type: "tool.streaming", streamId: "call_1", offset: 0, delta: "{", partialArgs: {} }]);
    expect(play([{ type: "connected", activeAgents: [], streams: [] }], begun).inFlight).toEqual([]);
    expect(play([{ type: "connected", activeAgents: [], streams: ["call_1"] }], begun).inFlight.length).toBe(1);
  });

  it("knows who is at work", () => {
    const ada = { agentEntityId: "ada", agentName: "Ada", runId: "cycle_1" };
    const state = play([{ type: "agent.active", seq: 1, ...ada }]);
    expect(state.active.map((one) => one.agentName)).toEqual(["Ada"]);
    expect(play([{ type: "agent.inactive", seq: 2, ...ada }], state).active).toEqual([]);
  });
});

describe("frames of a stream", () => {
  it("are whole however the text is cut", () => {
    const text = 'id: 1\ndata: {"a":1}\n\n: ping\n\nevent: x\r\ndata: {"b":\r\ndata: 2}\r\n\r\n';
    for (let cut = 1; cut < text.length; cut++) {
      const got: Frame[] = [];
      const take = frames((frame) => got.push(frame));
      take(text.slice(0, cut));
      take(text.slice(cut));
      expect(got).toEqual([
        { id: "1", event: null, data: { a: 1 } },
        { id: null, event: "x", data: { b: 2 } },
      ]);
    }
  });
});
