/**
 * A turn in a space: a message is posted or a call answered, and then comes what agents write and call, until nobody is
 * active any more. The adapters for other chat front ends (`ai-sdk.ts`, `ag-ui.ts`) are made of it. Below: the client
 * and the stream, which resumes by itself.
 */
import { GatewayError, textWith } from "@jackfield/client";
import type { Client } from "./client.js";
import { follow, type StreamState } from "./stream.js";
import { toolCallOf, type ActiveAgent, type SpaceEvent, type SpaceMessage, type ToolCallData } from "./types.js";

export type TurnEvent =
  /** More of a message; `text` is all of it so far. */
  | { type: "text"; id: string; delta: string; text: string }
  | { type: "text-end"; id: string; text: string; sender: string }
  /** A visible call; `requires_action` is waiting for somebody's answer. */
  | { type: "call"; call: ToolCallData }
  | { type: "call-end"; call: ToolCallData };

export interface Turn {
  content?: string;
  answers?: readonly { call: Pick<ToolCallData, "toolCallId" | "runId">; result: unknown }[];
  signal?: AbortSignal | undefined;
  /** How long to wait for an agent that takes the turn up; milliseconds. A space may have none. */
  patience?: number;
}

const PATIENCE_MS = 20_000;
/** Another agent may begin because of what the first one said. */
const SETTLED_MS = 500;

export async function* takeTurn(client: Client, spaceId: string, { content, answers = [], signal, patience = PATIENCE_MS }: Turn): AsyncGenerator<TurnEvent, void> {
  const path = `/api/spaces/${encodeURIComponent(spaceId)}`;
  const { lastSeq } = await client.get<{ lastSeq: number }>(`${path}/messages?limit=1`);
  const reader = new TurnReader(patience);
  const stop = follow(client, `${path}/stream`, { after: lastSeq, onFrame: ({ data }) => reader.take(data as SpaceEvent), onState: reader.takeState });
  const abort = (): void => reader.end();
  signal?.addEventListener("abort", abort);
  try {
    for (const { call, result } of answers) await answerCall(client, call, result);
    if (content !== undefined) await client.post(`${path}/messages`, { content });
    reader.begin();
    yield* reader.events();
  } finally {
    signal?.removeEventListener("abort", abort);
    reader.end();
    stop();
  }
}

/** The messages of a space, the newest hundred, in order. */
export async function history(client: Client, spaceId: string): Promise<SpaceMessage[]> {
  return (await client.get<{ messages: SpaceMessage[] }>(`/api/spaces/${encodeURIComponent(spaceId)}/messages?limit=100`)).messages;
}

/** Answers a pending call. The first answer wins; a later one is refused. */
export async function answerCall(client: Client, { toolCallId, runId }: Pick<ToolCallData, "toolCallId" | "runId">, result: unknown): Promise<void> {
  await client.post(`/api/runs/${encodeURIComponent(runId ?? "")}/tool-results`, { callId: toolCallId, result });
}

/** Turns the events of a space into those of a turn, and knows when it is over. */
class TurnReader {
  private readonly queue: TurnEvent[] = [];
  private readonly texts = new Map<string, string>();
  private readonly calls = new Map<string, ToolCallData>();
  private readonly active = new Set<string>();
  private wake: () => void = () => {};
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isOver = false;
  private hasBegun = false;
  private wasActive = false;
  private fault: GatewayError | null = null;

  constructor(private readonly patience: number) {}

  /** Everything has been sent: from now on silence means that it is over. */
  begin(): void {
    this.hasBegun = true;
    this.endIn(this.active.size > 0 ? null : this.wasActive ? SETTLED_MS : this.patience);
  }

  end(): void {
    clearTimeout(this.timer);
    this.isOver = true;
    this.wake();
  }

  takeState = (state: StreamState): void => {
    if (state.is !== "refused") return;
    this.fault = state.error;
    this.end();
  };

  async *events(): AsyncGenerator<TurnEvent, void> {
    for (;;) {
      for (let next = this.queue.shift(); next !== undefined; next = this.queue.shift()) yield next;
      if (this.fault !== null) throw this.fault;
      if (this.isOver) return;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  take(event: SpaceEvent): void {
    switch (event.type) {
      case "connected":
        for (const { runId } of (event["activeAgents"] as ActiveAgent[] | undefined) ?? []) this.active.add(runId);
        break;
      case "agent.active":
        this.active.add(String(event["runId"]));
        this.wasActive = true;
        this.endIn(null);
        break;
      case "agent.inactive":
        this.active.delete(String(event["runId"]));
        if (this.active.size === 0) this.endIn(SETTLED_MS);
        break;
      case "space.message.streaming":
        this.grow(event.streamId ?? "", textWith(this.texts.get(event.streamId ?? "") ?? "", event));
        break;
      case "space.message":
        this.takeMessage(event["message"] as SpaceMessage, event.streamId);
        break;
      case "tool.done":
      case "tool.error":
        this.endCall(event);
    }
    this.wake();
  }

  private endIn(milliseconds: number | null): void {
    clearTimeout(this.timer);
    if (milliseconds !== null && this.hasBegun) this.timer = setTimeout(() => this.end(), milliseconds);
  }

  /** Nothing that was given is taken back, so only what is added is passed on. */
  private grow(id: string, text: string): void {
    const before = this.texts.get(id) ?? "";
    if (text.length <= before.length) return;
    this.texts.set(id, text);
    this.queue.push({ type: "text", id, delta: text.slice(before.length), text });
  }

  private takeMessage(message: SpaceMessage, streamId: string | undefined): void {
    const call = toolCallOf(message);
    if (call !== null) {
      this.calls.set(call.toolCallId, call);
      this.queue.push({ type: "call", call });
      if (call.status === "complete" || call.status === "error") this.queue.push({ type: "call-end", call });
      return;
    }
    if (message.senderType !== "agent") return;
    const id = streamId ?? message.id;
    this.grow(id, message.content);
    this.texts.delete(id);
    this.queue.push({ type: "text-end", id, text: message.content, sender: message.senderName });
  }

  private endCall(event: SpaceEvent): void {
    const known = this.calls.get(event.streamId ?? "");
    if (known === undefined) return;
    const call: ToolCallData = event.type === "tool.done" ? { ...known, status: "complete", result: event["result"] } : { ...known, status: "error", error: String(event["error"] ?? "failed") };
    this.calls.set(call.toolCallId, call);
    this.queue.push({ type: "call-end", call });
  }
}
