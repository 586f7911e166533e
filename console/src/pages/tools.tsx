import { lazy, Suspense, useDeferredValue, useMemo, useState, type ReactNode } from "react";
import { Link } from "wouter";
import { VList } from "virtua";
import { client, useData, useFoundTools, type CallRecord, type ToolDefinition } from "../data";
import { CallCard, shownRecord } from "../parts/call-card";
import { Copy } from "../parts/copy";
import { Empty, Fault, Loading } from "../parts/states";
import { Tree } from "../parts/tree";
import { useMay } from "../identity";
import { counted, safeText } from "../safe-text";
import { clock } from "../time";

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
  if (data === undefined) return <Loading what="tools" />;
  if (name !== undefined) return <OneTool key={name} name={name} tool={data.tools.find((one) => one.tool.name === name)} onChanged={() => void mutate()} />;
  return <Catalog tools={data.tools} />;
}

type Row = { heading: string; count: number } | EffectiveTool;

function Catalog({ tools }: { tools: EffectiveTool[] }): ReactNode {
  const [words, setWords] = useState("");
  const wanted = useDeferredValue(words.trim().toLowerCase());
  const found = useFoundTools(wanted);
  const rows = useMemo(() => grouped(tools.filter(({ tool }) => fits(tool, wanted) || found.has(tool.name))), [tools, wanted, found]);
  return (
    <div className="page tall">
      <header className="page-head">
        <h1>Tools</h1>
        <input type="search" aria-label="Search tools" placeholder={`Search ${counted(tools.length, "tool")}`} value={words} onChange={(event) => setWords(event.target.value)} />
      </header>
      {tools.length === 0 && (
        <Empty title="No tools yet">
          Add a Python file to the config's <code>tools/</code> folder, or add a source. <code>jackfield doctor</code> diagnoses sources that do not work.
        </Empty>
      )}
      {tools.length > 0 && rows.length === 0 && <Empty title={`No tools match “${safeText(words, 60)}”`} />}
      {rows.length > 0 && (
        <VList className="vlist" data={rows} tabIndex={0} role="region" aria-label="Tools">
          {(row) => ("heading" in row ? <Heading key={`of ${row.heading}`} {...row} /> : <ToolRow key={row.tool.name} one={row} />)}
        </VList>
      )}
    </div>
  );
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
  const isAdmin = useMay("admin");
  return (
    <div className="page">
      <header>
        <nav aria-label="Breadcrumb">
          <Link href="/tools">Tools</Link>
        </nav>
        <h1 className="tool-name">{safeText(name, 80)}</h1>
        {tool !== undefined && (
          <>
            <p className="text">{safeText(tool.tool.description, 5000)}</p>
            <p className="facts quiet">
              <span>{safeText(tool.tool.source, 60)}</span>
              {tool.tool.category !== null && <span>{safeText(tool.tool.category, 60)}</span>}
              <span title={tool.tool.version}>version {tool.tool.version.slice(0, 8)}</span>
              {tool.requires_approval && <span>needs approval</span>}
              {offBy(tool) !== null && <span>{offBy(tool)}</span>}
            </p>
            {tool.switched_off !== undefined && <OffForEverybody off={tool.switched_off} />}
          </>
        )}
      </header>
      <Quarantine name={name} onChanged={onChanged} />
      {tool !== undefined && (
        <>
          {canCall && <Preferences one={tool} onChanged={onChanged} />}
          {isAdmin && <ForEverybody one={tool} onChanged={onChanged} />}
          {canCall && (
            <section aria-labelledby="try-title">
              <h2 id="try-title">Try it</h2>
              <Suspense fallback={<p className="quiet">Loading the form …</p>}>
                <TryIt tool={tool.tool} onCalled={() => void mutate()} />
              </Suspense>
            </section>
          )}
          <div>
            <AsCode tool={tool.tool} />
            <details>
              <summary>Schema and metadata</summary>
              <Tree value={{ parameters: tool.tool.parameters, metadata: tool.tool.metadata, version: tool.tool.version }} />
            </details>
          </div>
        </>
      )}
      {tool === undefined && history?.calls.length === 0 && <Empty title="Tool not found">It may have been removed, or your key may not see it.</Empty>}
      <section aria-labelledby="history-title">
        <h2 id="history-title">Calls</h2>
        {history?.calls.length === 0 && tool !== undefined && <p className="quiet">No calls yet.</p>}
        <ol className="cards">
          {history?.calls.map((call) => (
            <li key={call.id}>
              <CallCard call={shownRecord(call)} />
            </li>
          ))}
        </ol>
      </section>
    </div>
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
}

/** A changed definition: quarantined until an administrator reviews the diff and accepts it. */
function Quarantine({ name, onChanged }: { name: string; onChanged: () => void }): ReactNode {
  const isAdmin = useMay("admin");
  const { data, mutate } = useData<Diff>(isAdmin ? `/api/v1/tools/${encodeURIComponent(name)}/diff` : null);
  const [fault, setFault] = useState<Error | null>(null);
  const lines = data === undefined ? [] : Array.isArray(data.diff) ? data.diff : data.diff.split("\n");
  if (lines.filter((line) => line !== "").length === 0) return null;
  const accept = async (): Promise<void> => {
    try {
      await client.post(`/api/v1/tools/${encodeURIComponent(name)}/accept`, {});
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
        <pre className="diff">
          {lines.map((line, place) => (
            <span key={place} className={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>
              {safeText(line, 1000)}
              {"\n"}
            </span>
          ))}
        </pre>
        <div className="actions">
          <button type="button" className="primary" onClick={() => void accept()}>
            Accept change
          </button>
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
      <pre className="code">{curl}</pre>
      <Copy text={curl}>Copy curl</Copy>
      <pre className="code">{python}</pre>
      <Copy text={python}>Copy Python</Copy>
    </details>
  );
}
