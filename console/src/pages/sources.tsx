import { type ReactNode } from "react";
import { Link } from "wouter";
import { go, linkTo, useFilters } from "../address";
import { useConnection } from "../connection";
import { useData, type SourceStatus } from "../data";
import { useMay } from "../identity";
import { Badge, SourceState } from "../parts/badge";
import { Choose, FilterBar, Search } from "../parts/filters";
import { Icon } from "../parts/icon";
import { Moment } from "../parts/moment";
import { Empty, Loading } from "../parts/states";
import { DataTable, type Column } from "../parts/table";
import { counted, inOneLine } from "../safe-text";
import { useActions } from "../shortcuts";
import "../style/fields.css";
import "../style/sources.css";
import { AddSource } from "./sources/add";
import { OneSource } from "./sources/one";
import { ORIGINS, type SourceRecord, type SwitchRecord } from "./sources/records";

/** Where tools come from: all sources, one of them, or the form for another one (`?add=url`). */
export default function SourcesPage({ name }: { name?: string | undefined }): ReactNode {
  const isAdmin = useMay("admin");
  const { values } = useFilters(["add"]);
  if (!isAdmin) return <Seen name={name} />;
  if (name !== undefined) return <OneSource key={name} name={name} />;
  if (values.add !== "") return <AddSource kind={values.add} />;
  return <AllSources />;
}

interface Row extends SourceRecord {
  held: number;
  off: SwitchRecord | undefined;
}

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    name: "Source",
    width: "minmax(112px, 3fr)",
    sortBy: ({ name }) => name,
    cell: ({ name, off, held, error, doing, faults }) => (
      <span className="name-and-says">
        <span className="with-marks">
          <strong className="one-line">{inOneLine(name, 60)}</strong>
          {off !== undefined && <Badge tone="none">off for everybody</Badge>}
          {held > 0 && <Badge tone="wait">{held} quarantined</Badge>}
        </span>
        {(error ?? doing ?? faults[0]) !== undefined && <span className="one-line quiet">{inOneLine(error ?? doing ?? faults[0] ?? "", 240)}</span>}
      </span>
    ),
  },
  { id: "status", name: "State", width: "112px", sortBy: ({ status }) => status, cell: ({ status }) => <SourceState status={status} /> },
  {
    id: "kind",
    name: "Kind",
    width: "minmax(80px, 1fr)",
    isWide: true,
    sortBy: ({ kind }) => kind,
    cell: ({ kind, origin }) => (
      <span className="name-and-says">
        <span className="one-line">{inOneLine(kind, 30)}</span>
        <span className="one-line quiet">{ORIGINS[origin] ?? origin}</span>
      </span>
    ),
  },
  { id: "tools", name: "Tools", width: "56px", isNumber: true, sortBy: ({ tools }) => tools.length, cell: ({ tools }) => tools.length.toLocaleString() },
  { id: "others", name: "Also", width: "minmax(136px, 1fr)", isWide: true, sortBy: ({ resources, prompts }) => resources + prompts.length, cell: (source) => <span className="quiet one-line">{others(source)}</span> },
  { id: "listed", name: "Last listing", width: "88px", isNumber: true, isWide: true, sortBy: ({ listed_at }) => listed_at ?? "", cell: ({ listed_at }) => <Moment at={listed_at} /> },
  { id: "reconnects", name: "Reconnects", width: "88px", isNumber: true, isWide: true, sortBy: ({ reconnects }) => reconnects, cell: ({ reconnects }) => reconnects.toLocaleString() },
];

