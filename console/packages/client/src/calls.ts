import { built, type Connection } from "./connection.js";
import { GatewayError, isAway } from "./errors.js";
import type { CallEvent, CallPage, CallRecord, CallStatus, ResultAnswer, ResultPage, Routes } from "./generated.js";
import { parsed } from "./json.js";
import { UNSETTLED } from "./tools.js";
import { Pauses, sleep } from "./waiting.js";

const LONG_POLL_S = 30;
const LONG_POLL_SLACK_MS = 15_000;
const PAGE_BYTES = 1_000_000;

export type CallsQuery = NonNullable<Routes["GET /api/v1/calls"]["query"]>;
/** The answer to a call: its result, which may be any JSON, or an error message. */
export type ToolAnswer = { result: unknown } | { error: string };

/** The calls that this key may see. */
export class Calls {
  constructor(private readonly connection: Connection) {}

  async get(id: string): Promise<CallRecord> {
    return (await this.connection.request("GET /api/v1/calls/{id}", { path: { id } })).call;
  }

  /** One page of calls, newest first; `cursor` is the `next_cursor` of the page before. */
  list(query: CallsQuery = {}): Promise<CallPage> {
    return this.connection.request("GET /api/v1/calls", { query });
  }

  /** Every matching call, newest first, page after page. */
  async *iterate(query: CallsQuery = {}): AsyncGenerator<CallRecord, void> {
    for (let cursor = query.cursor; ; ) {
      const page = await this.list(cursor === undefined ? query : { ...query, cursor });
      yield* page.calls;
      if (page.next_cursor === null) return;
      cursor = page.next_cursor;
    }
  }

  /** Every call that waits for an approval, a login or an answer, newest first. */
  async pending({ tool, agent }: { tool?: string; agent?: string } = {}): Promise<CallRecord[]> {
    const query: CallsQuery = { status: "pending_approval,pending_login,pending,waiting", limit: 500 };
    if (tool !== undefined) query.tool = tool;
    if (agent !== undefined) query.agent = agent;
    const found: CallRecord[] = [];
    for await (const call of this.iterate(query)) found.push(call);
    return found;
  }

  /**
   * The record once the call is settled, or as it is after `timeout` milliseconds. The gateway holds the request open; one
   * that goes away meanwhile is waited for.
   */
  async wait(id: string, { timeout = Infinity, signal }: { timeout?: number; signal?: AbortSignal } = {}): Promise<CallRecord> {
    const end = Date.now() + timeout;
    const pauses = new Pauses();
    let call = await this.get(id);
    while (!isSettled(call) && Date.now() < end) {
      const asked = Date.now();
      const seconds = Math.min(LONG_POLL_S, (end - asked) / 1000);
      const request = { path: { id }, query: { wait: seconds } };
      try {
        call = (await this.connection.request("GET /api/v1/calls/{id}", request, { signal, timeout: seconds * 1000 + LONG_POLL_SLACK_MS })).call;
        pauses.reset();
      } catch (fault) {
        if (!isAway(fault)) throw fault;
      }
      const isEarly = Date.now() - asked < seconds * 500; // the gateway is away, or holds no requests open
      if (!isSettled(call) && isEarly) await sleep(Math.min(pauses.next(), Math.max(0, end - Date.now())), signal);
    }
    return call;
  }

  /** A settled call's whole result, however large: read by pages. A failed call has one too: what its caller received. */
  async result<Result = unknown>(id: string): Promise<Result> {
    const texts: string[] = [];
    for (let offset: number | null = 0; offset !== null; ) {
      const page: ResultPage = await this.connection.request("GET /api/v1/calls/{id}/result", { path: { id }, query: { offset, limit: PAGE_BYTES } });
      texts.push(page.text);
      offset = page.next_offset;
    }
    return parsed(texts.join("")) as Result;
  }

  /** Approves a call that waits for it, perhaps with other arguments. */
  async approve(id: string, args?: Record<string, unknown>): Promise<CallRecord> {
    const body = args === undefined ? {} : { arguments: args };
    return (await this.connection.request("POST /api/v1/calls/{id}/approve", { path: { id }, body })).call;
  }

