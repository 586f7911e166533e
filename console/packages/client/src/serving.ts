/**
 * A tool server: receives offered calls, runs functions for them and answers each once.
 *
 * An offer does not start a call: after a reconnect it comes again, or goes to another server. So every call that was taken
 * is remembered until long after its answer, and one that must not run twice is started only once the gateway has confirmed
 * that no other server has it (`progress` 0). Above: `client.tools.serve`. Below: `functions.ts` and the connection.
 */
import { submitAnswer, type ToolAnswer } from "./calls.js";
import { built, type Connection } from "./connection.js";
import { GatewayError, isAway, JackfieldError } from "./errors.js";
import { definition, isIdempotent, run, servedTools, type CallContext, type Servables, type ServedTool } from "./functions.js";
import type { CallOffer, CallRecord } from "./generated.js";
import { serverId } from "./server-id.js";
import { Pauses, sleep } from "./waiting.js";

export type { CallContext, Servables, ServedTool, ToolFunction } from "./functions.js";

export interface ServeOptions {
  /** Ends the serving: running calls have `grace` to finish, the others are answered as interrupted. */
  signal?: AbortSignal;
  /**
   * The source whose tools these are: they are declared with their descriptions and schemas, and need not be in the
   * gateway's config.
   */
  declare?: string;
  /** By which the gateway knows this server again. Kept in a file in Node.js; two servers must not share one. */
  clientId?: string;
  /** How many calls run at once at most. Default 10. */
  concurrency?: number;
  /** Milliseconds that running calls have after the signal. Default 10,000. */
  grace?: number;
  onConnected?: () => void;
  /** Receives what a program may want to log: broken streams, answers that were not delivered yet. */
  onWarning?: (message: string) => void;
}

const STABLE_AFTER_MS = 5_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const LONG_QUEUE_MS = 1_000;
const LAST_ANSWER_MS = 2_000;
const LAST_REPORT_MS = 2_000;
const MOST_OFFERED = 500;
/** Answered calls that are remembered. The gateway has their answers and does not offer them again. */
const REMEMBERED = 10_000;
export const INTERRUPTED =
  "Interrupted: the tool server stopped while this tool was running. It may or may not have taken effect; check before you call it again.";
const NOT_BEGUN = "The tool server stopped before it began this call, so nothing happened. Call the tool again.";

type Offer = Required<Pick<CallOffer, "toolCallId" | "toolName" | "args" | "runId" | "attempt">> & CallOffer;

/** One call of this server, from its offer to its answer. */
class TakenCall {
  /** The offer under which it is started. */
  attempt: number;
  newestAttempt: number;
  isStarted = false;
  answer: ToolAnswer | null = null;
  work: Promise<void> = Promise.resolve();
  /** Ends a pause when the gateway offers the call again: it is reachable, and has no answer yet. */
  offeredAgain: () => void = () => undefined;

  constructor(readonly offer: Offer) {
    this.attempt = this.newestAttempt = offer.attempt;
  }

  get id(): string {
    return this.offer.toolCallId;
  }

  /** Whether this server must answer it: it was started, or answered without running. */
  get isOurs(): boolean {
    return this.isStarted || this.answer !== null;
  }

  /** A pause that ends early when the call is offered again. */
  pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    return Promise.race([sleep(milliseconds, signal), new Promise<void>((resolve) => (this.offeredAgain = resolve))]);
  }
}

export async function serve(connection: Connection, functions: Servables, options: ServeOptions): Promise<void> {
  const { concurrency = 10, declare = null, clientId } = options;
  if (!(concurrency >= 1)) throw new TypeError("concurrency must be at least 1");
  const served = servedTools(functions);
  const known = clientId === undefined ? serverId(connection.url, [...served.keys()], declare) : { id: clientId, release: () => undefined };
  try {
    await new FunctionServer(connection, served, { ...options, clientId: known.id, concurrency }).run();
  } finally {
    known.release();
  }
}

class FunctionServer {
  private readonly startedAt = performance.now();
  private readonly open = new Map<string, TakenCall>();
  private readonly finished = new Set<string>();
  private readonly slots: Slots;
  /** Aborted when the work itself must end, after the grace period. */
  private readonly abandoned = new AbortController();
  private readonly stopping: AbortSignal;
  private wasConnected = false;

  constructor(
    private readonly connection: Connection,
    private readonly functions: Map<string, ServedTool>,
    private readonly options: ServeOptions & { clientId: string; concurrency: number },
  ) {
    this.slots = new Slots(options.concurrency);
    this.stopping = options.signal ?? new AbortController().signal;
  }

  /** Serves until the signal, or until the gateway refuses this server. */
  async run(): Promise<void> {
    try {
      await this.listenForever();
    } catch (fault) {
      if (!this.stopping.aborted) throw fault;
    } finally {
      await this.shutDown();
    }
  }

