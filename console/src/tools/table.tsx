import { useState, type ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { Tree } from "../parts/tree";
import { counted, inOneLine, safeText } from "../safe-text";

const FIRST = 20;
const MOST_COLUMNS = 12;

export interface Rows {
  columns: string[];
  rows: unknown[][];
}

/** `displayTable`: `rows` of objects or lists, `columns` for rows that are lists. */
export function DisplayTable({ call }: ToolProps): ReactNode {
  const { title, rows, data, columns } = (call.args ?? {}) as Record<string, unknown>;
  const found = rowsOf(rows ?? data, columns);
  return (
    <>
      {typeof title === "string" && <p className="question">{safeText(title, 200)}</p>}
      {found === null ? <Tree value={call.args} /> : <Table {...found} />}
    </>
  );
}

/** A list of flat records as a table; null for anything else. */
export function rowsOf(data: unknown, columns?: unknown): Rows | null {
  if (!Array.isArray(data) || data.length === 0) return null;
  if (Array.isArray(columns) && data.every(Array.isArray)) return { columns: columns.map(String), rows: data as unknown[][] };
  if (!data.every((row) => row !== null && typeof row === "object" && !Array.isArray(row))) return null;
  const records = data as Record<string, unknown>[];
  const names = Array.isArray(columns) ? columns.map(String) : [...new Set(records.slice(0, 100).flatMap((row) => Object.keys(row)))];
  if (names.length === 0 || names.length > MOST_COLUMNS) return null;
  if (records.some((row) => Object.values(row).some((value) => value !== null && typeof value === "object"))) return null;
  return { columns: names, rows: records.map((row) => names.map((name) => row[name])) };
}

export function Table({ columns, rows }: Rows): ReactNode {
  const [shown, setShown] = useState(FIRST);
  return (
    <>
      <div className="table" tabIndex={0} role="region" aria-label="Table">
        <table>
          <thead>
            <tr>
              {columns.map((name, place) => (
                <th key={place}>{safeText(name, 60)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shown).map((row, number) => (
              <tr key={number}>
                {columns.map((_, place) => (
                  <td key={place} className={typeof row[place] === "number" ? "number" : "text"}>
                    {cell(row[place])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shown && (
        <button type="button" className="plain" onClick={() => setShown(shown + 200)}>
          {counted(rows.length - shown, "more row")}
        </button>
      )}
    </>
  );
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? value.toLocaleString(undefined, { maximumFractionDigits: 6 }) : inOneLine(value, 300);
}
