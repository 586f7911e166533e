/**
 * Requests to one gateway: sending, timeouts, retries, and streams of events. Above: `client.tools` and the others, which
 * know the routes. Below: `fetch`.
 */
import { GatewayError, GatewayUnreachable, NoAnswer, refusal } from "./errors.js";
import { frames, type Frame } from "./frames.js";
import type { Routes } from "./generated.js";
import { tryParse } from "./json.js";
import { Pauses, sleep } from "./waiting.js";

export interface ConnectionOptions {
  /** The gateway's address. Without it `JACKFIELD_URL`, then the page's own origin, then http://127.0.0.1:8420. */
  url?: string | undefined;
  /** A key. Without it `JACKFIELD_KEY`; a page of the gateway's own origin has the cookie of its login. */
  key?: string | undefined;
  /** Milliseconds until a response must be there; calls and streams are not limited by it. Default 60,000; 0: none. */
  timeout?: number;
  /** How often a request is sent again after a lost connection, if it may be sent twice. Default 2. */
  retries?: number;
  /** Up to how many milliseconds the gateway's `Retry-After` is waited for (429, 503). Default 0: not at all. */
  retryAfter?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  /** Milliseconds, in place of the client's. 0: none. */
  timeout?: number | undefined;
  headers?: Record<string, string>;
  /** Whether it may be sent twice. A GET may. */
  repeatable?: boolean;
}

export interface StreamOptions extends RequestOptions {
  body?: unknown;
  /** In place of `body`: JSON that goes as it is written. */
  bodyText?: string;
  /** The id of the last known event; the stream resumes after it. */
  after?: string | null;
  onOpen?: () => void;
  /** Nothing will come any more (204): the stream need not be opened again. */
  onOver?: () => void;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** What a route takes: `{path, query, body}`, as far as it has them. */
export type Given<R extends keyof Routes> = Omit<Routes[R], "response">;
type Query = Record<string, string | number | boolean | null | undefined>;
type Parts = { path?: Record<string, string>; query?: Query; body?: unknown };
type Arguments<R extends keyof Routes> = {} extends Given<R> ? [given?: Given<R>, options?: RequestOptions] : [given: Given<R>, options?: RequestOptions];

const DEFAULT_URL = "http://127.0.0.1:8420";
const TIMEOUT_MS = 60_000;
const SILENT_MS = 75_000; // the gateway sends at least a ping every 30 s
const LONGEST_PAUSE_MS = 30_000;

export class Connection {
  /** The gateway's address without a slash at its end; empty for the page's own origin. */
  readonly url: string;
  private readonly key: string | undefined;
  private readonly fetch: typeof fetch;
  private readonly timeout: number;
  private readonly retries: number;
  private readonly retryAfter: number;

  constructor({ url, key, timeout = TIMEOUT_MS, retries = 2, retryAfter = 0, fetch: given }: ConnectionOptions = {}) {
    this.url = (url ?? environment("JACKFIELD_URL") ?? (typeof document === "undefined" ? DEFAULT_URL : "")).replace(/\/+$/, "");
    this.key = key ?? environment("JACKFIELD_KEY");
    this.timeout = timeout;
    this.retries = retries;
    this.retryAfter = retryAfter;
    this.fetch = given ?? ((input, init) => fetch(input, init));
  }

  /** Whether a request that may be sent twice is sent again after a lost connection. */
  get repeats(): boolean {
    return this.retries > 0;
  }

  /** One route of the gateway, with the types of its parameters and its response. */
  request<R extends keyof Routes>(route: R, ...[given, options]: Arguments<R>): Promise<Routes[R]["response"]> {
    const [method, path] = built(route, given);
    return this.send(method, path, (given as Parts | undefined)?.body, options);
  }

  get<T>(path: string, options?: RequestOptions): Promise<T> {
    return this.send<T>("GET", path, undefined, options);
  }

  post<T>(path: string, body?: unknown, options?: RequestOptions): Promise<T> {
    return this.send<T>("POST", path, body, options);
  }

  put<T>(path: string, body: unknown, options?: RequestOptions): Promise<T> {
    return this.send<T>("PUT", path, body, options);
  }

  patch<T>(path: string, body: unknown, options?: RequestOptions): Promise<T> {
    return this.send<T>("PATCH", path, body, options);
  }

  delete<T>(path: string, body?: unknown, options?: RequestOptions): Promise<T> {
    return this.send<T>("DELETE", path, body, options);
  }

  async send<T>(method: Method, path: string, body?: unknown, options?: RequestOptions): Promise<T> {
    const text = await this.text(method, path, body === undefined ? undefined : JSON.stringify(body), options);
    return (text ? tryParse(text) : undefined) as T;
  }

  /** The same with JSON as text, which keeps numbers that JavaScript would round. */
  async text(method: Method, path: string, body?: string, options: RequestOptions = {}): Promise<string> {
    const { signal, timeout = this.timeout, repeatable = method === "GET" } = options;
    const limit = new Limit(timeout, signal);
    const pauses = new Pauses();
    try {
      for (let attempt = 0; ; attempt++) {
        try {
          return await this.once(method, path, body, { ...options, signal: limit.signal });
        } catch (fault) {
          const pause = this.pauseAfter(fault, repeatable, pauses);
          if (pause === null || attempt >= this.retries) throw fault;
          await sleep(pause, limit.signal);
        }
      }
    } catch (fault) {
      if (!limit.isOver) throw fault;
      throw new NoAnswer(`The gateway did not answer ${method} ${path} within ${timeout} ms. The request may still take effect; look at the calls before you send it again.`);
    } finally {
      limit.end();
    }
  }

