import { lazy, Suspense, useDeferredValue, useMemo, useState, type ReactNode } from "react";
import { Link } from "wouter";
import { VList } from "virtua";
import { linkTo, useFilters } from "../address";
import { useConnection } from "../connection";
import { client, useData, useFoundTools, type CallRecord, type ToolDefinition } from "../data";
import { Badge } from "../parts/badge";
import { CallCard, shownRecord } from "../parts/call-card";
import { Code, Diff, Json } from "../parts/code";
import { Facts } from "../parts/facts";
import { Choose, FilterBar, Search } from "../parts/filters";
import { Empty, Fault, Section, Skeleton } from "../parts/states";
import { Traffic } from "../parts/traffic";
import { useMay } from "../identity";
import { counted, inOneLine, safeText } from "../safe-text";
import { clock } from "../time";
import "../style/tools.css";

const TryIt = lazy(() => import("../parts/try-it"));

export interface EffectiveTool {
  scenario: string;
  tool: ToolDefinition;
  enabled: boolean;
  requires_approval: boolean;
  approval_override: "" | "require" | "skip";
  switched_off?: Switch;
}

/** What an administrator has switched off for everybody. */
interface Switch {
  kind: "tool" | "source" | "key";
  name: string;
  reason: string;
  by: string;
  at: string;
}

/** Whose switch has turned a tool off. */
function offBy({ enabled, switched_off: off }: EffectiveTool): string | null {
  if (off === undefined) return enabled ? null : "off for you";
  return off.kind === "tool" ? "off for everybody" : `${off.kind} off for everybody`;
}

/** The catalog with search, grouped by source; or one tool with a form, preferences, schema and calls. */
export default function ToolsPage({ name }: { name?: string | undefined }): ReactNode {
  const { data, error, mutate } = useData<{ tools: EffectiveTool[] }>("/api/v1/tools/set", { every: 15_000 });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) {
    return (
      <div className="page">
        <Skeleton what="tools" />
      </div>
    );
  }
  if (name !== undefined) return <OneTool key={name} name={name} tool={data.tools.find((one) => one.tool.name === name)} onChanged={() => void mutate()} />;
  return <Catalog tools={data.tools} />;
}

/** A tool that its source offers, and nobody is offered. */
interface Held {
  held: string;
  source: string;
}

type Row = { heading: string; count: number } | Held | EffectiveTool;

function Catalog({ tools }: { tools: EffectiveTool[] }): ReactNode {
  const filters = useFilters(["q", "source", "category"]);
  const { q, source, category } = filters.values;
  const wanted = useDeferredValue(q.trim().toLowerCase());
  const found = useFoundTools(wanted);
  const { ready } = useConnection();
  const held = (ready?.sources ?? [])
    .filter((one) => source === "" || one.name === source)
    .flatMap((one) => (one.held ?? []).map((name): Held => ({ held: name, source: one.name })))
    .filter((one) => category === "" && one.held.toLowerCase().includes(wanted));
  const offered = useMemo(
    () => grouped(tools.filter(({ tool }) => (source === "" || tool.source === source) && (category === "" || tool.category === category) && (fits(tool, wanted) || found.has(tool.name)))),
    [tools, source, category, wanted, found],
  );
  const rows: Row[] = held.length === 0 ? offered : [{ heading: "Quarantined", count: held.length }, ...held, ...offered];
  const categories = named(tools.map(({ tool }) => tool.category));
  return (
    <div className="page tall">
      <header className="page-head">
        <h1>Tools</h1>
        <FilterBar filters={filters}>
          <Search name="q" label="Search tools" filters={filters} />
          <Choose name="source" label="Source" any="All sources" options={named(tools.map(({ tool }) => tool.source))} filters={filters} />
          {categories.length > 0 && <Choose name="category" label="Category" any="All categories" options={categories} filters={filters} />}
        </FilterBar>
        <span className="quiet">{[counted(rows.filter((row) => "tool" in row).length, "tool"), ...(held.length > 0 ? [`${held.length} quarantined`] : [])].join(", ")}</span>
      </header>
      {tools.length === 0 && (
        <Empty title="No tools yet">
          Add a Python file to the config's <code>tools/</code> folder, or add a <Link href="/sources">source</Link>.
        </Empty>
      )}
      {tools.length > 0 && rows.length === 0 && <Empty title={q === "" ? "No tool matches these filters" : `No tools match “${safeText(q, 60)}”`} />}
      {rows.length > 0 && (
        <VList className="vlist" data={rows} tabIndex={0} role="region" aria-label="Tools">
          {(row) => ("heading" in row ? <Heading key={`of ${row.heading}`} {...row} /> : "held" in row ? <HeldRow key={`held ${row.held}`} one={row} /> : <ToolRow key={row.tool.name} one={row} />)}
        </VList>
      )}
    </div>
  );
}

/** Each name once, in order, as an option. */
function named(names: (string | null)[]): (readonly [string, string])[] {
  return [...new Set(names.filter((name) => name !== null))].sort().map((name) => [name, inOneLine(name, 60)] as const);
}

