import { GatewayError } from "./types";

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
    const init: RequestInit = { method, headers: this.headers(body !== undefined), credentials: "same-origin" };
    if (body !== undefined) init.body = JSON.stringify(body);
    let answer: Response;
    try {
      answer = await fetch(this.url + path, init);
    } catch {
      throw new GatewayError(0, "unreachable", "The gateway cannot be reached. Is it running?");
    }
    const text = await answer.text();
    const said = text ? (tryParse(text) as Record<string, unknown> | undefined) : undefined;
    if (!answer.ok) throw refusal(answer.status, said);
    return said as T;
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

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