  private async once(method: Method, path: string, body: string | undefined, options: RequestOptions): Promise<string> {
    const response = await this.fetched(method, path, body, options);
    let text: string;
    try {
      text = await response.text();
    } catch (fault) {
      throw this.unreachable(fault, options.signal);
    }
    if (!response.ok) throw refusal(response, text ? tryParse(text) : undefined);
    return text;
  }

  private async fetched(method: Method, path: string, body: string | undefined, { signal, headers }: RequestOptions): Promise<Response> {
    const init: RequestInit = { method, headers: { ...this.headers(body !== undefined), ...headers }, credentials: "same-origin" };
    if (body !== undefined) init.body = body;
    if (signal !== undefined) init.signal = signal;
    try {
      return await this.fetch(this.url + path, init);
    } catch (fault) {
      throw this.unreachable(fault, signal);
    }
  }

  private unreachable(fault: unknown, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason ?? fault;
    return new GatewayUnreachable(`The gateway${this.url ? ` at ${this.url}` : ""} cannot be reached. Is it running?`);
  }

  private pauseAfter(fault: unknown, repeatable: boolean, pauses: Pauses): number | null {
    if (fault instanceof GatewayUnreachable) return repeatable ? pauses.next() : null;
    const asked = fault instanceof GatewayError ? fault.retryAfter : null;
    return asked !== null && asked <= this.retryAfter ? asked : null;
  }

  headers(hasBody: boolean): Record<string, string> {
    const headers: Record<string, string> = { accept: "application/json" };
    if (hasBody) headers["content-type"] = "application/json";
    if (this.key !== undefined) headers["authorization"] = `Bearer ${this.key}`;
    return headers;
  }

  /** The events of one stream until it ends. Throws when it cannot be opened and when it breaks. */
  async *stream(method: Method, path: string, { body, bodyText, after, signal, headers, onOpen, onOver }: StreamOptions = {}): AsyncGenerator<Frame, void> {
    const watched = new Limit(SILENT_MS, signal);
    const sent = { ...headers, accept: "text/event-stream", ...(after == null ? {} : { "last-event-id": after }) };
    const options = { signal: watched.signal, headers: sent };
    try {
      const response = await this.fetched(method, path, body === undefined ? bodyText : JSON.stringify(body), options);
      if (!response.ok) throw refusal(response, tryParse(await response.text()));
      onOpen?.();
      if (response.status === 204) onOver?.();
      if (response.body === null || response.status === 204) return;
      const reader = response.body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array<ArrayBuffer>>).getReader();
      const found: Frame[] = [];
      const take = frames((frame) => found.push(frame));
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        watched.restart();
        take(value);
        yield* found.splice(0);
      }
    } catch (fault) {
      if (fault instanceof GatewayError || (signal?.aborted ?? false)) throw fault;
      throw new GatewayUnreachable(`The stream ${path} broke${watched.isOver ? ": nothing came for too long" : ""}.`);
    } finally {
      watched.abort();
    }
  }

  /**
   * The events of an endless stream, reopened after the last event id when it breaks. It must open the first time, so that
   * a wrong url or key is reported at once. Afterwards a gateway that is away is waited for; one that refuses ends it.
   */
  async *follow(path: string, { after = null, signal }: { after?: string | null; signal?: AbortSignal | undefined } = {}): AsyncGenerator<Frame, void> {
    const pauses = new Pauses();
    let last = after;
    let wasOpen = false;
    let isOver = false;
    while (!isOver) {
      try {
        for await (const frame of this.stream("GET", path, { after: last, signal, onOver: () => (isOver = true) })) {
          wasOpen = true;
          pauses.reset();
          if (frame.id !== null) last = frame.id;
          yield frame;
        }
        wasOpen = true;
      } catch (fault) {
        if (!wasOpen || !(fault instanceof GatewayError) || !fault.isAway) throw fault;
      }
      if (!isOver) await sleep(Math.min(pauses.next(), LONGEST_PAUSE_MS), signal);
    }
  }
}

/** A signal that is aborted by another one, or after some time; 0: never. */
class Limit {
  isOver = false;
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly abortWith = (): void => this.controller.abort(this.outer?.reason);

  constructor(
    private readonly milliseconds: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    if (outer?.aborted) this.abortWith();
    outer?.addEventListener("abort", this.abortWith);
    this.restart();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  restart(): void {
    clearTimeout(this.timer);
    if (this.milliseconds <= 0) return;
    this.timer = setTimeout(() => {
      this.isOver = true;
      this.controller.abort();
    }, this.milliseconds);
  }

  end(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.abortWith);
  }

  abort(): void {
    this.end();
    this.controller.abort();
  }
}

/** A route's method, and its path with the parameters filled in. */
export function built<R extends keyof Routes>(route: R, given: Given<R> | undefined): [Method, string] {
  const [method, pattern] = route.split(" ") as [Method, string];
  const { path = {}, query = {} } = (given ?? {}) as Parts;
  const filled = pattern.replace(/\{(\w+)\}/g, (_, name: string) => segment(path[name] ?? ""));
  const asked = Object.entries(query).filter((entry): entry is [string, string | number | boolean] => entry[1] != null);
  const text = new URLSearchParams(asked.map(([name, value]) => [name, String(value)])).toString();
  return [method, text ? `${filled}?${text}` : filled];
}

/** `text` as one part of a path. Every spelling of `..` would name the parent. */
function segment(text: string): string {
  if (text === "" || text === "." || text === "..") throw new TypeError(`'${text}' cannot be a part of a path; give a name or an id`);
  return encodeURIComponent(text);
}

function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
