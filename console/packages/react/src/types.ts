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

export interface SpaceMessage {
  id: string;
  spaceId: string;
  entityId: string;
  senderName: string;
  senderType: "person" | "agent" | "system";
  role: "user" | "assistant" | "system";
  content: string;
  metadata: Record<string, unknown>;
  seq: number;
  runId: string | null;
  createdAt: string;
  /** When its author changed it last, if ever. */
  editedAt?: string;
}

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

export class GatewayError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: { path: string; message: string }[] = [],
  ) {
    super(message);
    this.name = "GatewayError";
  }

  /** Whether a retry would fail the same way. */
  get isFinal(): boolean {
    return [400, 401, 403, 404].includes(this.status);
  }
}

export function toolCallOf(message: SpaceMessage): ToolCallData | null {
  return message.metadata["type"] === "tool_call" ? (message.metadata as unknown as ToolCallData) : null;
}
