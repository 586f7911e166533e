import type { MessageRecord } from "@jackfield/client";

/** Records as the gateway sends them. */

export type CallState = "running" | "requires_action" | "complete" | "error";

export interface ToolCallData {
  type: "tool_call";
  toolCallId: string;
  toolName: string;
  args: unknown;
  result: unknown;
  status: CallState;
  runId: string | null;
  error?: string;
  /** The schema of the answer, if known. */
  answerSchema?: Record<string, unknown>;
}

export type SpaceMessage = Omit<MessageRecord, "smartSpaceId">;

export interface ActiveAgent {
  agentEntityId: string;
  agentName: string;
  runId: string;
}

/** One event of a space's stream. Durable events have a `seq`, deltas an `offset`. */
export interface SpaceEvent {
  type: string;
  seq?: number;
  streamId?: string;
  offset?: number;
  delta?: string;
  [field: string]: unknown;
}

export function toolCallOf(message: SpaceMessage): ToolCallData | null {
  return message.metadata["type"] === "tool_call" ? (message.metadata as unknown as ToolCallData) : null;
}
