/**
 * A space for the Vercel AI SDK: `new SpaceTransport({ client, spaceId })` is the `transport` of `useChat`, and its
 * `history()` are the first `messages`. Calls are parts of the type `dynamic-tool`; the output of one that waits for an
 * answer (`addToolOutput`) is sent to the gateway. Nothing of the SDK is imported: the types here are those of its
 * `ChatTransport` and `UIMessageChunk`.
 */
import type { Client } from "./client.js";
import { history, takeTurn, type Turn, type TurnEvent } from "./turn.js";
import { toolCallOf, type SpaceMessage, type ToolCallData } from "./types.js";

interface Part {
  type: string;
  [field: string]: unknown;
}

interface Message {
  id: string;
  role: "system" | "user" | "assistant";
  parts: Part[];
}

export type Chunk =
  | { type: "start" | "finish" | "start-step" | "finish-step" }
  | { type: "text-start" | "text-end"; id: string }
  | { type: "text-delta"; id: string; delta: string }
  | { type: "tool-input-available"; toolCallId: string; toolName: string; input: unknown; dynamic: true }
  | { type: "tool-output-available"; toolCallId: string; output: unknown; dynamic: true }
  | { type: "tool-output-error"; toolCallId: string; errorText: string; dynamic: true };

/** As the SDK's `DynamicToolUIPart` and `TextUIPart`. */
type ShownPart =
  | { type: "text"; text: string; state: "done" }
  | { type: "dynamic-tool"; toolName: string; toolCallId: string; state: "input-available"; input: unknown }
  | { type: "dynamic-tool"; toolName: string; toolCallId: string; state: "output-available"; input: unknown; output: unknown }
  | { type: "dynamic-tool"; toolName: string; toolCallId: string; state: "output-error"; input: unknown; errorText: string };

export interface ShownMessage {
  id: string;
  role: "user" | "assistant";
  parts: ShownPart[];
}

export class SpaceTransport {
  private readonly client: Client;
  private readonly spaceId: string;
  private readonly patience: number | undefined;
  /** Calls that wait for an answer. */
  private readonly open = new Map<string, ToolCallData>();

  constructor({ client, spaceId, patience }: { client: Client; spaceId: string; patience?: number }) {
    this.client = client;
    this.spaceId = spaceId;
    this.patience = patience;
  }

  /** What has been said in the space, as messages of the SDK. */
  async history(): Promise<ShownMessage[]> {
    return (await history(this.client, this.spaceId)).map((message) => this.shown(message));
  }

  async sendMessages({ trigger, messages, abortSignal }: { trigger: string; messages: readonly Message[]; abortSignal?: AbortSignal | undefined }): Promise<ReadableStream<Chunk>> {
    if (trigger === "regenerate-message") throw new Error("A space keeps what was said. Send another message instead.");
    const last = messages.at(-1);
    const turn: Turn = { signal: abortSignal };
    if (this.patience !== undefined) turn.patience = this.patience;
    if (last?.role === "user") turn.content = textOf(last);
    else turn.answers = this.answersIn(last);
    return streamOf(this.chunks(takeTurn(this.client, this.spaceId, turn)));
  }

  /** There is no half a turn to go on with: `history()` has what was said meanwhile. */
  async reconnectToStream(): Promise<null> {
    return null;
  }

  private answersIn(message: Message | undefined): { call: ToolCallData; result: unknown }[] {
    return (message?.parts ?? []).flatMap((part) => {
      const call = this.open.get(String(part["toolCallId"]));
      if (call === undefined || part["state"] !== "output-available") return [];
      this.open.delete(call.toolCallId);
      return [{ call, result: part["output"] }];
    });
  }

  private async *chunks(events: AsyncIterable<TurnEvent>): AsyncGenerator<Chunk> {
    const begun = new Set<string>();
    const shown = new Set<string>();
    yield { type: "start" };
    yield { type: "start-step" };
    for await (const event of events) {
      if (event.type === "text") {
        if (!begun.has(event.id)) yield { type: "text-start", id: event.id };
        begun.add(event.id);
        yield { type: "text-delta", id: event.id, delta: event.delta };
      } else if (event.type === "text-end") {
        if (begun.delete(event.id)) yield { type: "text-end", id: event.id };
      } else if (event.type === "call") {
        const { call } = event;
        if (call.status === "requires_action") this.open.set(call.toolCallId, call);
        if (!shown.has(call.toolCallId)) yield { type: "tool-input-available", toolCallId: call.toolCallId, toolName: call.toolName, input: call.args, dynamic: true };
        shown.add(call.toolCallId);
      } else {
        this.open.delete(event.call.toolCallId);
        if (shown.has(event.call.toolCallId)) yield outputOf(event.call);
      }
    }
    for (const id of begun) yield { type: "text-end", id };
    yield { type: "finish-step" };
    yield { type: "finish" };
  }

  private shown(message: SpaceMessage): ShownMessage {
    const call = toolCallOf(message);
    if (call === null) return { id: message.id, role: message.senderType === "person" ? "user" : "assistant", parts: [{ type: "text", text: message.content, state: "done" }] };
    if (call.status === "requires_action") this.open.set(call.toolCallId, call);
    return { id: message.id, role: "assistant", parts: [partOf(call)] };
  }
}

function partOf({ toolName, toolCallId, args: input, status, result: output, error }: ToolCallData): ShownPart {
  const same = { type: "dynamic-tool", toolName, toolCallId, input } as const;
  if (status === "complete") return { ...same, state: "output-available", output };
  if (status === "error") return { ...same, state: "output-error", errorText: error ?? "failed" };
  return { ...same, state: "input-available" };
}

function outputOf({ toolCallId, status, result, error }: ToolCallData): Chunk {
  if (status === "error") return { type: "tool-output-error", toolCallId, errorText: error ?? "failed", dynamic: true };
  return { type: "tool-output-available", toolCallId, output: result, dynamic: true };
}

function textOf({ parts }: Message): string {
  return parts.flatMap((part) => (part.type === "text" ? [String(part["text"])] : [])).join("\n");
}

function streamOf<T>(items: AsyncGenerator<T>): ReadableStream<T> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await items.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await items.return(undefined);
    },
  });
}
