import { textWith } from "@jackfield/client";
import type { ActiveAgent, SpaceEvent, SpaceMessage, ToolCallData } from "./types.js";

/** A message or call that is being streamed. */
export interface InFlight {
  streamId: string;
  kind: "message" | "tool";
  agentEntityId: string;
  toolName: string | null;
  text: string;
  partialArgs: unknown;
}

export interface SpaceState {
  /** In order of `seq`. */
  messages: readonly SpaceMessage[];
  inFlight: readonly InFlight[];
  active: readonly ActiveAgent[];
  /** The last durable event included. */
  seq: number;
}

export const EMPTY: SpaceState = { messages: [], inFlight: [], active: [], seq: 0 };

/** The state with a page of messages added. Newer versions of known messages are kept. */
export function withPage(state: SpaceState, page: readonly SpaceMessage[], lastSeq: number): SpaceState {
  const known = new Map(page.map((message) => [message.id, message]));
  for (const message of state.messages) known.set(message.id, message);
  const messages = [...known.values()].sort((one, other) => one.seq - other.seq);
  return { ...state, messages, seq: Math.max(state.seq, lastSeq) };
}

/** The state after one event. Durable events are applied once. */
export function withEvent(state: SpaceState, event: SpaceEvent): SpaceState {
  if (event.type === "connected") {
    const live = new Set((event["streams"] as string[] | undefined) ?? []);
    return {
      ...state,
      active: (event["activeAgents"] as ActiveAgent[] | undefined) ?? [],
      inFlight: state.inFlight.filter((one) => live.has(one.streamId)),
    };
  }
  if (event.seq !== undefined) {
    if (event.seq <= state.seq) return state;
    return { ...withDurable(state, event), seq: event.seq };
  }
  return withPiece(state, event);
}

function withDurable(state: SpaceState, event: SpaceEvent): SpaceState {
  switch (event.type) {
    case "space.message": {
      const message = event["message"] as SpaceMessage;
      return { ...without(state, event.streamId), messages: put(state.messages, message) };
    }
    case "tool.started":
      return event.streamId === undefined ? state : { ...state, inFlight: [...without(state, event.streamId).inFlight, begun(event, "tool")] };
    case "tool.done":
    case "tool.error":
      return { ...without(state, event.streamId), messages: state.messages.map((message) => ended(message, event)) };
    case "agent.active": {
      const agent = event as unknown as ActiveAgent;
      return { ...state, active: [...state.active.filter((one) => one.agentEntityId !== agent.agentEntityId), agent] };
    }
    case "agent.inactive":
      return { ...state, active: state.active.filter((one) => one.runId !== event["runId"]) };
    default:
      return state;
  }
}

function withPiece(state: SpaceState, event: SpaceEvent): SpaceState {
  const id = event.streamId;
  if (id === undefined) return state;
  if (event.type === "space.message.failed" || event["phase"] === "failed") return without(state, id);
  if (event.type !== "space.message.streaming" && event.type !== "tool.streaming") return state;
  const kind = event.type === "tool.streaming" ? "tool" : "message";
  const before = state.inFlight.find((one) => one.streamId === id) ?? begun(event, kind);
  const text = textWith(before.text, event);
  const partialArgs = kind === "tool" ? event["partialArgs"] : null;
  const now: InFlight = { ...before, text, partialArgs };
  const others = state.inFlight.filter((one) => one.streamId !== id);
  return { ...state, inFlight: [...others, now] };
}

function begun(event: SpaceEvent, kind: InFlight["kind"]): InFlight {
  return {
    streamId: event.streamId ?? "",
    kind,
    agentEntityId: String(event["agentEntityId"] ?? ""),
    toolName: kind === "tool" ? String(event["toolName"] ?? "") : null,
    text: "",
    partialArgs: {},
  };
}

function put(messages: readonly SpaceMessage[], message: SpaceMessage): SpaceMessage[] {
  const place = messages.findIndex((one) => one.id === message.id);
  if (place >= 0) return messages.with(place, message);
  const last = messages.at(-1);
  if (last === undefined || last.seq < message.seq) return [...messages, message];
  return [...messages, message].sort((one, other) => one.seq - other.seq);
}

function ended(message: SpaceMessage, event: SpaceEvent): SpaceMessage {
  const call = message.metadata as unknown as ToolCallData;
  if (call.type !== "tool_call" || call.toolCallId !== event.streamId) return message;
  const how =
    event.type === "tool.done"
      ? { status: "complete", result: event["result"] }
      : { status: "error", error: event["error"], result: null };
  return { ...message, metadata: { ...message.metadata, ...how } };
}

function without(state: SpaceState, streamId: string | undefined): SpaceState {
  return { ...state, inFlight: state.inFlight.filter((one) => one.streamId !== streamId) };
}