function fits(tool: ToolDefinition, wanted: string): boolean {
  if (wanted === "") return true;
  const text = `${tool.name} ${tool.description} ${tool.category ?? ""} ${tool.source}`.toLowerCase();
  return wanted.split(/\s+/).every((word) => text.includes(word));
}

function grouped(tools: EffectiveTool[]): Row[] {
  const groups = new Map<string, EffectiveTool[]>();
  for (const one of tools) {
    const heading = [one.tool.source, one.tool.category].filter(Boolean).join(" · ");
    groups.set(heading, [...(groups.get(heading) ?? []), one]);
  }
  return [...groups].sort(([one], [other]) => one.localeCompare(other)).flatMap(([heading, members]) => [{ heading, count: members.length }, ...members]);
}

function Heading({ heading, count }: { heading: string; count: number }): ReactNode {
  return (
    <h2 className="group">
      {safeText(heading, 60)} <span className="quiet">{count}</span>
    </h2>
  );
}

function HeldRow({ one: { held, source } }: { one: Held }): ReactNode {
  return (
    <div className="row">
      <Link href={`/tools/${encodeURIComponent(held)}`}>
        <code className="one-line">{safeText(held, 80)}</code>
        <span className="quiet one-line">of {inOneLine(source, 60)}: not offered until its changed definition is accepted</span>
        <span className="marks">
          <Badge tone="wait">quarantined</Badge>
        </span>
      </Link>
    </div>
  );
}

function ToolRow({ one }: { one: EffectiveTool }): ReactNode {
  return (
    <div className="row">
      <Link href={`/tools/${encodeURIComponent(one.tool.name)}`}>
        <code className="one-line">{safeText(one.tool.name, 80)}</code>
        <span className="quiet one-line">{safeText(one.tool.description, 300)}</span>
        <span className="marks">
          {offBy(one) !== null && <span className="mark">{offBy(one)}</span>}
          {one.requires_approval && <span className="mark">needs approval</span>}
        </span>
      </Link>
    </div>
  );
}

function OneTool({ name, tool, onChanged }: { name: string; tool: EffectiveTool | undefined; onChanged: () => void }): ReactNode {
  const { data: history, mutate } = useData<{ calls: CallRecord[] }>(`/api/v1/calls?tool=${encodeURIComponent(name)}&limit=20`, { every: 5000 });
  const canCall = useMay("call");
  return (
    <div className="page">
      <header>
        <nav aria-label="Breadcrumb">
          <Link href="/tools">Tools</Link>
        </nav>
        <h1 className="tool-name">{safeText(name, 80)}</h1>
        {tool !== undefined && <p className="text">{safeText(tool.tool.description, 5000)}</p>}
        {tool?.switched_off !== undefined && <OffForEverybody off={tool.switched_off} />}
      </header>
      {tool === undefined && <NotOffered name={name} hasCalls={history === undefined || history.calls.length > 0} onChanged={onChanged} />}
      <div className="tool-columns">
        <div className="tool-main">
          {tool !== undefined && canCall && (
            <Section title="Try it">
              <Suspense fallback={<Skeleton what="the form" lines={3} />}>
                <TryIt tool={tool.tool} onCalled={() => void mutate()} />
              </Suspense>
            </Section>
          )}
          <Section title="Calls" actions={<Link href={linkTo("/calls", { tool: name })}>All calls</Link>}>
            {history === undefined && <Skeleton what="calls" lines={3} />}
            {history?.calls.length === 0 && <p className="quiet">No calls yet.</p>}
            <ol className="cards">
              {history?.calls.map((call) => (
                <li key={call.id}>
                  <CallCard call={shownRecord(call)} />
                </li>
              ))}
            </ol>
          </Section>
        </div>
        {tool !== undefined && <About one={tool} onChanged={onChanged} />}
      </div>
    </div>
  );
}

/** What is known of a tool, and for whom it is on. */
function About({ one, onChanged }: { one: EffectiveTool; onChanged: () => void }): ReactNode {
  const { tool } = one;
  const canCall = useMay("call");
  const isAdmin = useMay("admin");
  return (
    <aside className="tool-about" aria-label="About the tool">
      <Facts
        isNarrow
        facts={[
          ["Source", <Link href={`/sources/${encodeURIComponent(tool.source)}`}>{safeText(tool.source, 60)}</Link>],
          ["Category", tool.category === null ? null : safeText(tool.category, 60)],
          ["Version", <code title={tool.version}>{tool.version.slice(0, 8)}</code>],
          ["Approval", one.requires_approval ? "needs approval" : null],
          ["State", offBy(one)],
        ]}
      />
      <Traffic of="tool" name={tool.name} />
      {canCall && (
        <Section title="For you">
          <Preferences one={one} onChanged={onChanged} />
        </Section>
      )}
      {isAdmin && (
        <Section title="For everybody">
          <ForEverybody one={one} onChanged={onChanged} />
        </Section>
      )}
      <div>
        <AsCode tool={tool} />
        <details>
          <summary>Schema and metadata</summary>
          <Json label="Definition" value={{ parameters: tool.parameters, metadata: tool.metadata, version: tool.version }} />
        </details>
      </div>
    </aside>
  );
}

