/**
 * Tabs whose choice lives in the address (`?tab=history`), so that a link and a reload show the same one:
 * `const tab = useTab(["calls", "schema"]); <Tabs label="Parts of the tool" tabs={[{ id: "calls", name: "Calls", count:
 * 3 }, …]} current={tab} />`. They are links: the Tab key reaches them, the middle button opens one in a new page. The
 * first id is the default and is not written into the address.
 */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { useSearchText, withQuery } from "../address";

export interface Tab {
  id: string;
  name: string;
  count?: number | undefined;
}

export function useTab(ids: readonly string[], { name = "tab" }: { name?: string } = {}): string {
  const asked = new URLSearchParams(useSearchText()).get(name);
  return asked !== null && ids.includes(asked) ? asked : ids[0]!;
}

export function Tabs({ label, tabs, current, name = "tab" }: { label: string; tabs: readonly Tab[]; current: string; name?: string }): ReactNode {
  useSearchText();
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map((tab, place) => (
        <Link key={tab.id} href={withQuery({ cursor: undefined, [name]: place === 0 ? undefined : tab.id })} aria-current={tab.id === current ? "true" : undefined}>
          {tab.name}
          {tab.count !== undefined && <span className="quiet"> {tab.count.toLocaleString()}</span>}
        </Link>
      ))}
    </nav>
  );
}
