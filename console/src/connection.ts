/**
 * Whether the gateway answers: the one place that knows. It is asked every two seconds and given two and a half to answer, so a
 * gateway that is gone, or hangs, is known within five. While it is away nothing else is asked (`isPaused` in
 * `data.ts`); when it is back everything that is shown is read anew. Who finds a request failing says so by `suspect`.
 */
import { useSyncExternalStore } from "react";
import type { Readiness } from "./data";

export interface Connection {
  isAway: boolean;
  /** When the gateway last answered; milliseconds. */
  answeredAt: number | null;
  /** Its last answer: its sources and whether its database answers. */
  ready: Readiness | undefined;
}

const EVERY_MS = 2000;
const WITHIN_MS = 2500;
const AGAIN_MS = 1000;

class Heartbeat {
  private state: Connection = { isAway: false, answeredAt: null, ready: undefined };
  private readonly listeners = new Set<() => void>();
  private readonly returns = new Set<() => void>();
  private readonly ends = new Set<() => void>();
  private timer = 0;
  private isAsking = false;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.listeners.size === 1) {
      document.addEventListener("visibilitychange", this.onVisible);
      this.suspect();
    }
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      document.removeEventListener("visibilitychange", this.onVisible);
      clearTimeout(this.timer);
    };
  };

  now = (): Connection => this.state;

  /** Calls back whenever the gateway has come back. */
  onReturn(listener: () => void): () => void {
    this.returns.add(listener);
    return () => this.returns.delete(listener);
  }

  /** Calls back when the gateway answers that this page is signed out: its login has ended, or its key is revoked. */
  onSignedOut(listener: () => void): () => void {
    this.ends.add(listener);
    return () => this.ends.delete(listener);
  }

  /** Asks at once. */
  suspect = (): void => {
    clearTimeout(this.timer);
    void this.beat();
  };

  private onVisible = (): void => {
    if (document.visibilityState === "visible") this.suspect();
  };

  private async beat(): Promise<void> {
    if (this.isAsking) return;
    this.isAsking = true;
    const ready = await ask();
    this.isAsking = false;
    const wasAway = this.state.isAway;
    if (ready === null) this.show({ ...this.state, isAway: true });
    else this.show({ isAway: false, answeredAt: Date.now(), ready: ready === SIGNED_OUT ? this.state.ready : ready });
    if (ready === SIGNED_OUT) for (const listener of this.ends) listener();
    if (wasAway && ready !== null) for (const listener of this.returns) listener();
    clearTimeout(this.timer);
    // A page that nobody sees asks nothing; it asks when it is seen again.
    if (this.listeners.size > 0 && document.visibilityState === "visible") this.timer = window.setTimeout(() => void this.beat(), ready === null ? AGAIN_MS : EVERY_MS);
  }

  private show(state: Connection): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

const SIGNED_OUT = "signed out";

/** What the gateway says of itself, or null. A gateway whose database is away does answer: with 503. */
async function ask(): Promise<Readiness | typeof SIGNED_OUT | null> {
  try {
    const answer = await fetch("/readyz", { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(WITHIN_MS) });
    if (answer.status === 401) return SIGNED_OUT;
    const said = (await answer.json()) as Partial<Readiness>;
    return typeof said.status === "string" ? (said as Readiness) : null;
  } catch {
    return null;
  }
}

export const connection = new Heartbeat();

export function useConnection(): Connection {
  return useSyncExternalStore(connection.subscribe, connection.now);
}
