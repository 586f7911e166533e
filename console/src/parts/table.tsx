/**
 * A list as a table: `<DataTable label="Calls" columns={COLUMNS} rows={data?.calls} rowKey={(call) => call.id} hrefOf={…}
 * error={error} onRetry={…} empty={<Empty …/>} />`. `rows` undefined is loading: a skeleton of the same height. A column:
 * `{ id, name, cell, width?, isNumber?, isWide?, sortBy? }`; `width` is a CSS grid track; `isWide` is left out on a
 * phone; one with `sortBy` sorts what is there at a click, so only give it to lists that are complete, not to pages.
 * A row with an address is a link (its first cell); arrow keys or j and k go from row to row. Beyond 200 rows only
 * those in view are in the page, and the table gets a height of its own.
 */
import { useMemo, useState, type KeyboardEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { VList } from "virtua";
import { Icon } from "./icon";
import { Empty, Fault, Skeleton } from "./states";

export interface Column<Row> {
  id: string;
  name: string;
  cell: (row: Row) => ReactNode;
  /** A track of a CSS grid, such as `96px` or `minmax(160px, 2fr)`. */
  width?: string;
  /** Figures: to the right, of one width. */
  isNumber?: boolean;
  isWide?: boolean;
  sortBy?: (row: Row) => string | number;
}

interface Given<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[] | undefined;
  rowKey: (row: Row) => string;
  hrefOf?: ((row: Row) => string | null) | undefined;
  error?: Error | undefined;
  onRetry?: (() => void) | undefined;
  empty?: ReactNode;
  /** The column that is sorted at first; `-calls` for the largest first. */
  sort?: string;
}

const MOST_PLAIN = 200;

export function DataTable<Row>({ label, columns, rows, rowKey, hrefOf, error, onRetry, empty = <Empty title="Nothing here" />, sort: first = "" }: Given<Row>): ReactNode {
  const [sort, setSort] = useState(first);
  const sorted = useMemo(() => sortedBy(rows ?? [], columns, sort), [rows, columns, sort]);
  if (rows === undefined) return error === undefined ? <Skeleton what={label} /> : onRetry === undefined ? <Fault error={error} /> : <Fault error={error} onRetry={onRetry} />;
  if (rows.length === 0) return empty;
  const tracks = (kept: readonly Column<Row>[]): string => kept.map(({ width }) => width ?? "minmax(80px, 1fr)").join(" ");
  const style = { "--tracks": tracks(columns), "--few-tracks": tracks(columns.filter(({ isWide }) => isWide !== true)).replaceAll(/minmax\([^,]+,/g, "minmax(0,") } as Record<string, string>;
  const lines = sorted.map((row) => <Line key={rowKey(row)} row={row} columns={columns} href={hrefOf?.(row) ?? null} />);
  return (
    <div className={sorted.length > MOST_PLAIN ? "data-table long" : "data-table"} role="table" aria-label={label} aria-rowcount={sorted.length + 1} style={style} onKeyDown={move}>
      <div role="rowgroup" className="data-head">
        <div role="row" className="data-row">
          {columns.map((column) => (
            <Head key={column.id} column={column} sort={sort} onSort={setSort} />
          ))}
        </div>
      </div>
      {sorted.length > MOST_PLAIN ? (
        <VList role="rowgroup" className="vlist" tabIndex={0} aria-label={label}>
          {lines}
        </VList>
      ) : (
        <div role="rowgroup">{lines}</div>
      )}
    </div>
  );
}

function Head<Row>({ column, sort, onSort }: { column: Column<Row>; sort: string; onSort: (sort: string) => void }): ReactNode {
  const direction = sort === column.id ? "ascending" : sort === `-${column.id}` ? "descending" : undefined;
  return (
    <span role="columnheader" className={classOf(column)} aria-sort={direction}>
      {column.sortBy === undefined ? (
        column.name
      ) : (
        <button type="button" className="plain" onClick={() => onSort(nextSort(column, direction))}>
          {column.name}
          {direction !== undefined && <Icon name={direction === "ascending" ? "up" : "down"} size={12} />}
        </button>
      )}
    </span>
  );
}

/** Figures begin with the largest, words with the first. */
function nextSort<Row>({ id, isNumber }: Column<Row>, direction: string | undefined): string {
  if (direction === undefined) return isNumber === true ? `-${id}` : id;
  return direction === "ascending" ? `-${id}` : id;
}

function Line<Row>({ row, columns, href }: { row: Row; columns: readonly Column<Row>[]; href: string | null }): ReactNode {
  return (
    <div role="row" className={href === null ? "data-row" : "data-row to"}>
      {columns.map((column, place) => (
        <span key={column.id} role="cell" className={classOf(column)}>
          {place === 0 && href !== null ? <Link href={href}>{column.cell(row)}</Link> : column.cell(row)}
        </span>
      ))}
    </div>
  );
}

function classOf<Row>({ isNumber, isWide }: Column<Row>): string {
  return `data-cell${isNumber === true ? " number" : ""}${isWide === true ? " wide-only" : ""}`;
}

function sortedBy<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: string): readonly Row[] {
  const sortBy = columns.find(({ id }) => id === sort.replace(/^-/, ""))?.sortBy;
  if (sortBy === undefined) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((one, other) => sign * compare(sortBy(one), sortBy(other)));
}

function compare(one: string | number, other: string | number): number {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
}

const STEPS: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** From link to link of the rows. */
function move(event: KeyboardEvent<HTMLDivElement>): void {
  const step = STEPS[event.key];
  if (step === undefined || event.metaKey || event.ctrlKey || event.altKey || !(event.target instanceof HTMLAnchorElement)) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>(".data-row.to > :first-child > a")];
  const next = links[links.indexOf(event.target) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
