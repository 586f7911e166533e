/**
 * Names and values, in as many columns as fit: `<Facts facts={[["Source", "github"], ["Asked", <Moment at={…} />]]} />`.
 * A value that is null, undefined or "" is left out with its name. Values are nodes; foreign text goes through
 * `safeText` or `<LongText>` first. For a JSON value use `<Json>` in `code.tsx`. `isNarrow` puts them below each other,
 * as in the column beside a page.
 */
import type { ReactNode } from "react";

export function Facts({ facts, isNarrow = false }: { facts: readonly (readonly [string, ReactNode])[]; isNarrow?: boolean }): ReactNode {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return (
    <dl className={isNarrow ? "fact-list narrow" : "fact-list"}>
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
