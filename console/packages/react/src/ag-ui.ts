/**
 * A space for front ends that speak AG-UI: `runInSpace(client, spaceId, input)` gives the events of one run, for the
 * `run` of an `AbstractAgent`. The last message of the input is posted, or, where it is the result of a tool, sent to the
 * call that waits for it. Nothing of AG-UI is imported: the events are plain objects as its protocol has them.
 */
import type { Client } from "./client.js";
import { history, takeTurn, type Turn } from "./turn.js";
import { toolCallOf, type ToolCallData } from "./types.js";

export interface RunInput {
  threadId: string;
  runId: string;
  messages: readonly { id: string; role: string; content?: unknown; toolCallId?: unknown }[];
}

export interface AgUiEvent {
  type: string;
  [field: string]: unknown;
}

export async function* runInSpace(client: Client, spaceId: string, { threadId, runId, messages }: RunInput, { signal, patience }: Pick<Turn, "signal" | "patience"> = {}): AsyncGenerator<AgUiEvent> {
  const begun = new Set<string>();
  const shown = new Set<string>();
  yield { type: "RUN_STARTED", threadId, runId };
  try {
    const turn: Turn = { ...(await turnOf(client, spaceId, messages)), signal };
    if (patience !== undefined) turn.patience = patience;
    for await (const event of takeTurn(client, spaceId, turn)) {
      if (event.type === "text") {
        if (!begun.has(event.id)) yield { type: "TEXT_MESSAGE_START", messageId: event.id, role: "assistant" };
        begun.add(event.id);
        yield { type: "TEXT_MESSAGE_CONTENT", messageId: event.id, delta: event.delta };
      } else if (event.type === "text-end") {
        if (begun.delete(event.id)) yield { type: "TEXT_MESSAGE_END", messageId: event.id };
      } else if (event.type === "call") {
        if (!shown.has(event.call.toolCallId)) yield* callEvents(event.call);
        shown.add(event.call.toolCallId);
      } else if (shown.has(event.call.toolCallId)) {
        yield resultEvent(event.call);
      }
    }
    for (const messageId of begun) yield { type: "TEXT_MESSAGE_END", messageId };
    yield { type: "RUN_FINISHED", threadId, runId };
  } catch (fault) {
    yield { type: "RUN_ERROR", message: (fault as Error).message };
  }
}

/** The results after the last message of an agent, or else what the person said last. */
async function turnOf(client: Client, spaceId: string, messages: RunInput["messages"]): Promise<Turn> {
  const last = messages.at(-1);
  if (last?.role !== "tool") return { content: textOf(last?.content) };
  const results = messages.slice(messages.findLastIndex(({ role }) => role !== "tool") + 1);
  const calls = new Map((await history(client, spaceId)).map((message) => toolCallOf(message)).filter((call) => call !== null).map((call) => [call.toolCallId, call]));
  return {
    answers: results.flatMap(({ toolCallId, content }) => {
      const call = calls.get(String(toolCallId));
      return call === undefined || call.status !== "requires_action" ? [] : [{ call, result: parsed(textOf(content)) }];
    }),
  };
}

function* callEvents({ toolCallId, toolName, args }: ToolCallData): Generator<AgUiEvent> {
  yield { type: "TOOL_CALL_START", toolCallId, toolCallName: toolName };
  yield { type: "TOOL_CALL_ARGS", toolCallId, delta: JSON.stringify(args ?? {}) };
  yield { type: "TOOL_CALL_END", toolCallId };
}

function resultEvent({ toolCallId, status, result, error }: ToolCallData): AgUiEvent {
  const content = status === "error" ? `Error: ${error ?? "failed"}` : typeof result === "string" ? result : (JSON.stringify(result) ?? "null");
  return { type: "TOOL_CALL_RESULT", messageId: `result-${toolCallId}`, toolCallId, content, role: "tool" };
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: unknown }) => String(part.text ?? "")).join("\n");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
