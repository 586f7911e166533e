/**
 * Agents that work for this program and may call functions of it (caller tools). While a session is open its events are
 * read, which also shows the gateway that the caller is present; when that stops, the agent's open requests fail at once.
 */
import type { ToolAnswer } from "./calls.js";
import { built, type Connection } from "./connection.js";
import { GatewayError, isAway, SessionFailed } from "./errors.js";
import { definition, run, servedTools, type Servables, type ServedTool } from "./functions.js";
import type { EventsPage, SessionEvent, SessionRecord } from "./generated.js";
import { Slots } from "./serving.js";
import { Pauses, Queue, sleep } from "./waiting.js";

export interface OpenOptions {
  /** An entry of the gateway's `[agents]` or `[sessions]`; may be left out when there is only one. */
  agent?: string;
  /** Functions that the agent sees as `{callerId}_{name}`. */
  tools?: Servables;
  message?: string;
  /** Opens a session of this key again that has ended; it starts afresh. */
  sessionId?: string;
  callerId?: string;
  /** How many of the agent's requests run at once at most. Default 10. */
  concurrency?: number;
}

const CALLER_ID = "caller";
const ENDED = ["completed", "failed", "timed_out"];
/** A session lives in one gateway process: one that is away for so long has most likely lost it. */
const AWAY_MS = 60_000;
const REMEMBERED = 10_000;

export class Sessions {
  constructor(private readonly connection: Connection) {}

  /** Opens a session. Use it with `await using`, or end it with `end()`. */
  async open({ agent, tools = {}, message, sessionId, callerId = CALLER_ID, concurrency = 10 }: OpenOptions = {}): Promise<Session> {
    const functions = Object.keys(tools).length === 0 ? new Map<string, ServedTool>() : servedTools(tools);
    const body = {
      caller_id: callerId,
      caller_tools: lent(functions),
      agent: agent ?? null,
      message: message ?? null,
      session_id: sessionId ?? null,
    };
    const { session } = await this.connection.request("POST /api/sessions", { body });
    const callerTools = new CallerTools(this.connection, session.id, functions, concurrency);
    return new Session(this.connection, session, callerId, callerTools);
  }

  /** Newest first, with those that ended recently. */
  async list(): Promise<SessionRecord[]> {
    return (await this.connection.request("GET /api/sessions")).sessions;
  }

  async get(id: string): Promise<SessionRecord> {
    return (await this.connection.request("GET /api/sessions/{id}", { path: { id } })).session;
  }
}

/** An open session, whose agent may call the caller tools while it is open. */
export class Session {
  readonly id: string;

  constructor(
    private readonly connection: Connection,
    /** As it was when it was opened. */
    readonly info: SessionRecord,
    private readonly callerId: string,
    private readonly callerTools: CallerTools,
  ) {
    this.id = info.id;
  }

  /** Sends a message to the agent. Returns the index after which its events come. */
  async message(message: string): Promise<number> {
    return this.post({ message });
  }

  /** Sends a message and waits for the agent's answer; of a program, that is its first line. */
  async ask(message: string): Promise<string> {
    const [events, leave] = this.callerTools.subscribe();
    try {
      const after = await this.post({ message });
      for await (const event of events) {
        if (event.index <= after) continue;
        if (event.type === "error") throw new SessionFailed(event.error ?? "The agent failed.");
        if (event.type === "completion" || (event.type === "message" && this.info.kind === "program")) return event.text ?? "";
      }
      throw new SessionFailed(`Session '${this.id}' was over before the agent had answered.`);
    } finally {
      leave();
    }
  }

  /** Replaces the caller tools with these functions. */
  async lend(tools: Servables): Promise<void> {
    const functions = servedTools(tools);
    this.callerTools.functions = functions;
    await this.post({ caller_id: this.callerId, caller_tools: lent(functions) });
  }

  /** Events after an index, past and future, to the end of the session. */
  async *events({ after = -1, signal }: { after?: number; signal?: AbortSignal } = {}): AsyncGenerator<SessionEvent, void> {
    const [method, path] = built("GET /api/sessions/{id}/events", { path: { id: this.id }, query: { since_index: after } });
    for await (const { data } of this.connection.stream(method, path, { signal })) {
      const event = data as SessionEvent;
      yield event;
      if (event.type === "status" && ENDED.includes(event.status ?? "")) return;
    }
  }

  /** A page of what happened, the oldest first. */
  history(after = -1): Promise<EventsPage> {
    return this.connection.request("GET /api/sessions/{id}/events", { path: { id: this.id }, query: { since_index: after } }) as Promise<EventsPage>;
  }

