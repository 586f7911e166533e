import { parsed, type Client } from "./client.js";
import { GatewayError } from "./types.js";

export interface Frame {
  id: string | null;
  event: string | null;
  data: unknown;
}

export interface FollowOptions {
  /** The id of the last known event; the stream resumes after it. */
  after?: string | number | null;
  onFrame: (frame: Frame) => void;
  onState?: (state: StreamState) => void;
}

export type StreamState = { is: "connecting" | "live" } | { is: "waiting"; error: string } | { is: "refused"; error: GatewayError };

const PAUSES = [250, 500, 1000, 2000, 5000];
const SILENT_MS = 75_000; // the gateway sends at least a ping every 30 s
const UNSEEN_MS = 5_000;

/**
 * Follows a stream of server-sent events until stopped. Reconnects and resumes after the last event whenever the connection
 * breaks: a gateway restart, a lost network, a suspended laptop. A page in the background holds no connection, because over
 * HTTP/1.1 all pages of a browser share six of them; it resumes when it is seen again.
 */
export function follow(client: Client, path: string, { after = null, onFrame, onState }: FollowOptions): () => void {
  const stopped = new AbortController();
  let last: string | null = after === null ? null : String(after);
  let tries = 0;

  const once = async (): Promise<void> => {
    const attempt = new AbortController();
    const stop = (): void => attempt.abort();
    stopped.signal.addEventListener("abort", stop);
    let watchdog = setTimeout(stop, SILENT_MS);
    const unwatch = whenUnseen(stop);
    try {
      const headers: Record<string, string> = { ...client.headers(false), accept: "text/event-stream" };
      if (last !== null) headers["last-event-id"] = last;
      const answer = await fetch(client.url + path, { headers, credentials: "same-origin", signal: attempt.signal });
      if (!answer.ok || answer.body === null) throw await refusalOf(answer);
      onState?.({ is: "live" });
      tries = 0;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const take = frames((frame) => {
        if (frame.id !== null) last = frame.id;
        onFrame(frame);
      });
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, SILENT_MS);
        take(value);
      }
    } finally {
      clearTimeout(watchdog);
      unwatch();
      stopped.signal.removeEventListener("abort", stop);
      attempt.abort();
    }
  };

  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      await untilSeen(stopped.signal);
      if (stopped.signal.aborted) return;
      onState?.({ is: "connecting" });
      try {
        await once();
        if (!stopped.signal.aborted) onState?.({ is: "waiting", error: "The connection was closed." });
      } catch (fault) {
        if (stopped.signal.aborted) return;
        if (isUnseen()) continue;
        if (fault instanceof GatewayError && fault.isFinal) {
          onState?.({ is: "refused", error: fault });
          return;
        }
        onState?.({ is: "waiting", error: "The gateway cannot be reached." });
      }
      await pause(PAUSES[Math.min(tries++, PAUSES.length - 1)] ?? 5000, stopped.signal);
    }
  };
  void run();
  return () => stopped.abort();
}

function isUnseen(): boolean {
  return typeof document !== "undefined" && document.visibilityState === "hidden";
}

/** Calls back once the page has been in the background for a while; returns how to stop watching. */
function whenUnseen(leave: () => void): () => void {
  if (typeof document === "undefined") return () => undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    clearTimeout(timer);
    if (isUnseen()) timer = setTimeout(leave, UNSEEN_MS);
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}

function untilSeen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (!isUnseen() || signal.aborted) return resolve();
    const look = (): void => {
      if (isUnseen() && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

/** Parses a chunked text stream into complete events. */
export function frames(onFrame: (frame: Frame) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    rest += text;
    for (;;) {
      const end = /\r?\n\r?\n/.exec(rest);
      if (end === null) return;
      const block = rest.slice(0, end.index);
      rest = rest.slice(end.index + end[0].length);
      const frame = parseFrame(block);
      if (frame !== null) onFrame(frame);
    }
  };
}

function parseFrame(block: string): Frame | null {
  let id: string | null = null;
  let event: string | null = null;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  if (data.length === 0) return null;
  try {
    return { id, event, data: parsed(data.join("\n")) };
  } catch {
    return null;
  }
}

async function refusalOf(answer: Response): Promise<GatewayError> {
  const said = (await answer.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
  return new GatewayError(answer.status, said.error?.code ?? "error", said.error?.message ?? `The gateway answered ${answer.status}.`);
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
