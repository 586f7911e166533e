/**
 * Calls as a table of which only what is in view is in the page, however many there are: rows have one height, so what
 * comes in above does not move what somebody reads. `onMore` asks for older ones as the end comes near. A row is a link
 * to its call; arrow keys, j and k, Home and End, Page Up and Page Down go from row to row.
 */
import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { MOST_EMPTY_PAGES, type CallList, type CallListState } from "../call-list";
import type { CallRecord } from "../data";
import { inOneLine } from "../safe-text";
import { CallStatus } from "./badge";
import { clockSeconds } from "../time";
import { Duration, fullTime } from "./moment";

const BEYOND = 8;
const NEAR_THE_END = 60;
/** The line of names, which stays at the top. */
const HEAD = 32;
const HEADS = ["Tool", "Status", "Arguments", "Source", "By", "Took", "Made"];

export function CallTable({ list, state, footer }: { list: CallList; state: CallListState; footer: ReactNode }): ReactNode {
  const frame = useRef<HTMLDivElement>(null);
  const { rows } = state;
  const { height, first, last, onScroll } = useView(frame, list, rows);
  const [wanted, setWanted] = useState<string | null>(null);
  useEffect(() => {
    if (last >= rows.length - NEAR_THE_END && state.error === null && state.emptyPages < MOST_EMPTY_PAGES) void list.more();
  }, [list, last, rows.length, state.isLoading, state.error, state.emptyPages]);
  useEffect(() => {
    if (wanted === null) return;
    frame.current?.querySelector<HTMLAnchorElement>(`[data-call="${CSS.escape(wanted)}"] a`)?.focus({ preventScroll: true });
    setWanted(null);
  }, [wanted, first, last]);
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>): void => {
    const at = rows.findIndex(({ id }) => id === (event.target as HTMLElement).closest<HTMLElement>("[data-call]")?.dataset["call"]);
    const box = frame.current;
    if (box === null || event.metaKey || event.ctrlKey || event.altKey) return;
    const next = stepTo(event.key, at, rows.length, Math.max(1, Math.floor(box.clientHeight / height) - 1));
    if (next === null) return;
    event.preventDefault();
    if (next * height < box.scrollTop) box.scrollTop = next * height;
    const room = box.clientHeight - HEAD;
    if ((next + 1) * height > box.scrollTop + room) box.scrollTop = (next + 1) * height - room;
    setWanted(rows[next]!.id);
  };
  return (
    <div ref={frame} className="data-table calls-frame" role="region" aria-label="Calls, scrollable" tabIndex={0} onScroll={onScroll} onKeyDown={onKeyDown}>
      <div role="table" aria-label="Calls" aria-rowcount={rows.length + 1}>
        <div role="rowgroup" className="data-head">
          <div role="row" className="data-row">
            {HEADS.map((name) => (
              <span key={name} role="columnheader" className={classOf(name)}>
                {name}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" style={{ height: rows.length * height, position: "relative" }}>
          <div role="presentation" style={{ position: "absolute", insetInline: 0, top: first * height }}>
            {rows.slice(first, last).map((call, place) => (
              <Line key={call.id} call={call} index={first + place + 2} />
            ))}
          </div>
        </div>
      </div>
      {footer}
    </div>
  );
}

/** Which rows are in view. Rows that come in above move the view with them, unless it is at the top. */
function useView(frame: React.RefObject<HTMLDivElement | null>, list: CallList, rows: readonly CallRecord[]): { height: number; first: number; last: number; onScroll: () => void } {
  const [height, setHeight] = useState(36);
  const [top, setTop] = useState(list.scrollTop);
  const [room, setRoom] = useState(800);
  const anchor = useRef<{ id: string; offset: number } | null>(null);
  useLayoutEffect(() => {
    const box = frame.current!;
    const measure = (): void => {
      setRoom(box.clientHeight);
      setHeight(Number.parseFloat(getComputedStyle(box).getPropertyValue("--row")) || 36);
    };
    const watcher = new ResizeObserver(measure);
    watcher.observe(box);
    measure();
    box.scrollTop = list.scrollTop;
    return () => watcher.disconnect();
  }, [frame, list]);
  useLayoutEffect(() => {
    const box = frame.current!;
    const at = anchor.current === null ? -1 : rows.findIndex(({ id }) => id === anchor.current!.id);
    if (at < 0) return;
    box.scrollTop = at * height + anchor.current!.offset;
    setTop(box.scrollTop);
  }, [frame, rows, height]);
  const onScroll = (): void => {
    const box = frame.current!;
    list.scrollTop = box.scrollTop;
    const at = Math.floor(box.scrollTop / height);
    const call = rows[at];
    anchor.current = box.scrollTop < height / 2 || call === undefined ? null : { id: call.id, offset: box.scrollTop - at * height };
    setTop(box.scrollTop);
  };
  const first = Math.max(0, Math.floor(top / height) - BEYOND);
  return { height, first, last: Math.min(rows.length, Math.ceil((top + room) / height) + BEYOND), onScroll };
}

function stepTo(key: string, at: number, count: number, page: number): number | null {
  const to: Record<string, number> = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: count - 1, PageDown: at + page, PageUp: at - page };
  const next = to[key];
  return next === undefined || count === 0 ? null : Math.min(count - 1, Math.max(0, next));
}

function Line({ call, index }: { call: CallRecord; index: number }): ReactNode {
  const cells = [
    <Link key="tool" href={`/calls/${encodeURIComponent(call.id)}`}>
      <code className="one-line">{inOneLine(call.tool, 80)}</code>
    </Link>,
    <CallStatus key="status" status={call.status} count={call.count} />,
    <Arguments key="arguments" call={call} />,
    <span key="source" className="one-line">
      {inOneLine(call.source, 60)}
    </span>,
    <span key="by" className="one-line">
      {inOneLine(call.agent ?? call.principal, 60)}
    </span>,
    <Duration key="took" ms={call.execution_time_ms} />,
    <time key="made" className="moment" dateTime={call.created_at} title={fullTime(call.created_at)}>
      {clockSeconds(call.created_at)}
    </time>,
  ];
  return (
    <div role="row" className="data-row to" data-call={call.id} aria-rowindex={index}>
      {cells.map((cell, place) => (
        <span key={HEADS[place]} role="cell" className={classOf(HEADS[place]!)}>
          {cell}
        </span>
      ))}
    </div>
  );
}

function Arguments({ call }: { call: CallRecord }): ReactNode {
  if (call.left_out?.includes("arguments")) return <span className="quiet">long</span>;
  return <span className="one-line quiet">{Object.keys(call.arguments).length === 0 ? "" : inOneLine(call.arguments, 160)}</span>;
}

function classOf(head: string): string {
  const isNumber = head === "Took" || head === "Made";
  const isWide = !["Tool", "Status", "Made"].includes(head);
  return `data-cell${isNumber ? " number" : ""}${isWide ? " wide-only" : ""}`;
}
