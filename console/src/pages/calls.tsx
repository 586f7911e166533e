import { lazy, useEffect, useMemo, useSyncExternalStore, type ReactNode } from "react";
import { linkTo, useFilters, useSearchText } from "../address";
import { CallList, MOST_EMPTY_PAGES, type CallFilters, type CallListState } from "../call-list";
import { useConnection } from "../connection";
import { useMay } from "../identity";
import { CALL_STATES } from "../parts/badge";
import { CallTable } from "../parts/call-table";
import { Choose, FilterBar, Search } from "../parts/filters";
import { Icon } from "../parts/icon";
import { Moment } from "../parts/moment";
import { Empty, Fault, Skeleton } from "../parts/states";
import { TimeRange, useTimeRange } from "../parts/time-range";
import { counted } from "../safe-text";
import "../style/calls.css";

const CallPage = lazy(() => import("./call"));
const KINDS = [
  ["tool", "Tools"],
  ["resource", "Resources"],
  ["prompt", "Prompts"],
] as const;

/** The records of calls, live, with filters; or one of them. */
export default function CallsPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <CallPage key={id} id={id} />;
}

/** The list that was shown last, so that "back" leads to where one was. */
let kept: { key: string; list: CallList } | null = null;

function listFor(key: string, filters: CallFilters): CallList {
  if (kept?.key !== key) kept = { key, list: new CallList(filters) };
  return kept.list;
}

const more = ["principal", "agent", "run", "kind"] as const;

function All(): ReactNode {
  const filters = useFilters(["status", "tool", "source", "principal", "agent", "kind", "run", "q"]);
  const time = useTimeRange({ standard: null });
  const key = useSearchText();
  // A range of minutes begins when it is chosen: what comes is added, what grows old stays.
  const list = useMemo(() => {
    const { run, ...values } = filters.values;
    return listFor(key, { ...values, run_id: run, since: time.since, until: time.until });
  }, [key]);
  const state = useSyncExternalStore(list.subscribe, list.now);
  const { ready } = useConnection();
  const tools = useMemo(() => [...new Set(state.rows.slice(0, 1000).map(({ tool }) => tool))].sort().slice(0, 200), [state.rows]);
  const isAdmin = useMay("admin");
  return (
    <div className="page calls">
      <header className="page-head">
        <h1>Calls</h1>
        <TimeRange time={time} />
        {!isAdmin && <span className="quiet">Yours, and those that you may answer</span>}
        <Tail list={list} state={state} />
        <Export filters={list.filters} />
      </header>
      <FilterBar filters={filters}>
        <Search name="q" label="Search arguments, results, errors" filters={filters} />
        <Choose name="status" label="Status" any="All states" options={CALL_STATES} filters={filters} />
        <Search name="tool" label="Tool" filters={filters} suggestions={tools} />
        <Choose name="source" label="Source" any="All sources" options={(ready?.sources ?? []).map(({ name }) => name)} filters={filters} />
        <details className="more-filters" open={more.some((name) => filters.values[name] !== "") || undefined}>
          <summary>More</summary>
          <div className="filters">
            <Search name="principal" label="Key or person" filters={filters} />
            <Search name="agent" label="Agent" filters={filters} />
            <Search name="run" label="Run" filters={filters} />
            <Choose name="kind" label="Kind" any="All kinds" options={KINDS} filters={filters} />
          </div>
        </details>
      </FilterBar>
      <Shown key={key} list={list} state={state} isFiltered={filters.isAny || time.since !== ""} />
    </div>
  );
}

function Shown({ list, state, isFiltered }: { list: CallList; state: CallListState; isFiltered: boolean }): ReactNode {
  const isEmpty = state.rows.length === 0;
  useEffect(() => {
    // An unfinished search goes on by itself for a while.
    if (isEmpty && state.isKnown && state.reachedTo !== null && state.emptyPages < MOST_EMPTY_PAGES && state.error === null) void list.more();
  }, [list, isEmpty, state.isKnown, state.reachedTo, state.emptyPages, state.error]);
  if (!state.isKnown) return state.error === null ? <Skeleton what="calls" /> : <Fault error={state.error} onRetry={() => void list.more()} />;
  const footer = <Foot list={list} state={state} />;
  if (!isEmpty) return <CallTable list={list} state={state} footer={footer} />;
  if (state.reachedTo !== null || state.error !== null) return footer;
  return isFiltered ? (
    <Empty title="No call matches these filters" />
  ) : (
    <Empty title="No calls yet">
      Every call of a tool is on record here. <a href="#/tools">Try a tool</a>, or connect an agent to <code>{location.origin}/mcp</code>.
    </Empty>
  );
}



/** What lies below the last call: older ones, on their way; how far a search has come; or nothing. */
function Foot({ list, state }: { list: CallList; state: CallListState }): ReactNode {
  const { isLoading, error, reachedTo, emptyPages, rows } = state;
  const isSearching = isLoading || (rows.length === 0 && reachedTo !== null && emptyPages < MOST_EMPTY_PAGES);
  return (
    <div className="calls-foot" role="status">
      {error !== null && <span className="fault">{error.message}</span>}
      {reachedTo === null && error === null && !isLoading && rows.length > 0 && <span>{counted(rows.length, "call")}. There are no older ones.</span>}
      {isSearching && error === null && <span>{emptyPages > 0 || rows.length === 0 ? "Searching" : "Loading"} older calls …</span>}
      {reachedTo !== null && emptyPages > 0 && (
        <span>
          Looked back to <Moment at={reachedTo} />.
        </span>
      )}
      {((reachedTo !== null && emptyPages > 0 && !isSearching) || error !== null) && (
        <button type="button" className="small" onClick={() => void list.more()}>
          {error === null ? "Search on" : "Try again"}
        </button>
      )}
    </div>
  );
}

/** Whether the list is live, and the switch that holds it still. Nothing is lost meanwhile. */
function Tail({ list, state: { live, missed } }: { list: CallList; state: CallListState }): ReactNode {
  if (live === "off") return null;
  const isPaused = live === "paused";
  return (
    <span className="tail push">
      <span className={live === "live" ? "live" : "live away"} role="status">
        {isPaused ? `paused${missed > 0 ? `, ${missed.toLocaleString()} new or changed` : ""}` : live === "live" ? "live" : "connecting …"}
      </span>
      <button type="button" className="small" aria-pressed={isPaused} onClick={isPaused ? list.resume : list.pause}>
        <Icon name={isPaused ? "play" : "pause"} /> {isPaused ? "Resume" : "Pause"}
      </button>
    </span>
  );
}

function Export({ filters }: { filters: CallFilters }): ReactNode {
  return (
    <a className="button small" href={linkTo("/api/v1/calls/export", filters)} download="calls.jsonl" title="Every call that fits the filters, a line of JSON each">
      <Icon name="download" /> Export
    </a>
  );
}
