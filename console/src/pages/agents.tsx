import { type ReactNode } from "react";
import { Link } from "wouter";
import { useData } from "../data";
import { Empty, Fault, Loading } from "../parts/states";
import { LongText, Tree } from "../parts/tree";
import { inOneLine, safeText } from "../safe-text";
import { clock } from "../time";

interface Cycle {
  id: string;
  number: number;
  status: string;
  summary: string | null;
  reason: string | null;
  consumed: string[];
  createdAt: string;
}

interface Agent {
  id: string;
  name: string;
  description: string;
  instructions: string;
  model: string | null;
  tools: string[];
  spaces: string[];
  status: "asleep" | "awake";
  enabled: boolean;
  lastCycle: Cycle | null;
}

interface InboxEvent {
  eventId: string;
  type: string;
  timestamp: string;
  status: string;
  data: unknown;
}

/** All agents, or one with its inbox, state and cycles. */
export default function AgentsPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <One key={id} id={id} />;
}

function All(): ReactNode {
  const { data, error, mutate } = useData<{ agents: Agent[] }>("/api/agents", { every: 3000 });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="agents" />;
  return (
    <div className="page">
      <h1>Agents</h1>
      {data.agents.length === 0 && (
        <Empty title="No agents yet">
          Add one to the config: <code>[agents.concierge]</code> with <code>model</code>, <code>instructions</code> and <code>spaces</code>.
        </Empty>
      )}
      <ul className="list">
        {data.agents.map((agent) => (
          <li key={agent.id}>
            <Link href={`/agents/${encodeURIComponent(agent.id)}`}>
              <span className="run-line">
                <strong>{safeText(agent.name, 80)}</strong>
                <span className={agent.status === "awake" ? "state-word running" : "quiet"}>{word(agent)}</span>
              </span>
              <span className="quiet one-line">{inOneLine(agent.lastCycle?.summary ?? agent.description, 200)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function word(agent: Agent): string {
  if (!agent.enabled) return "disabled";
  return agent.status;
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
      <header>
        <nav aria-label="Breadcrumb">
          <Link href="/agents">Agents</Link>
        </nav>
        <h1>{safeText(agent.name, 80)}</h1>
        <p className="facts">
          <span className={agent.status === "awake" ? "state-word running" : "quiet"}>{word(agent)}</span>
          {agent.model !== null && <span>model {safeText(agent.model, 60)}</span>}
          {agent.spaces.map((space) => (
            <Link key={space} href={`/spaces/${encodeURIComponent(space)}`}>
              {safeText(space, 60)}
            </Link>
          ))}
        </p>
        {agent.instructions !== "" && (
          <p>
            <LongText text={agent.instructions} most={400} />
          </p>
        )}
      </header>
      <Section title="Inbox" count={inbox?.events.length} nothing="No pending events.">
        {inbox?.events.map((event) => (
          <div key={event.eventId} className="fact">
            <span className="quiet">
              {event.type} · {clock(event.timestamp)}
            </span>
            <Tree value={event.data} depth={1} />
          </div>
        ))}
      </Section>
      <AgentState path={path} what="goals" nothing="No goals." line={(goal) => `${String(goal["description"])} (${String(goal["status"])}, priority ${String(goal["priority"])})`} />
      <AgentState path={path} what="memories" nothing="No memories." line={(memory) => `${String(memory["key"])}: ${String(memory["value"])}`} />
      <AgentState path={path} what="plans" nothing="No plans." line={(plan) => `${String(plan["name"])}: ${String(plan["instruction"])} (${planned(plan)})`} />
      <Section title="Cycles" count={cycles?.cycles.length} nothing="No cycles yet.">
        {cycles?.cycles.map((cycle) => (
          <div key={cycle.id} className="fact">
            <Link href={`/runs/${encodeURIComponent(cycle.id)}`}>Cycle {cycle.number}</Link>{" "}
            <span className="quiet">
              {cycle.status} · {clock(cycle.createdAt)}
            </span>
            <div className={cycle.reason === null ? "" : "fault"}>{inOneLine(cycle.reason ?? cycle.summary ?? "", 300)}</div>
          </div>
        ))}
      </Section>
    </div>
  );
}

function planned(plan: Record<string, unknown>): string {
  const next = plan["nextRunAt"];
  if (typeof next !== "string") return String(plan["status"]);
  return `${typeof plan["cron"] === "string" ? `cron ${plan["cron"]}, ` : ""}next ${clock(next)}`;
}

function AgentState({ path, what, nothing, line }: { path: string; what: string; nothing: string; line: (one: Record<string, unknown>) => string }): ReactNode {
  const { data } = useData<Record<string, Record<string, unknown>[]>>(`${path}/${what}`, { every: 5000 });
  const found = data?.[what] ?? [];
  return (
    <Section title={what[0]!.toUpperCase() + what.slice(1)} count={found.length} nothing={nothing}>
      {found.map((one, place) => (
        <div key={place} className="fact">
          <LongText text={line(one)} />
        </div>
      ))}
    </Section>
  );
}

function Section({ title, count, nothing, children }: { title: string; count: number | undefined; nothing: string; children: ReactNode }): ReactNode {
  return (
    <section aria-label={title} className={count === 0 ? "nothing" : ""}>
      <h2>
        {title} {count !== undefined && count > 0 && <span className="quiet">{count}</span>}
      </h2>
      {count === 0 ? <p className="quiet">{nothing}</p> : children}
    </section>
  );
}
