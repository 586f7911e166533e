import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { lastActivity, type Agent, type Cycle, type InboxEvent } from "../agents/records";
import { AgentSettings } from "../agents/settings";
import { AgentState } from "../agents/state";
import { linkTo } from "../address";
import { client, useData } from "../data";
import { useMay } from "../identity";
import { Badge } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { Moment } from "../parts/moment";
import { Empty, Fault, Loading, Section } from "../parts/states";
import { DataTable, type Column } from "../parts/table";
import { toast } from "../parts/toast";
import { Tree } from "../parts/tree";
import { inOneLine, safeText } from "../safe-text";
import { Traffic } from "../parts/traffic";
import "../style/agents.css";

/** All agents, or one with its settings, state, inbox and cycles. */
export default function AgentsPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <One key={id} id={id} />;
}

const COLUMNS: Column<Agent>[] = [
  { id: "name", name: "Agent", width: "minmax(140px, 1fr)", cell: (agent) => <strong className="one-line">{safeText(agent.name, 80)}</strong> },
  { id: "status", name: "Status", width: "96px", cell: (agent) => <AgentStatus agent={agent} /> },
  { id: "model", name: "Model", isWide: true, cell: (agent) => <span className="one-line">{safeText(agent.model ?? "the default", 60)}</span> },
  { id: "said", name: "Last cycle", width: "minmax(160px, 3fr)", isWide: true, cell: (agent) => <span className="one-line quiet">{inOneLine(agent.lastCycle?.reason ?? agent.lastCycle?.summary ?? agent.description, 200)}</span> },
  { id: "at", name: "Last activity", isNumber: true, width: "112px", cell: (agent) => <Moment at={lastActivity(agent)} />, sortBy: (agent) => lastActivity(agent) ?? "" },
];

function AgentStatus({ agent }: { agent: Agent }): ReactNode {
  if (!agent.enabled) return <Badge tone="none">disabled</Badge>;
  return <Badge tone={agent.status === "awake" ? "busy" : "none"}>{agent.status}</Badge>;
}

function All(): ReactNode {
  const { data, error, mutate } = useData<{ agents: Agent[] }>("/api/agents", { every: 3000 });
  return (
    <div className="page">
      <h1>Agents</h1>
      <DataTable
        label="Agents"
        columns={COLUMNS}
        rows={data?.agents}
        rowKey={(agent) => agent.id}
        hrefOf={(agent) => `/agents/${encodeURIComponent(agent.id)}`}
        error={error}
        onRetry={() => void mutate()}
        empty={
          <Empty title="No agents yet">
            Add one to the config: <code>[agents.concierge]</code> with <code>model</code>, <code>instructions</code> and <code>spaces</code>.
          </Empty>
        }
      />
    </div>
  );
}

function One({ id }: { id: string }): ReactNode {
  const path = `/api/agents/${encodeURIComponent(id)}`;
  const { data, error, mutate } = useData<{ agent: Agent }>(path, { every: 3000 });
  const { data: inbox } = useData<{ events: InboxEvent[] }>(`${path}/inbox?status=pending`, { every: 3000 });
  const { data: cycles } = useData<{ cycles: Cycle[] }>(`${path}/cycles?limit=30`, { every: 3000 });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the agent" />;
  const { agent } = data;
  return (
    <div className="page">
      <header className="stack-small">
        <nav aria-label="Breadcrumb">
          <Link href="/agents">Agents</Link>
        </nav>
        <div className="agent-head">
          <h1>{safeText(agent.name, 80)}</h1>
          <AgentStatus agent={agent} />
          <span className="quiet">
            last activity <Moment at={lastActivity(agent)} />
          </span>
          <StopCycle agent={agent} onChange={() => void mutate()} />
        </div>
        {agent.description !== "" && <p className="quiet">{safeText(agent.description, 2_000)}</p>}
      </header>
      <AgentSettings agent={agent} path={path} onChange={() => void mutate()} />
      <Traffic of="agent" name={agent.id} />
      <Section title="Inbox" count={inbox?.events.length} nothing="No pending events.">
        {inbox?.events.map((event) => (
          <div key={event.eventId} className="fact">
            <span className="quiet">
              {safeText(event.type, 40)} · <Moment at={event.timestamp} />
            </span>
            <Tree value={event.data} depth={1} />
          </div>
        ))}
      </Section>
      <AgentState path={path} what="goals" agent={agent.id} />
      <AgentState path={path} what="memories" agent={agent.id} />
      <AgentState path={path} what="plans" agent={agent.id} />
      <Section title="Cycles" count={cycles?.cycles.length} nothing="No cycles yet." actions={<Link href={linkTo("/runs", { agent: agent.id })}>All runs</Link>}>
        {cycles?.cycles.map((cycle) => (
          <div key={cycle.id} className="fact">
            <Link href={`/runs/${encodeURIComponent(cycle.id)}`}>Cycle {cycle.number}</Link>{" "}
            <span className="quiet">
              {cycle.status} · <Moment at={cycle.createdAt} />
            </span>
            <div className={cycle.reason === null ? "" : "fault"}>{inOneLine(cycle.reason ?? cycle.summary ?? "", 300)}</div>
          </div>
        ))}
      </Section>
    </div>
  );
}

/** Ends the cycle that the agent is in. */
function StopCycle({ agent, onChange }: { agent: Agent; onChange: () => void }): ReactNode {
  const [isAsking, setIsAsking] = useState(false);
  const may = useMay("call");
  const cycle = agent.lastCycle;
  if (!may || cycle === null || cycle.finishedAt !== null) return null;
  const stop = async (): Promise<void> => {
    await client.post(`/api/runs/${encodeURIComponent(cycle.id)}/cancel`, {});
    toast(`Cycle ${cycle.number} is stopped.`);
    onChange();
  };
  return (
    <>
      <button type="button" className="push" onClick={() => setIsAsking(true)}>
        Stop
      </button>
      <Confirm title={`Stop cycle ${cycle.number}?`} verb="Stop" isDanger isOpen={isAsking} onConfirm={stop} onClose={() => setIsAsking(false)}>
        <p>Its open calls are cancelled. What has been done and said stays, and what arrives next wakes the agent again.</p>
      </Confirm>
    </>
  );
}
