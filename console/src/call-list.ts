/**
 * The calls that fit some filters, newest first: pages by the gateway's cursor as somebody scrolls down, and on top
 * what happens live. The stream only says which calls have changed; they are then read by their ids, with the filters,
 * so a call that no longer fits goes. After a pause, or a lost connection, everything since the newest known call is
 * read, so nothing is left out. No page is asked for twice.
 */
import { follow } from "@jackfield/react";
import { linkTo } from "./address";
import { client, type CallRecord } from "./data";

export type CallFilters = Record<"status" | "tool" | "source" | "principal" | "agent" | "kind" | "run_id" | "q" | "since" | "until", string>;

export interface CallListState {
  /** Newest first. */
  rows: readonly CallRecord[];
  isKnown: boolean;
  isLoading: boolean;
  error: Error | null;
  /** Down to when calls were looked at; null: there are no older ones. */
  reachedTo: string | null;
  live: "off" | "connecting" | "live" | "paused";
  /** Calls that have come or changed since it was paused. */
  missed: number;
  /** How often a page was asked for in a row that had no calls that fit. */
  emptyPages: number;
}

interface Page {
  calls: CallRecord[];
  next_cursor: string | null;
}

const PAGE = 200;
const TOGETHER = 100;
const EVERY_MS = 400;
/** Ids are made before their call is on record; how late a call may come to be known below newer ones. */
const LATE_MS = 60_000;
const MOST_MISSED = 2000;
const MOST_CATCH_UP_PAGES = 20;
/** After so many pages without a call that fits, somebody has to ask for more. */
export const MOST_EMPTY_PAGES = 5;
const OPEN = new Set(["running", "waiting", "pending", "pending_approval", "pending_login"]);

export class CallList {
  private state: CallListState = { rows: [], isKnown: false, isLoading: false, error: null, reachedTo: null, live: "connecting", missed: 0, emptyPages: 0 };
  /** Where the page was scrolled to, for whoever comes back. */
  scrollTop = 0;
  private readonly listeners = new Set<() => void>();
  private readonly changed = new Set<string>();
  private cursor: string | null = null;
  private stop: (() => void) | null = null;
  private timer = 0;
  private isReading = false;
  private mustCatchUp = false;
  private isPaused = false;
  private isFollowing = false;

