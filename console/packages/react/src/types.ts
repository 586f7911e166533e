/** What a gateway says, in its own spelling. */

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
  /** What an answer has to be, where the tool says so and whoever shows the call knows it. */
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
}

export interface ActiveAgent {
  agentEntityId: string;
  agentName: string;
  runId: string;
}

/** One frame of a space's stream. Durable ones carry a `seq`; pieces of what is in flight an `offset`. */
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

  /** Whether asking again would come to the same. */
  get isFinal(): boolean {
    return [400, 401, 403, 404].includes(this.status);
  }
}

export function toolCallOf(message: SpaceMessage): ToolCallData | null {
  return message.metadata["type"] === "tool_call" ? (message.metadata as unknown as ToolCallData) : null;
}