function Preferences({ one, onChanged }: { one: EffectiveTool; onChanged: () => void }): ReactNode {
  const [fault, setFault] = useState<Error | null>(null);
  const send = async (path: string, body: Record<string, unknown>): Promise<void> => {
    try {
      await client.post(path, { scenario: one.scenario, tool_name: one.tool.name, ...body });
      setFault(null);
      onChanged();
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  return (
    <div className="switches">
      <label>
        <input type="checkbox" checked={one.enabled} onChange={(event) => void send("/api/v1/tools/config", { enabled: event.target.checked })} /> enabled for you
      </label>
      <label>
        approval{" "}
        <select value={one.approval_override} onChange={(event) => void send("/api/v1/tools/config/approval", { approval_override: event.target.value })}>
          <option value="">default{one.requires_approval && one.approval_override === "" ? " (required)" : ""}</option>
          <option value="require">always required</option>
          <option value="skip">not required</option>
        </select>
      </label>
      {fault !== null && <Fault error={fault} />}
    </div>
  );
}

function OffForEverybody({ off }: { off: Switch }): ReactNode {
  const what = off.kind === "tool" ? "Off" : `${off.kind === "source" ? "Source" : "Key"} ${safeText(off.name, 60)} is off`;
  return (
    <p role="status">
      {what} for everybody, by {safeText(off.by, 60)}, {clock(off.at)}
      {off.reason !== "" && <>: {safeText(off.reason, 500)}</>}
    </p>
  );
}

/** An administrator's switch, which goes before what keys prefer. */
function ForEverybody({ one, onChanged }: { one: EffectiveTool; onChanged: () => void }): ReactNode {
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState<Error | null>(null);
  const off = one.switched_off;
  const [kind, name] = off === undefined ? (["tool", one.tool.name] as const) : ([off.kind, off.name] as const);
  const send = async (enabled: boolean): Promise<void> => {
    try {
      await client.put(`/api/v1/switches/${kind}/${encodeURIComponent(name)}`, enabled ? { enabled } : { enabled, reason });
      setFault(null);
      setReason("");
      onChanged();
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  return (
    <form
      className="switches"
      onSubmit={(event) => {
        event.preventDefault();
        void send(off !== undefined);
      }}
    >
      {off === undefined && <input aria-label="Reason" placeholder="Reason, shown to callers" maxLength={500} value={reason} onChange={(event) => setReason(event.target.value)} />}
      <button type="submit">
        {off === undefined ? "Switch off for everybody" : `Switch ${kind === "tool" ? "" : `${kind} ${safeText(name, 60)} `}on for everybody`}
      </button>
      {fault !== null && <Fault error={fault} />}
    </form>
  );
}

interface Diff {
  diff: string | string[];
  digest: string;
  source: string;
}

/** A tool that is not in the catalog: quarantined until an administrator reviews the diff and accepts it, or gone. */
function NotOffered({ name, hasCalls, onChanged }: { name: string; hasCalls: boolean; onChanged: () => void }): ReactNode {
  const isAdmin = useMay("admin");
  const { data, error, mutate } = useData<Diff>(isAdmin ? `/api/v1/tools/${encodeURIComponent(name)}/diff` : null);
  const [fault, setFault] = useState<Error | null>(null);
  const lines = data === undefined ? [] : Array.isArray(data.diff) ? data.diff : data.diff.split("\n");
  if (isAdmin && data === undefined && error === undefined) return null;
  if (lines.filter((line) => line !== "").length === 0) return hasCalls ? null : <Empty title="Tool not found">It may have been removed, or your key may not see it.</Empty>;
  const accept = async (): Promise<void> => {
    try {
      // Only what was seen is meant.
      await client.post(`/api/v1/tools/${encodeURIComponent(name)}/accept`, { digest: data?.digest });
      await mutate();
      onChanged();
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  return (
    <section className="card requires_action" aria-labelledby="quarantine-title">
      <header>
        <h2 id="quarantine-title">Definition changed</h2>
      </header>
      <div className="card-body">
        <p>This tool is quarantined: it is not offered until an administrator accepts the change.</p>
        <Diff lines={lines} />
        <div className="actions">
          <button type="button" className="primary" onClick={() => void accept()}>
            Accept change
          </button>
          {data !== undefined && <Link href={`/sources/${encodeURIComponent(data.source)}`}>Read it side by side, or refuse it</Link>}
        </div>
        {fault !== null && <Fault error={fault} />}
      </div>
    </section>
  );
}

function AsCode({ tool }: { tool: ToolDefinition }): ReactNode {
  const curl = `curl -s -H "x-api-key: $KEY" -H "content-type: application/json" \\\n  -d '{"arguments": {}}' ${location.origin}/api/v1/tools/${tool.name}/execute`;
  const python = `from jackfield.sdk import Client\n\nasync with Client("${location.origin}", key=KEY) as client:\n    result = await client.tools.call("${tool.name}")`;
  return (
    <details>
      <summary>curl and Python</summary>
      <div className="stack-small">
        <Code label="curl" text={curl} copy="Copy curl" />
        <Code label="Python" text={python} copy="Copy Python" />
      </div>
    </details>
  );
}
