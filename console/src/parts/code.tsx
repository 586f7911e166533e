/**
 * `<Code text label="curl" />` is text as it is, in the typeface of code, with a button that copies it. `<Json value
 * label="Arguments" />` is a JSON value as a readable tree (`tree.tsx`), which can be switched to its text; `whole`
 * folds nothing, as before an approval. `<Diff lines />` colours what was added and removed. All of it is text: hidden
 * characters are made visible, the copy is exact.
 */
import { useState, type ReactNode } from "react";
import { safeText } from "../safe-text";
import { Copy } from "./copy";
import { Tree } from "./tree";

export function Code({ text, label, copy = "Copy" }: { text: string; label: string; copy?: string }): ReactNode {
  return (
    <figure className="code-block">
      <figcaption>
        <span>{label}</span>
        <Copy text={text}>{copy}</Copy>
      </figcaption>
      <pre className="code" tabIndex={0} aria-label={label}>
        {safeText(text, 200_000)}
      </pre>
    </figure>
  );
}

export function Json({ value, label, whole = false }: { value: unknown; label: string; whole?: boolean }): ReactNode {
  const [isText, setIsText] = useState(false);
  const text = JSON.stringify(value, null, 2) ?? "null";
  return (
    <figure className="code-block" aria-label={label}>
      <figcaption>
        <span>{label}</span>
        <button type="button" className="plain" aria-pressed={isText} onClick={() => setIsText(!isText)}>
          JSON
        </button>
        <Copy text={text}>Copy</Copy>
      </figcaption>
      {isText ? (
        <pre className="code" tabIndex={0} aria-label={label}>
          {safeText(text, whole ? Infinity : 200_000)}
        </pre>
      ) : (
        <div className="json">
          <Tree value={value} whole={whole} />
        </div>
      )}
    </figure>
  );
}

export function Diff({ lines }: { lines: readonly string[] }): ReactNode {
  return (
    <pre className="diff" tabIndex={0} aria-label="Difference">
      {lines.map((line, place) => (
        <span key={place} className={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>
          {safeText(line, 10_000)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