function AllSources(): ReactNode {
  const filters = useFilters(["q", "state"]);
  const { data, error, mutate } = useData<{ sources: SourceRecord[] }>("/api/v1/sources", { every: 5000 });
  const { data: switches } = useData<{ switches: SwitchRecord[] }>("/api/v1/switches", { every: 15_000 });
  const { ready } = useConnection();
  const shown = data?.sources.filter(isOfInterest).map((source) => ({
    ...source,
    held: ready?.sources?.find(({ name }) => name === source.name)?.held?.length ?? 0,
    off: switches?.switches.find(({ kind, name }) => kind === "source" && name === source.name),
  }));
  const { q, state } = filters.values;
  useActions([{ name: "Add a source", key: "n", run: () => go(linkTo("/sources", { add: "url" })) }]);
  const found = shown?.sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name)).filter((source) => fits(source, q) && (state === "" || source.status === state || (state === "quarantined" && source.held > 0)));
  return (
    <div className="page">
      <header className="page-head">
        <h1>Sources</h1>
        <Link className="button primary" href={linkTo("/sources", { add: "url" })}>
          <Icon name="plus" /> Add a source
        </Link>
      </header>
      <FilterBar filters={filters}>
        <Search name="q" label="Search sources" filters={filters} />
        <Choose name="state" label="State" any="All states" options={["up", "down", "faulty", ["login_needed", "login needed"], "starting", "quarantined"]} filters={filters} />
      </FilterBar>
      <DataTable
        label="Sources"
        columns={COLUMNS}
        rows={found}
        rowKey={({ name }) => name}
        hrefOf={({ name }) => `/sources/${encodeURIComponent(name)}`}
        error={error}
        onRetry={() => void mutate()}
        empty={
          filters.isAny ? (
            <Empty title="No source matches the filters" />
          ) : (
            <Empty title="No sources yet">
              <Link href={linkTo("/sources", { add: "url" })}>Add an MCP server</Link>, an OpenAPI document or an HTTP tool, or put a Python file into the config's <code>tools/</code> folder.
            </Empty>
          )
        }
      />
    </div>
  );
}

/** What needs somebody comes first, the gateway's own kinds last. */
function rank({ status, held, origin }: Row): number {
  if (status !== "up" || held > 0) return 0;
  return origin === "builtin" ? 2 : 1;
}

/** What it offers besides tools. */
function others({ resources, templates, prompts }: SourceRecord): string {
  const parts = [...(resources + templates > 0 ? [counted(resources + templates, "resource")] : []), ...(prompts.length > 0 ? [counted(prompts.length, "prompt")] : [])];
  return parts.join(", ") || "–";
}

/** The gateway's own kinds only count when there is something of them. */
function isOfInterest({ origin, tools, status }: SourceRecord): boolean {
  return origin !== "builtin" || tools.length > 0 || status !== "up";
}

function fits({ name, kind, tools }: SourceRecord, words: string): boolean {
  return words === "" || [name, kind, ...tools].some((text) => text.toLowerCase().includes(words.toLowerCase()));
}

const SEEN: Column<SourceStatus>[] = [
  { id: "name", name: "Source", width: "minmax(120px, 1fr)", sortBy: ({ name }) => name, cell: ({ name }) => <strong className="one-line">{inOneLine(name, 60)}</strong> },
  { id: "status", name: "State", width: "112px", sortBy: ({ status }) => status, cell: ({ status }) => <SourceState status={status} /> },
  { id: "kind", name: "Kind", width: "112px", isWide: true, cell: ({ kind }) => inOneLine(kind, 30) },
  { id: "tools", name: "Tools", width: "72px", isNumber: true, sortBy: ({ tools }) => tools, cell: ({ tools }) => tools.toLocaleString() },
];

/** For those who may not manage sources: how each is, and what they would need for more. */
function Seen({ name }: { name: string | undefined }): ReactNode {
  const { ready } = useConnection();
  if (ready === undefined) return <Loading what="sources" />;
  const sources = ready.sources?.filter((source) => (name === undefined ? source.tools > 0 || source.status !== "up" : source.name === name)) ?? [];
  return (
    <div className="page">
      <h1>Sources</h1>
      <p className="notice" role="status">
        <Icon name="lock" />
        <span>
          Errors, definitions that changed and settings are shown to administrators: that takes the scope <code>admin</code>.
        </span>
      </p>
      <DataTable label="Sources" columns={SEEN} rows={sources} rowKey={(source) => source.name} empty={<Empty title="No sources that you may see" />} />
    </div>
  );
}
