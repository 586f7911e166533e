import { GatewayError, type Frame } from "@jackfield/client";
import type { Client } from "./client.js";

export interface FollowOptions {
  /** The id of the last known event; the stream resumes after it. */
  after?: string | number | null;
  onFrame: (frame: Frame) => void;
  onState?: (state: StreamState) => void;
}

export type StreamState = { is: "connecting" | "live" } | { is: "waiting"; error: string } | { is: "refused"; error: GatewayError };

const PAUSES = [250, 500, 1000, 2000, 5000];
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
    const unwatch = whenUnseen(stop);
    const onOpen = (): void => {
      onState?.({ is: "live" });
      tries = 0;
    };
    try {
      for await (const frame of client.stream("GET", path, { after: last, signal: attempt.signal, onOpen })) {
        if (frame.id !== null) last = frame.id;
        onFrame(frame);
      }
    } finally {
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

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