  private async listenForever(): Promise<void> {
    const pauses = new Pauses(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    for (;;) {
      const began = performance.now();
      let why = "The gateway ended it.";
      try {
        await this.declare();
        await this.listen();
      } catch (fault) {
        const isFault = fault instanceof GatewayError && fault.status >= 500 && fault.status !== 503;
        if (!isAway(fault) || (isFault && !this.wasConnected)) throw fault;
        why = (fault as Error).message;
      }
      if (performance.now() - began > STABLE_AFTER_MS) pauses.reset();
      const pause = pauses.next();
      this.warn(`The stream of calls broke. ${why} Reconnecting in ${Math.round(pause)} ms.`);
      await sleep(pause, this.stopping);
    }
  }

  private async declare(): Promise<void> {
    if (this.options.declare === undefined) return;
    const tools = [...this.functions].map(([name, tool]) => definition(name, tool));
    const given = { path: { name: this.options.declare }, body: { tools } };
    await this.connection.request("PUT /api/v1/sources/{name}/tools", given, { repeatable: true, signal: this.stopping });
  }

  private async listen(): Promise<void> {
    // No more than can be started at once: a call that waits here could not go to another server.
    const limit = Math.min(MOST_OFFERED, this.options.concurrency);
    const query = { tools: [...this.functions.keys()].join(","), client: this.options.clientId, limit };
    const [method, path] = built("GET /api/tools/stream", { query });
    for await (const { data } of this.connection.stream(method, path, { signal: this.stopping })) {
      const offer = data as CallOffer;
      if (offer.type === "connected") {
        this.wasConnected = true;
        this.options.onConnected?.();
      } else if (offer.type === "tool.call") {
        this.take({ toolCallId: "", toolName: "", args: {}, runId: "", attempt: 1, ...offer });
      }
    }
  }

  /** Starts working on the call, unless it was taken before. */
  private take(offer: Offer): void {
    const known = this.open.get(offer.toolCallId);
    if (known !== undefined) {
      known.newestAttempt = Math.max(known.newestAttempt, offer.attempt);
      known.offeredAgain();
    }
    if (known !== undefined || this.finished.has(offer.toolCallId)) return;
    const call = new TakenCall(offer);
    this.open.set(call.id, call);
    call.work = this.work(call)
      .catch((fault: unknown) => this.abandoned.signal.aborted || this.warn(`Call ${call.id} could not be served. ${String(fault)}`))
      .then(() => this.forget(call));
  }

  /** A call that was never started and went to another server may come back; of an answered one the id is remembered. */
  private forget(call: TakenCall): void {
    if (this.abandoned.signal.aborted) return;
    this.open.delete(call.id);
    if (!call.isOurs) return;
    this.finished.add(call.id);
    if (this.finished.size > REMEMBERED) this.finished.delete(this.finished.values().next().value!);
  }

  private async work(call: TakenCall): Promise<void> {
    const taken = performance.now();
    await this.slots.take();
    try {
      if (this.stopping.aborted) return;
      if (performance.now() - taken > LONG_QUEUE_MS && (await this.isSettled(call))) return;
      call.answer = await this.answered(call);
    } finally {
      this.slots.free();
    }
    if (call.answer !== null) await this.deliver(call);
  }

  /** Whether a call that waited in the queue needs no answer any more: cancelled, expired, answered. */
  private async isSettled(call: TakenCall): Promise<boolean> {
    try {
      return (await this.record(call.id)).finished_at !== null;
    } catch (fault) {
      return fault instanceof GatewayError && fault.status === 404;
    }
  }

  /** The function's answer, or why it was not run. Null: another server has the call. */
  private async answered(call: TakenCall): Promise<ToolAnswer | null> {
    const { toolName, args } = call.offer;
    const tool = this.functions.get(toolName);
    if (tool === undefined) return { error: `This tool server does not serve '${toolName}'.` };
    if (await this.mayHaveRun(call.offer, tool)) return { error: INTERRUPTED };
    if (!isIdempotent(tool) && !(await this.claim(call))) return null;
    if (this.stopping.aborted) return isIdempotent(tool) ? null : { error: NOT_BEGUN };
    call.isStarted = true;
    const reports = new Reports((progress, total, message) => this.report(call, progress, total, message));
    const context: CallContext = { callId: call.id, tool: toolName, attempt: call.attempt, signal: this.abandoned.signal, progress: reports.take };
    const answer = await run(toolName, tool, args, context);
    await reports.end();
    return answer;
  }

  /**
   * Has the gateway reserve the call for this server. False: another has it, or it is settled. After a lost response the
   * same offer is claimed again, since it may be ours already; if it is not, the newest one.
   */
  private async claim(call: TakenCall): Promise<boolean> {
    const pauses = new Pauses(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    for (;;) {
      try {
        await this.report(call, 0);
        return true;
      } catch (fault) {
        if (isAway(fault)) await call.pause(pauses.next(), this.stopping);
        else if (!(fault instanceof JackfieldError) || call.attempt === call.newestAttempt) return false;
        else call.attempt = call.newestAttempt;
      }
    }
  }

  private async report(call: TakenCall, progress: number, total?: number, message?: string): Promise<void> {
    const body = { progress, total: total ?? null, message: message ?? null, attempt: call.attempt };
    await this.connection.request("POST /api/v1/calls/{id}/progress", { path: { id: call.id }, body });
  }

  /** Whether an earlier server with the same id may have started a call that must not run twice. */
  private async mayHaveRun(offer: Offer, tool: ServedTool): Promise<boolean> {
    if (offer.attempt <= 1 || isIdempotent(tool)) return false;
    try {
      const made = Date.parse((await this.record(offer.toolCallId)).created_at);
      // By the gateway's clock and by this machine's, which need not agree. An age that is unknown counts as older.
      const age = Date.parse(offer.ts ?? "") - made;
      if (age <= performance.now() - this.startedAt) return false;
    } catch {
      return true;
    }
    return !(await this.isIdempotent(offer.toolName, tool));
  }

  /** Whether the function, or the gateway's definition of the tool, says so. */
  private async isIdempotent(name: string, tool: ServedTool): Promise<boolean> {
    if (isIdempotent(tool) || this.options.declare !== undefined) return isIdempotent(tool);
    try {
      return (await this.connection.request("GET /api/v1/tools/{name}", { path: { name } })).metadata.idempotent ?? false;
    } catch {
      return false;
    }
  }

  private async record(id: string): Promise<CallRecord> {
    return (await this.connection.request("GET /api/v1/calls/{id}", { path: { id } })).call;
  }

  /** Sends the answer until the gateway has accepted or refused it. */
  private async deliver(call: TakenCall): Promise<void> {
    const pauses = new Pauses(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    for (;;) {
      try {
        return await this.submit(call);
      } catch (fault) {
        if (!isAway(fault)) throw fault;
        this.warn(`The answer to call ${call.id} is not delivered yet. ${(fault as Error).message}`);
        await call.pause(pauses.next(), this.abandoned.signal);
      }
    }
  }

  private async submit(call: TakenCall): Promise<void> {
    try {
      await submitAnswer(this.connection, call.id, call.answer!, call.offer.runId);
    } catch (fault) {
      const status = fault instanceof GatewayError ? fault.status : 0;
      if ([404, 409, 410].includes(status)) return; // also the response to our own second copy, when the first was lost
      if (![400, 413, 422].includes(status) || "error" in call.answer!) throw fault;
      call.answer = { error: `The result of '${call.offer.toolName}' was not taken: ${(fault as Error).message}` };
      await this.submit(call);
    }
  }

  /** Gives running calls the grace period, and answers those that it ends. What was not begun goes to another server. */
  private async shutDown(): Promise<void> {
    const running = [...this.open.values()].filter((call) => call.isOurs);
    const over = new AbortController();
    const grace = sleep(this.options.grace ?? 10_000, over.signal).catch(() => undefined);
    await Promise.race([Promise.all(running.map((call) => call.work)), grace]);
    over.abort();
    const abandoned = running.filter((call) => this.open.has(call.id));
    this.abandoned.abort(new JackfieldError("interrupted", INTERRUPTED));
    if (abandoned.length === 0) return;
    await Promise.race([Promise.all(abandoned.map((call) => this.answerAbandoned(call))), sleep(LAST_ANSWER_MS)]);
  }

  /** Answers an abandoned call as interrupted, unless the gateway may offer it to another server. */
  private async answerAbandoned(call: TakenCall): Promise<void> {
    try {
      const tool = this.functions.get(call.offer.toolName);
      if (call.answer === null && tool !== undefined && (await this.isIdempotent(call.offer.toolName, tool))) return;
      call.answer ??= { error: INTERRUPTED };
      await this.submit(call);
    } catch (fault) {
      this.warn(`Call ${call.id} was left without an answer. ${String(fault)}`);
    }
  }

  private warn(message: string): void {
    this.options.onWarning?.(message);
  }
}

/** So many may work at once; the others wait in their order. */
export class Slots {
  private readonly waiting: (() => void)[] = [];

  constructor(private count: number) {}

  async take(): Promise<void> {
    if (this.count > 0) this.count--;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  free(): void {
    const next = this.waiting.shift();
    if (next === undefined) this.count++;
    else next();
  }
}

type Report = [progress: number, total?: number, message?: string];

/** Sends the reports of one call, one at a time; when they come faster, only the newest. */
class Reports {
  private newest: Report | null = null;
  private sending: Promise<void> | null = null;

  constructor(private readonly send: (...report: Report) => Promise<void>) {}

  take = (...report: Report): void => {
    this.newest = report;
    this.sending ??= this.sendNewest();
  };

  /** Sends what was reported, for as long as the answer may wait for it. */
  async end(): Promise<void> {
    if (this.sending !== null) await Promise.race([this.sending, sleep(LAST_REPORT_MS)]);
  }

  private async sendNewest(): Promise<void> {
    while (this.newest !== null) {
      const report = this.newest;
      this.newest = null;
      await this.send(...report).catch(() => undefined); // one that is lost is made good by the next
    }
    this.sending = null;
  }
}
