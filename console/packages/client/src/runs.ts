import { built, type Connection } from "./connection.js";
import type { Routes, RunEvent, RunList, WholeRun } from "./generated.js";

export type RunsQuery = NonNullable<Routes["GET /api/runs"]["query"]>;

/** Agents' cycles, responses, programs and sessions, as far as this key may see them. */
export class Runs {
  constructor(private readonly connection: Connection) {}

  /** One page of runs, newest first; `cursor` is the `next_cursor` of the page before. */
  list(query: RunsQuery = {}): Promise<RunList> {
    return this.connection.request("GET /api/runs", { query });
  }

  /** One run with everything on record of it, and with what its model was sent. */
  async get(id: string, query: Routes["GET /api/runs/{id}"]["query"] = {}): Promise<WholeRun> {
    return (await this.connection.request("GET /api/runs/{id}", { path: { id }, query })).run;
  }

  /** Ends a run, or the open calls of a bare one. */
  async cancel(id: string): Promise<WholeRun> {
    return (await this.connection.request("POST /api/runs/{id}/cancel", { path: { id } })).run;
  }

  /** Goes on with a run that failed or was interrupted. */
  async resume(id: string): Promise<WholeRun> {
    return (await this.connection.request("POST /api/runs/{id}/resume", { path: { id } })).run;
  }

  /** Past and future events of a run, each once, across reconnects; the run's end is the last one. */
  async *stream(id: string, { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<RunEvent, void> {
    const [, path] = built("GET /api/runs/{id}/stream", { path: { id } });
    const seen = new Set<string>();
    for await (const frame of this.connection.follow(path, { signal })) {
      const event = frame.data as RunEvent;
      const known = `${event.type} ${event.step?.n ?? event.streamId ?? ""}`;
      if (seen.has(known) && event.type !== "run.parked" && event.type !== "run.resumed") continue; // a reopened stream starts over
      seen.add(known);
      yield event;
      if (event.type === "run.completed" || event.type === "run.failed") return;
    }
  }
}
