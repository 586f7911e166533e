import { type ReactNode } from "react";
import { useData } from "../../data";
import { Badge } from "../../parts/badge";
import { Duration, Moment } from "../../parts/moment";
import { Empty, Fault, Section, Skeleton } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { counted, inOneLine } from "../../safe-text";

interface HookRecord {
  position: number;
  name: string;
  on: "before_call" | "after_call";
  origin: string;
  tools: string[];
  matches: number;
  timeout: number;
  on_failure: "deny" | "allow";
  runs: number;
  failures: number;
  average_ms: number | null;
  last_error: string | null;
  last_failed_at: string | null;
}

const COLUMNS: Column<HookRecord>[] = [
  { id: "position", name: "#", width: "32px", isNumber: true, cell: ({ position }) => position },
  {
    id: "name",
    name: "Hook",
    width: "minmax(96px, 2fr)",
    cell: ({ name, origin }) => (
      <span className="name-and-says">
        <strong className="one-line">{inOneLine(name, 100)}</strong>
        <span className="one-line quiet">{inOneLine(origin, 200)}</span>
      </span>
    ),
  },
  { id: "tools", name: "Asked about", width: "minmax(100px, 1fr)", isWide: true, cell: ({ tools, matches }) => <span className="text">{inOneLine(tools.join(", ") || "nothing", 200)} <span className="quiet">({counted(matches, "tool")})</span></span> },
  { id: "failure", name: "If it fails", width: "136px", isWide: true, cell: ({ on_failure, timeout }) => `${on_failure === "deny" ? "denied" : "goes on"}, ${(timeout / 1000).toLocaleString()} s` },
  { id: "runs", name: "Asked", width: "64px", isNumber: true, cell: ({ runs }) => runs.toLocaleString() },
  { id: "average", name: "Average", width: "80px", isNumber: true, isWide: true, cell: ({ average_ms }) => <Duration ms={average_ms} /> },
  {
    id: "failures",
    name: "Failures",
    width: "minmax(72px, 2fr)",
    cell: ({ failures, last_error, last_failed_at }) =>
      failures === 0 ? (
        "0"
      ) : (
        <span className="text">
          <Badge tone="bad">{failures.toLocaleString()}</Badge> {inOneLine(last_error ?? "", 300)} <span className="quiet"><Moment at={last_failed_at} /></span>
        </span>
      ),
  },
];

/** What is asked before and after calls, in its order, and how it fares at this gateway. */
export function Hooks(): ReactNode {
  const { data, error, mutate } = useData<{ hooks: HookRecord[] }>("/api/v1/hooks", { every: 5000 });
  if (data === undefined) return error === undefined ? <Skeleton what="Hooks" /> : <Fault error={error} onRetry={() => void mutate()} />;
  if (data.hooks.length === 0) {
    return (
      <Empty title="No hooks">
        A hook decides about calls before they are made, or about their results. Write <code>[[hooks]]</code> with <code>on</code> and a <code>url</code> or <code>python</code> function into the config file.
      </Empty>
    );
  }
  return (["before_call", "after_call"] as const).map((on) => (
    <Section key={on} title={on === "before_call" ? "Before a call" : "After a call"} count={data.hooks.filter((hook) => hook.on === on).length} nothing="Nothing is asked then.">
      <DataTable label={on === "before_call" ? "Hooks before calls" : "Hooks after calls"} columns={COLUMNS} rows={data.hooks.filter((hook) => hook.on === on)} rowKey={({ position, on: when }) => `${when} ${position}`} />
    </Section>
  ));
}