  /** Rejects a call that waits for approval; its caller gets the reason. */
  async reject(id: string, reason?: string): Promise<CallRecord> {
    const body = reason === undefined ? {} : { reason };
    return (await this.connection.request("POST /api/v1/calls/{id}/reject", { path: { id }, body })).call;
  }

  async cancel(id: string): Promise<CallRecord> {
    return (await this.connection.request("POST /api/v1/calls/{id}/cancel", { path: { id } })).call;
  }

  /** Reports how far a waiting call has come, which extends its deadline up to the tool's limit. */
  async progress(id: string, body: Routes["POST /api/v1/calls/{id}/progress"]["body"]): Promise<void> {
    await this.connection.request("POST /api/v1/calls/{id}/progress", { path: { id }, body });
  }

  /** Gives a waiting call its result: any JSON value, null included. The first answer wins; a later one throws. */
  submit(id: string, result: unknown, options: { runId?: string } = {}): Promise<ResultAnswer> {
    return this.answer(id, { result }, options.runId);
  }

  /** Settles a waiting call with an error message. */
  fail(id: string, error: string, options: { runId?: string } = {}): Promise<ResultAnswer> {
    return this.answer(id, { error }, options.runId);
  }

  /** Sends it, and once more if the response was lost: if the first copy arrived, the second is refused with 409. */
  private async answer(id: string, answer: ToolAnswer, runId?: string): Promise<ResultAnswer> {
    const run = runId ?? (await this.get(id)).run_id;
    try {
      return await submitAnswer(this.connection, id, answer, run);
    } catch (fault) {
      if (!isAway(fault)) throw fault;
      await sleep(new Pauses().next());
    }
    try {
      return await submitAnswer(this.connection, id, answer, run);
    } catch (fault) {
      if (!(fault instanceof GatewayError) || fault.code !== "already_resolved") throw fault;
      const call = await this.get(id);
      if (!(await this.isSettledWith(call, answer))) throw fault;
      return { success: true, callId: id, agentEntityId: call.agent, delivery: call.delivery ?? "inline" };
    }
  }

  private async isSettledWith(call: CallRecord, answer: ToolAnswer): Promise<boolean> {
    if ("error" in answer) return call.error?.message === answer.error;
    return call.status === "completed" && isEqual(await this.result(call.id), JSON.parse(JSON.stringify(answer.result ?? null)));
  }

  /**
   * Events of calls from now on, across reconnects, until the iteration is left. With `status` only of calls in it: those
   * that are in it now, which come again after a reconnect, and the event of one that leaves it.
   */
  async *follow({ signal, ...query }: NonNullable<Routes["GET /api/v1/calls/stream"]["query"]> & { signal?: AbortSignal } = {}): AsyncGenerator<CallEvent, void> {
    const [, path] = built("GET /api/v1/calls/stream", { query });
    for await (const { data } of this.connection.follow(path, { signal })) {
      if ((data as CallEvent).type.startsWith("call.")) yield data as CallEvent;
    }
  }
}

/** Whether the call has its outcome, which never changes again. */
export function isSettled({ status }: { status: CallStatus }): boolean {
  return !UNSETTLED.includes(status);
}

/** Sends an answer once. A second one for the same call, even an equal one, is refused. */
export function submitAnswer(connection: Connection, callId: string, answer: ToolAnswer, runId: string): Promise<ResultAnswer> {
  const body = "error" in answer ? { callId, error: answer.error } : { callId, result: answer.result ?? null };
  return connection.request("POST /api/runs/{runId}/tool-results", { path: { runId }, body });
}

function isEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return Object.is(one, other);
  const [keys, others] = [Object.keys(one), Object.keys(other)];
  return keys.length === others.length && Array.isArray(one) === Array.isArray(other) && keys.every((key) => key in other && isEqual((one as Record<string, unknown>)[key], (other as Record<string, unknown>)[key]));
}
