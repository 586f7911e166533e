import { useSyncExternalStore } from "react";
import { follow } from "@jackfield/react";
import { client, type CallRecord } from "./data";

export interface WaitingList {
  /** Nearest deadline first. */
  calls: readonly CallRecord[];
  byId: ReadonlyMap<string, CallRecord>;
  /** How many of them the current user may answer. */
  forMe: number;
  isKnown: boolean;
  error: string | null;
}

const HIDDEN_EVERY_MS = 15_000;

/** All pending calls, with one shared subscription. */
class Waiting {
  private list: WaitingList = { calls: [], byId: new Map(), forMe: 0, isKnown: false, error: null };
  private readonly listeners = new Set<() => void>();
  private stop: (() => void) | null = null;
  private reading: Promise<void> | null = null;
  private isStale = false;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    this.stop ??= this.begin();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) {
        this.stop?.();
        this.stop = null;
      }
    };
  };

  now = (): WaitingList => this.list;

  private begin(): () => void {
    // The count in the title of a tab that nobody looks at: no stream is open there.
    const isHidden = (): boolean => document.visibilityState === "hidden";
    if (isHidden()) this.read();
    const timer = setInterval(() => isHidden() && this.read(), HIDDEN_EVERY_MS);
    const stop = follow(client, "/api/v1/calls/stream?status=pending", {
      onFrame: () => this.read(),
      onState: (state) => {
        if (state.is === "live") this.read();
        if (state.is === "refused") this.show({ ...this.list, isKnown: true, error: state.error.message });
      },
    });
    return () => {
      clearInterval(timer);
      stop();
    };
  }

  /** The stream only signals a change; the records have the data. */
  private read(): void {
    this.isStale = true;
    this.reading ??= this.readAll().finally(() => (this.reading = null));
  }

  private async readAll(): Promise<void> {
    while (this.isStale) {
      this.isStale = false;
      try {
        const found = await client.get<{ calls: CallRecord[] }>("/api/v1/calls?status=pending,pending_approval,pending_login,waiting&limit=500");
        const calls = found.calls.filter((call) => !isProgram(call));
        calls.sort((one, other) => end(one) - end(other));
        const byId = new Map(calls.map((call) => [call.id, call]));
        this.show({ calls, byId, forMe: calls.filter(isMine).length, isKnown: true, error: null });
      } catch (fault) {
        this.show({ ...this.list, error: (fault as Error).message });
      }
    }
  }

  private show(list: WaitingList): void {
    this.list = list;
    for (const listener of this.listeners) listener();
  }
}

/** A call that started a program waits for the program, whose own calls are in the list. */
function isProgram({ source, status }: CallRecord): boolean {
  return source === "programs" && (status === "pending" || status === "waiting");
}

/** The gateway includes the link to answer, approve or log in only for users who may. */
export function isMine(call: CallRecord | undefined): boolean {
  return call !== undefined && (call.callback_url ?? call.approval_url ?? call.login_url ?? null) !== null;
}

/** Until when somebody can act on a call. The deadline is for its execution, which a missing login has put off. */
export function untilOf({ status, deadline, expires_at }: CallRecord): string | null {
  return status === "pending_login" ? expires_at : (deadline ?? expires_at);
}

function end(call: CallRecord): number {
  return Date.parse(untilOf(call) ?? "9999-12-31");
}

const waiting = new Waiting();

export function useWaiting(): WaitingList {
  return useSyncExternalStore(waiting.subscribe, waiting.now);
}