  constructor(readonly filters: CallFilters) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.stop === null) this.start();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      this.stop?.();
      this.stop = null;
      clearTimeout(this.timer);
      this.timer = 0;
    };
  };

  now = (): CallListState => this.state;

  private start(): void {
    // What ended in the past does not change any more.
    const isOver = this.filters.until !== "" && Date.parse(this.filters.until) < Date.now();
    this.stop = isOver ? () => undefined : this.followAll();
    if (!isOver) return;
    this.show({ live: "off" });
    if (!this.state.isKnown) void this.more();
  }

  private followAll(): () => void {
    const { tool, source, principal, agent, run_id } = this.filters;
    return follow(client, linkTo("/api/v1/calls/stream", { tool, source, principal, agent, run_id }), {
      onFrame: ({ data }) => this.note(data as { call_id?: string; type?: string } | null),
      onState: ({ is }) => {
        this.isFollowing = is === "live";
        this.show({ live: is === "refused" ? "off" : this.liveness() });
        if (is === "connecting") return;
        // The first page is read when the stream is there, so that nothing happens between the two.
        if (!this.state.isKnown) void this.more();
        else if (is === "live") {
          this.mustCatchUp = true;
          this.wake(0);
        }
      },
    });
  }

  private liveness(): CallListState["live"] {
    return this.isPaused ? "paused" : this.isFollowing ? "live" : "connecting";
  }

  /** Older calls. */
  more = async (): Promise<void> => {
    if (this.state.isLoading || (this.state.isKnown && this.cursor === null)) return;
    this.show({ isLoading: true, error: null });
    try {
      const page = await this.page({ cursor: this.cursor, limit: PAGE });
      this.cursor = page.next_cursor;
      const emptyPages = page.calls.length === 0 ? this.state.emptyPages + 1 : 0;
      this.show({ rows: merged(this.state.rows, page.calls), isKnown: true, isLoading: false, reachedTo: timeOf(this.cursor), emptyPages });
      this.wake(0);
    } catch (fault) {
      this.show({ isLoading: false, error: fault as Error });
    }
  };

  pause = (): void => {
    this.isPaused = true;
    this.show({ live: "paused", missed: 0 });
  };

  resume = (): void => {
    this.isPaused = false;
    this.mustCatchUp = true;
    this.show({ live: this.liveness(), missed: 0 });
    this.wake(0);
  };

  private note(event: { call_id?: string; type?: string } | null): void {
    if (event === null || typeof event.call_id !== "string" || event.type === "call.progress" || event.type === "call.log") return;
    if (this.changed.size < MOST_MISSED) this.changed.add(event.call_id);
    else this.mustCatchUp = true;
    if (this.isPaused) this.show({ missed: this.changed.size });
    else this.wake(EVERY_MS);
  }

  private wake(pause: number): void {
    if (this.isPaused || this.isReading || !this.state.isKnown || this.listeners.size === 0) return;
    if (this.timer !== 0 && pause > 0) return;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.read(), pause);
  }

  /** One at a time: all since the newest known call, or those that have changed. */
  private async read(): Promise<void> {
    this.timer = 0;
    if (this.isReading || (!this.mustCatchUp && this.changed.size === 0)) return;
    this.isReading = true;
    try {
      if (this.mustCatchUp) await this.catchUp();
      else await this.readChanged();
      this.show({ error: null });
    } catch (fault) {
      this.show({ error: fault as Error });
    }
    this.isReading = false;
    if (this.state.error === null && (this.mustCatchUp || this.changed.size > 0)) this.wake(EVERY_MS);
  }

  private async readChanged(): Promise<void> {
    const ids = [...this.changed].slice(0, TOGETHER);
    // Before they are read: what happens to one meanwhile notes it again.
    for (const id of ids) this.changed.delete(id);
    let calls: CallRecord[];
    try {
      ({ calls } = await this.page({ id: ids.join(","), limit: TOGETHER }));
    } catch (fault) {
      for (const id of ids) this.changed.add(id);
      throw fault;
    }
    const gone = new Set(ids);
    for (const { id } of calls) gone.delete(id);
    const rows = this.state.rows.some(({ id }) => gone.has(id)) ? this.state.rows.filter(({ id }) => !gone.has(id)) : this.state.rows;
    // What is older than the last page comes with the next one.
    const known = this.cursor === null ? calls : calls.filter(({ id }) => id >= this.cursor!);
    this.show({ rows: merged(rows, known) });
  }

  private async catchUp(): Promise<void> {
    this.mustCatchUp = false;
    this.changed.clear();
    const newest = this.state.rows[0];
    try {
      const since = newest === undefined ? this.filters.since : new Date(Math.max(Date.parse(newest.created_at) - LATE_MS, Date.parse(this.filters.since) || 0)).toISOString();
      const found: CallRecord[] = [];
      let cursor: string | null = null;
      for (let pages = 0; ; pages++) {
        const page: Page = await this.page({ since, cursor, limit: PAGE });
        found.push(...page.calls);
        cursor = page.next_cursor;
        if (cursor === null) break;
        if (pages >= MOST_CATCH_UP_PAGES || newest === undefined) return this.beginAnew(found, cursor);
      }
      this.show({ rows: merged(this.state.rows, found) });
      for (const { id, status } of this.state.rows) if (OPEN.has(status) && this.changed.size < MOST_MISSED) this.changed.add(id);
    } catch (fault) {
      this.mustCatchUp = true;
      throw fault;
    }
  }

  /** Too much has happened meanwhile: what lies below comes by scrolling. */
  private beginAnew(rows: CallRecord[], cursor: string): void {
    this.cursor = cursor;
    this.show({ rows, reachedTo: timeOf(cursor) });
  }

  private page(more: { cursor?: string | null; id?: string; since?: string; limit: number }): Promise<Page> {
    return client.get<Page>(linkTo("/api/v1/calls", { ...this.filters, brief: "true", ...more }));
  }

  private show(changes: Partial<CallListState>): void {
    this.state = { ...this.state, ...changes };
    for (const listener of this.listeners) listener();
  }
}

/** Both, newest first; of a call that is in both, the record that came now. */
export function merged(rows: readonly CallRecord[], more: readonly CallRecord[]): readonly CallRecord[] {
  if (more.length === 0) return rows;
  const sorted = [...more].sort((one, other) => (one.id < other.id ? 1 : -1));
  const all: CallRecord[] = [];
  let at = 0;
  for (const call of sorted) {
    while (at < rows.length && rows[at]!.id > call.id) all.push(rows[at++]!);
    if (at < rows.length && rows[at]!.id === call.id) at++;
    if (all.at(-1)?.id !== call.id) all.push(call);
  }
  return at === 0 && rows.length > 0 ? all.concat(rows) : all.concat(rows.slice(at));
}

/** A cursor is the id of a call, which begins with its time. */
function timeOf(cursor: string | null): string | null {
  const hex = /^call_([0-9a-f]{12})/.exec(cursor ?? "")?.[1];
  return hex === undefined ? null : new Date(Number.parseInt(hex, 16)).toISOString();
}
