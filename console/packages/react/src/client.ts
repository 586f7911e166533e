import { GatewayError } from "./types.js";

export interface ClientOptions {
  /** The gateway's address; empty for the page's own origin. */
  url?: string;
  /** A key, if there is no login cookie for this origin. */
  key?: string;
}

/** The HTTP client. Errors are `GatewayError`s with the gateway's message. */
export class Client {
  readonly url: string;
  private readonly key: string | undefined;

  constructor({ url = "", key }: ClientOptions = {}) {
    this.url = url.replace(/\/$/, "");
    this.key = key;
  }

  get<T>(path: string): Promise<T> {
    return this.send<T>("GET", path);
  }

  post<T>(path: string, body?: unknown): Promise<T> {
    return this.send<T>("POST", path, body);
  }

  patch<T>(path: string, body: unknown): Promise<T> {
    return this.send<T>("PATCH", path, body);
  }

  put<T>(path: string, body: unknown): Promise<T> {
    return this.send<T>("PUT", path, body);
  }

  delete<T>(path: string, body?: unknown): Promise<T> {
    return this.send<T>("DELETE", path, body);
  }

  async send<T>(method: string, path: string, body?: unknown): Promise<T> {
    const text = await this.text(method, path, body === undefined ? undefined : JSON.stringify(body));
    return (text ? tryParse(text) : undefined) as T;
  }

  /** The same with JSON as text, which keeps numbers that JavaScript would round. */
  async text(method: string, path: string, body?: string): Promise<string> {
    const init: RequestInit = { method, headers: this.headers(body !== undefined), credentials: "same-origin" };
    if (body !== undefined) init.body = body;
    let answer: Response;
    try {
      answer = await fetch(this.url + path, init);
    } catch {
      throw new GatewayError(0, "unreachable", "The gateway cannot be reached. Is it running?");
    }
    const text = await answer.text();
    if (!answer.ok) throw refusal(answer.status, text ? (tryParse(text) as Record<string, unknown> | undefined) : undefined);
    return text;
  }

  headers(hasBody: boolean): Record<string, string> {
    const headers: Record<string, string> = { accept: "application/json" };
    if (hasBody) headers["content-type"] = "application/json";
    if (this.key !== undefined) headers["authorization"] = `Bearer ${this.key}`;
    return headers;
  }
}

function refusal(status: number, said: Record<string, unknown> | undefined): GatewayError {
  const error = said?.["error"] as Record<string, unknown> | undefined;
  const details = error?.["details"] as { path: string; message: string }[] | undefined;
  return new GatewayError(
    status,
    String(error?.["code"] ?? "error"),
    String(error?.["message"] ?? `The gateway answered ${status}.`),
    details ?? [],
  );
}

/** Numbers of so many digits may be rounded; the quick look spares most answers the slow way. */
const LARGE = /[:[,]\s*-?\d{16,}/;
const RAW = JSON as typeof JSON & { rawJSON?: (text: string) => unknown };

/** JSON in which integers beyond 2^53 keep their digits: shown and sent as they came, where the browser can. */
export function parsed(text: string): unknown {
  if (RAW.rawJSON === undefined || !LARGE.test(text)) return JSON.parse(text);
  const kept = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source !== undefined ? RAW.rawJSON!(context.source) : value;
  return JSON.parse(text, kept as (key: string, value: unknown) => unknown);
}

function tryParse(text: string): unknown {
  try {
    return parsed(text);
  } catch {
    return undefined;
  }
}
