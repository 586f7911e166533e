/**
 * Paging by the gateway's cursor, which lives in the address, so that "back" is the page before and a reload keeps the
 * place. `const cursor = useCursor()` goes into the path of the list; `<Pager next={data.next_cursor} isFirst={cursor ===
 * ""} />` stands below it. Lists are newest first: "Newest" leads to the first page, "Older" to the next. Filters and
 * `useTimeRange` drop the cursor when they change.
 */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { useSearchText, withQuery } from "../address";
import { Icon } from "./icon";

export function useCursor(): string {
  return new URLSearchParams(useSearchText()).get("cursor") ?? "";
}

export function Pager({ next, isFirst }: { next: string | null | undefined; isFirst: boolean }): ReactNode {
  useSearchText();
  const hasNext = typeof next === "string" && next !== "";
  if (isFirst && !hasNext) return null;
  return (
    <nav className="pager" aria-label="Pages of the list">
      {!isFirst && (
        <Link className="button small" href={withQuery({ cursor: undefined })}>
          <Icon name="left" /> Newest
        </Link>
      )}
      {hasNext && (
        <Link className="button small" href={withQuery({ cursor: next })}>
          Older <Icon name="right" />
        </Link>
      )}
    </nav>
  );
}
