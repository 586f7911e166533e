import { built, type Connection } from "./connection.js";
import { CallPending, GatewayUnreachable, ToolFailed } from "./errors.js";
import type { CallEvent, CallStatus, ExecuteAnswer, Routes, ToolEntry, ToolsChanged } from "./generated.js";
import { newId } from "./ids.js";
import { serve, type ServeOptions, type Servables } from "./serving.js";

export interface CallOptions {
  /** Ends the waiting, not the call. */
  signal?: AbortSignal | undefined;
  /** Milliseconds after which the waiting ends, not the call. */
  timeout?: number;
  /** In whose name: an agent, perhaps in a space. */
  agent?: string;
  spaceId?: string;
  chatId?: string;
  runId?: string;
  /**
   * The same key with the same arguments is the same call for 24 hours, so the request may be sent twice. Made anew for
   * each call unless given; null: none, and a lost connection is not mended.
   */
  idempotencyKey?: string | null;
  /** Receives the call's events: its start, progress and log messages. */
  onEvent?: (event: CallEvent) => void;
}

/** Statuses of a call without an outcome; every other one is final. */
export const UNSETTLED: readonly CallStatus[] = ["running", "waiting", "pending", "pending_approval", "pending_login"];

/** The catalog as this key sees it. */
export class Tools {
  constructor(private readonly connection: Connection) {}

  /** Every tool, by name, or those of one group. */
  async list(query: Routes["GET /api/v1/tools"]["query"] = {}): Promise<ToolEntry[]> {
    return (await this.connection.request("GET /api/v1/tools", { query })).tools;
  }

  get(name: string): Promise<ToolEntry> {
    return this.connection.request("GET /api/v1/tools/{name}", { path: { name } });
  }

  /** The tools that match best, best first. */
  async search(q: string, { limit, group }: { limit?: number; group?: string } = {}): Promise<ToolEntry[]> {
    const query = { q, ...(limit === undefined ? {} : { limit }), ...(group === undefined ? {} : { group }) };
    return (await this.connection.request("GET /api/v1/tools/search", { query })).tools;
  }

  /**
   * Calls a tool and returns its plain result. A tool that fails throws `ToolFailed`, a call that needs approval or is
   * answered elsewhere `CallPending`, one that is refused `GatewayError`.
   */
  async call<Result = unknown>(name: string, args: Record<string, unknown> = {}, options: CallOptions = {}): Promise<Result> {
    const answer = await this.start(name, args, options);
    if (answer.status === "completed") return answer.result as Result;
    throw UNSETTLED.includes(answer.status) ? new CallPending(name, answer) : new ToolFailed(name, answer);
  }

  /** Calls a tool and returns the gateway's whole response, whether the call completed, failed or waits for somebody. */
  async start(name: string, args: Record<string, unknown> = {}, options: CallOptions = {}): Promise<ExecuteAnswer> {
    const { agent = null, spaceId = null, chatId = null, runId = null, signal, timeout = 0, onEvent } = options;
    const key = options.idempotencyKey === undefined ? (this.connection.repeats ? newId("ts") : null) : options.idempotencyKey;
    const headers: Record<string, string> = key === null ? {} : { "idempotency-key": key };
    const body = { arguments: args, agent, space_id: spaceId, chat_id: chatId, run_id: runId };
    if (onEvent !== undefined) return this.startStreaming(name, body, { headers, signal: within(timeout, signal), onEvent });
    return this.connection.request("POST /api/v1/tools/{name}/execute", { path: { name }, body }, { signal, timeout, headers, repeatable: key !== null }) as Promise<ExecuteAnswer>;
  }

  private async startStreaming(
    name: string,
    body: Routes["POST /api/v1/tools/{name}/execute"]["body"] & {},
    { headers, signal, onEvent }: { headers: Record<string, string>; signal: AbortSignal | undefined; onEvent: (event: CallEvent) => void },
  ): Promise<ExecuteAnswer> {
    const [method, path] = built("POST /api/v1/tools/{name}/execute", { path: { name } });
    for await (const { event, data } of this.connection.stream(method, path, { body, headers, signal })) {
      if (event === "call.result") return data as ExecuteAnswer;
      onEvent(data as CallEvent);
    }
    throw new GatewayUnreachable("The gateway ended the call's stream without its answer. See the gateway's log.");
  }

  /** Every change of the catalog from now on, across reconnects, until the iteration is left. */
  async *follow({ signal }: { signal?: AbortSignal } = {}): AsyncGenerator<ToolsChanged, void> {
    for await (const { event, data } of this.connection.follow("/api/v1/tools/changes", { signal })) {
      if (event === "tools.changed") yield data as ToolsChanged;
    }
  }

  /**
   * Answers calls of tools with these functions until the signal is aborted, as one of the gateway's tool servers. Each
   * call is started once, also after a reconnect; an unreachable gateway is waited for, one that refuses throws.
   */
  serve(functions: Servables, options: ServeOptions = {}): Promise<void> {
    return serve(this.connection, functions, options);
  }
}

/** The signal, or one that is aborted after some time as well. */
function within(milliseconds: number, signal: AbortSignal | undefined): AbortSignal | undefined {
  if (milliseconds <= 0) return signal;
  const limit = AbortSignal.timeout(milliseconds);
  return signal === undefined ? limit : AbortSignal.any([signal, limit]);
}