  /** Ends the session and its agent. Does nothing when it is over. */
  async end(): Promise<void> {
    try {
      await this.connection.request("DELETE /api/sessions/{id}", { path: { id: this.id } }, { repeatable: true });
    } finally {
      this.callerTools.stop();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  private async post(body: { message?: string; caller_id?: string; caller_tools?: Record<string, unknown>[] }): Promise<number> {
    return (await this.connection.request("POST /api/sessions/{id}/messages", { path: { id: this.id }, body })).last_event_index;
  }
}

/** Reads the events of one session and answers the agent's requests, each once. */
class CallerTools {
  private readonly slots: Slots;
  private readonly started = new Set<string>();
  private readonly queued = new Set<string>();
  private readonly subscribers = new Set<Queue<SessionEvent>>();
  private readonly stopped = new AbortController();
  private isOver = false;
  private last: string | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly id: string,
    public functions: Map<string, ServedTool>,
    concurrency: number,
  ) {
    this.slots = new Slots(concurrency);
    void this.listen()
      .catch(() => undefined) // what waits for an answer is told by the end of the events
      .finally(() => {
        this.isOver = true;
        for (const queue of this.subscribers) queue.end();
      });
  }

  stop(): void {
    this.stopped.abort();
  }

  /** The events from now on, and how to leave them. */
  subscribe(): [AsyncIterable<SessionEvent>, () => void] {
    const queue = new Queue<SessionEvent>();
    this.subscribers.add(queue);
    if (this.isOver) queue.end();
    return [queue, () => void this.subscribers.delete(queue)];
  }

  private async listen(): Promise<void> {
    const pauses = new Pauses();
    let awaySince = performance.now();
    for (;;) {
      const before = this.last;
      try {
        if (await this.listenOnce()) return;
        pauses.reset();
        awaySince = performance.now();
      } catch (fault) {
        if (fault instanceof GatewayError && fault.code === "events_purged") this.last = null;
        else if (!isAway(fault) || (this.last === before && performance.now() - awaySince > AWAY_MS)) throw fault;
        if (this.last !== before) awaySince = performance.now();
      }
      await sleep(pauses.next(), this.stopped.signal);
    }
  }

  /** Reads one stream. True: the session has ended. */
  private async listenOnce(): Promise<boolean> {
    const [method, path] = built("GET /api/sessions/{id}/events", { path: { id: this.id } });
    let isEnded = false;
    const options = { after: this.last, signal: this.stopped.signal, onOver: () => (isEnded = true) };
    for await (const { id, data } of this.connection.stream(method, path, options)) {
      if (id !== null) this.last = id;
      const event = data as SessionEvent;
      this.take(event);
      isEnded ||= event.type === "status" && ENDED.includes(event.status ?? "");
    }
    return isEnded;
  }

  private take(event: SessionEvent): void {
    for (const queue of this.subscribers) queue.push(event);
    const id = event.request_id;
    if (id === undefined) return;
    if (event.type === "caller_tool_settled") this.queued.delete(id);
    if (event.type !== "caller_tool_request" || this.started.has(id)) return;
    this.started.add(id);
    this.queued.add(id);
    if (this.started.size > REMEMBERED) this.started.delete(this.started.values().next().value!);
    void this.answer(event, id).catch(() => undefined); // the session is over, or refuses the answer for good
  }

  private async answer(event: SessionEvent, id: string): Promise<void> {
    await this.slots.take();
    let answer: ToolAnswer;
    try {
      if (!this.queued.delete(id)) return; // settled while it waited: the agent may have moved on
      const name = event.tool ?? "";
      const tool = this.functions.get(name);
      const context = { callId: id, tool: name, attempt: 1, signal: this.stopped.signal, progress: () => undefined };
      answer = tool === undefined ? { error: `This caller does not lend '${name}' any more.` } : await run(name, tool, event.arguments, context);
    } finally {
      this.slots.free();
    }
    await this.deliver(id, answer);
  }

  /** Sends the answer until the gateway has accepted or refused it. */
  private async deliver(id: string, answer: ToolAnswer): Promise<void> {
    const pauses = new Pauses();
    for (;;) {
      try {
        return await this.submit(id, answer);
      } catch (fault) {
        if (!isAway(fault) || this.isOver) throw fault;
        await sleep(pauses.next(), this.stopped.signal);
      }
    }
  }

  private async submit(id: string, answer: ToolAnswer): Promise<void> {
    try {
      await this.connection.request("POST /api/sessions/{id}/tool-responses", { path: { id: this.id }, body: { request_id: id, ...answer } });
    } catch (fault) {
      const status = fault instanceof GatewayError ? fault.status : 0;
      if ([404, 409, 410].includes(status)) return; // it needs no answer any more
      if (![400, 413].includes(status) || "error" in answer) throw fault;
      await this.submit(id, { error: `The result was not taken: ${(fault as Error).message}` });
    }
  }
}

function lent(functions: Map<string, ServedTool>): Record<string, unknown>[] {
  return [...functions].map(([name, tool]) => {
    const { description, inputSchema } = definition(name, tool);
    return { name, description, inputSchema };
  });
}
