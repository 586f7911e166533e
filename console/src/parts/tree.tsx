import { useState, type ReactNode } from "react";
import { counted, safeText } from "../safe-text";

const FOLDED = 12;
const LONG = 600;
const MOST = 200_000;
const PIECE = 1_000;

/** A readable JSON value, rendered as text. Long values are folded, unless `whole`. */
export function Tree({ value, depth = 0, whole = false }: { value: unknown; depth?: number; whole?: boolean }): ReactNode {
  if (value === null) return <span className="json-word">null</span>;
  if (typeof value === "string") return whole ? <span className="text">{pieces(safeText(value, Infinity))}</span> : <LongText text={value} />;
  if (isLargeNumber(value)) return <span className="json-word">{value.rawJSON}</span>;
  if (typeof value !== "object") return <span className="json-word">{String(value)}</span>;
  const entries: [string, unknown][] = Array.isArray(value) ? value.map((item, place) => [String(place), item]) : Object.entries(value);
  if (entries.length === 0) return <span className="json-word">{Array.isArray(value) ? "[ ]" : "{ }"}</span>;
  return <Branch entries={entries} isList={Array.isArray(value)} depth={depth} whole={whole} />;
}

function Branch({ entries, isList, depth, whole }: { entries: [string, unknown][]; isList: boolean; depth: number; whole: boolean }): ReactNode {
  const [unfolded, setUnfolded] = useState(FOLDED);
  const shown = whole ? entries.length : unfolded;
  const rows = (
    <dl className="tree">
      {entries.slice(0, shown).map(([key, item]) => (
        <div key={key} className={isBranch(item) ? "branch" : "leaf"}>
          <dt>{safeText(key, whole ? Infinity : 200)}</dt>
          <dd>
            <Tree value={item} depth={depth + 1} whole={whole} />
          </dd>
        </div>
      ))}
      {entries.length > shown && (
        <button type="button" className="plain" onClick={() => setUnfolded(shown + 100)}>
          {entries.length - shown} more
        </button>
      )}
    </dl>
  );
  if (whole || depth < 2) return rows;
  return (
    <details>
      <summary>{counted(entries.length, isList ? "item" : "field")}</summary>
      {rows}
    </details>
  );
}

/** An integer that JavaScript would round; the client keeps it as it came. */
function isLargeNumber(value: unknown): value is { rawJSON: string } {
  return typeof value === "object" && value !== null && (JSON as { isRawJSON?: (value: unknown) => boolean }).isRawJSON?.(value) === true;
}

function isBranch(value: unknown): boolean {
  return typeof value === "object" && value !== null && !isLargeNumber(value) && Object.keys(value).length > 0;
}

/** Untrusted text: folded if long, with hidden characters made visible. */
export function LongText({ text, most = LONG }: { text: string; most?: number }): ReactNode {
  const [isWhole, setIsWhole] = useState(false);
  if (text.length <= most) return <span className="text">{safeText(text)}</span>;
  return (
    <span className="text">
      {isWhole ? pieces(safeText(text, MOST)) : safeText(text.slice(0, most))}
      {!isWhole && "… "}
      {!isWhole && (
        <button type="button" className="plain" onClick={() => setIsWhole(true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </span>
  );
}

/** Adds break opportunities: laying out one word of 100,000 characters takes a browser many seconds. */
function pieces(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  for (let at = 0; at < text.length; at += PIECE) parts.push(text.slice(at, at + PIECE), <wbr key={at} />);
  return parts;
}
