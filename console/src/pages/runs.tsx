import { useEffect, useState, type ReactNode } from "react";
import { Link } from "wouter";
import { follow } from "@jackfield/react";
import { linkTo, useFilters } from "../address";
import { client, useData } from "../data";
import { useMay } from "../identity";
import { Badge } from "../parts/badge";
import { CallCard, shownRecord } from "../parts/call-card";
import { Code, Json } from "../parts/code";
import { Confirm, Dialog } from "../parts/dialog";
import { Facts } from "../parts/facts";
import { Choose, FilterBar, Search } from "../parts/filters";
import { Duration, Moment } from "../parts/moment";
import { Pager, useCursor } from "../parts/pager";
import { Empty, Fault, Loading, Section } from "../parts/states";
import { DataTable, type Column } from "../parts/table";
import { Tabs, useTab } from "../parts/tabs";
import { TimeRange, useTimeRange } from "../parts/time-range";
import { toast } from "../parts/toast";
import { LongText, Tree } from "../parts/tree";
import { Compare } from "../runs/compare";
import { Conversation, ItemView } from "../runs/conversation";
import { answerOf, callsOf, costOf, KINDS, lastedMs, promptOf, STATES, titleOf, tokensOf, toneOfRun, wordOfRun, type RunRecord, type Step, type WholeRun } from "../runs/records";
import { Waterfall } from "../runs/waterfall";
import { inOneLine, safeText } from "../safe-text";
import { took, useNow } from "../time";
import "../style/fields.css";
import "../style/runs.css";

const REFRESH_MS = 5000;

/** All runs, one with its steps and calls on a timeline, or two side by side. */
export default function RunsPage({ id }: { id?: string | undefined }): ReactNode {
  if (id === "compare") return <Compare />;
  return id === undefined ? <All /> : <One key={id} id={id} />;
}

const COLUMNS: Column<RunRecord>[] = [
  {
    id: "what",
    name: "Run",
    width: "minmax(140px, 2fr)",
    cell: (run) => (
      <span className="name-and-says">
        <span className="one-line">{inOneLine(titleOf(run), 80)}</span>
        <span className="one-line quiet narrow-only">{aboutOf(run)}</span>
      </span>
    ),
  },
  { id: "status", name: "Status", width: "132px", cell: (run) => <RunStatus run={run} /> },
  { id: "said", name: "About", width: "minmax(160px, 6fr)", isWide: true, cell: (run) => <span className={run.reason === null ? "one-line quiet" : "one-line fault"}>{aboutOf(run)}</span> },
  { id: "by", name: "By", isWide: true, cell: (run) => <span className="one-line">{run.agentEntityId === null ? inOneLine(run.principal ?? "", 60) : ""}</span> },
  { id: "model", name: "Model", isWide: true, cell: (run) => <span className="one-line">{inOneLine(run.model ?? "", 40)}</span> },
  { id: "tokens", name: "Tokens", isNumber: true, isWide: true, width: "88px", cell: (run) => (run.inputTokens === null ? "" : ((run.inputTokens ?? 0) + (run.outputTokens ?? 0)).toLocaleString()) },
  { id: "cost", name: "Cost", isNumber: true, isWide: true, width: "72px", cell: (run) => costOf(run.cost) },
  { id: "took", name: "Took", isNumber: true, isWide: true, width: "88px", cell: (run) => <Duration ms={run.finishedAt === null ? null : lastedMs(run, 0)} /> },
  { id: "at", name: "Began", isNumber: true, width: "112px", cell: (run) => <Moment at={run.createdAt} isExact /> },
];

/** What tells a run from the next: why it failed, what it came to, or what it was asked. */
function aboutOf(run: RunRecord): string {
  return inOneLine(run.reason ?? run.summary ?? run.asked ?? "", 160);
}

function RunStatus({ run }: { run: RunRecord }): ReactNode {
  return (
    <Badge tone={toneOfRun(run.status)}>
      {run.status === "parked" ? (
        <>
          waiting <Moment at={run.parked_since} isAgo />
        </>
      ) : (
        safeText(run.status, 40)
      )}
    </Badge>
  );
}

function All(): ReactNode {
  const filters = useFilters(["kind", "status", "agent", "compare"]);
  const time = useTimeRange({ standard: null });
  const cursor = useCursor();
  const { compare, ...asked } = filters.values;
  const { data, error, mutate } = useData<{ runs: RunRecord[]; next_cursor: string | null }>(linkTo("/api/runs", { ...asked, since: time.since, until: time.until, cursor }), { every: cursor === "" ? REFRESH_MS : 0 });
  const { data: known } = useData<{ agents: { id: string }[] }>("/api/agents");
  return (
    <div className="page">
      <header className="page-head">
        <h1>Runs</h1>
        <TimeRange time={time} />
      </header>
      {compare !== "" && <p role="status">Choose the run to compare with {safeText(compare, 60)}.</p>}
      <FilterBar filters={filters}>
        <Choose name="kind" label="Kind" any="All kinds" options={KINDS} filters={filters} />
        <Choose name="status" label="Status" any="All states" options={STATES.map((state) => [state, wordOfRun(state)] as const)} filters={filters} />
        <Search name="agent" label="Agent" filters={filters} suggestions={known?.agents.map((agent) => agent.id) ?? []} />
      </FilterBar>
      <DataTable
        label="Runs"
        columns={COLUMNS}
        rows={data?.runs}
        rowKey={(run) => run.id}
        hrefOf={(run) => (compare === "" ? `/runs/${encodeURIComponent(run.id)}` : linkTo("/runs/compare", { one: compare, other: run.id }))}
        error={error}
        onRetry={() => void mutate()}
        empty={<Empty title={filters.isAny ? "No run matches these filters" : "No runs yet"}>Agents' cycles, requests to /v1/responses, programs and sessions appear here with all their steps.</Empty>}
      />
      <Pager next={data?.next_cursor} isFirst={cursor === ""} />
    </div>
  );
}

function One({ id }: { id: string }): ReactNode {
  const path = `/api/runs/${encodeURIComponent(id)}`;
  const tab = useTab(["timeline", "messages", "log", "record"]);
  const { data, error, mutate } = useData<{ run: WholeRun }>(path);
  const isOpen = data !== undefined && data.run.finishedAt === null;
  useEffect(() => {
    if (!isOpen) return;
    return follow(client, `${path}/stream`, { onFrame: () => void mutate() });
  }, [isOpen, path, mutate]);
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the run" />;
  const { run } = data;
  const tabs = [{ id: "timeline", name: "Timeline" }, { id: "messages", name: "Messages" }, ...(run.log === undefined ? [] : [{ id: "log", name: "Log" }]), { id: "record", name: "Record" }];
  return (
    <div className="page">
      <Head run={run} path={path} onChange={() => void mutate()} />
      <Tabs label="Parts of the run" tabs={tabs} current={tab} />
      {tab === "timeline" && <Whole run={run} />}
      {tab === "messages" && <Messages path={path} />}
      {tab === "log" && <Code label="What the program printed" text={run.log ?? ""} />}
      {tab === "record" && <Json label="The run's record" value={run} />}
    </div>
  );
}

function Head({ run, path, onChange }: { run: WholeRun; path: string; onChange: () => void }): ReactNode {
  const now = useNow(run.finishedAt === null);
  const said = run.reason ?? run.error?.message ?? null;
  const parent = run.parent?.runId;
  return (
    <header className="stack-small run-facts">
      <nav aria-label="Breadcrumb">
        <Link href="/runs">Runs</Link>
      </nav>
      <div className="run-head">
        <h1>{inOneLine(titleOf(run), 100)}</h1>
        <RunStatus run={run} />
        <Actions run={run} path={path} onChange={onChange} />
      </div>
      <Facts
        facts={[
          ["Agent", run.agentEntityId === null ? null : <Link href={`/agents/${encodeURIComponent(run.agentEntityId)}`}>{safeText(run.agentEntityId, 80)}</Link>],
          ["In the name of", run.principal === null ? null : safeText(run.principal, 80)],
          ["Model", run.model === null ? null : safeText(run.model, 80)],
          ["Began", <Moment at={run.createdAt} isExact />],
          ["Took", run.finishedAt === null ? `${took(lastedMs(run, now))} so far` : took(lastedMs(run, now))],
          ["Model time", run.modelMs === null ? null : took(run.modelMs)],
          ["Tokens", tokensOf(run)],
          ["Cost", costOf(run.cost)],
          ["Steps", run.steps.length],
          ["Calls", <Link href={linkTo("/calls", { run: run.id })}>{callsOf(run).length.toLocaleString()}</Link>],
          ["Waiting since", run.parked_since === null ? null : <Moment at={run.parked_since} />],
          ["Taken up", run.tries === null || run.tries < 2 ? null : `${run.tries} times since its last step`],
          ["Started by", parent === undefined ? null : <Link href={`/runs/${encodeURIComponent(parent)}`}>{safeText(parent, 60)}</Link>],
        ]}
      />
      {run.waitsFor.map((wait) => (
        <p key={wait.callId} className="run-waits" role="status">
          Waits for {WAITS[wait.status] ?? "an answer"}: <Link href={`/waiting/${encodeURIComponent(wait.callId)}`}>{inOneLine(wait.tool, 80)}</Link>, since <Moment at={wait.since} />
          {wait.expiresAt !== null && (
            <>
              , until <Moment at={wait.expiresAt} />
            </>
          )}
        </p>
      ))}
      {said !== null && (
        <p className="fault">
          <LongText text={said} />
        </p>
      )}
    </header>
  );
}

const WAITS: Record<string, string> = { pending_approval: "an approval", pending_login: "a login", pending: "an answer", waiting: "an answer" };

function Actions({ run, path, onChange }: { run: WholeRun; path: string; onChange: () => void }): ReactNode {
  const [asks, setAsks] = useState<"cancel" | "compare" | null>(null);
  const may = useMay("call");
  const resume = async (): Promise<void> => {
    try {
      await client.post(`${path}/resume`, {});
      toast("The run goes on.");
      onChange();
    } catch (fault) {
      toast((fault as Error).message, { isFault: true });
    }
  };
  const cancel = async (): Promise<void> => {
    await client.post(`${path}/cancel`, {});
    toast("The run is cancelled.");
    onChange();
  };
  return (
    <div className="actions">
      {may && run.actions.includes("resume") && (
        <button type="button" onClick={() => void resume()}>
          Resume
        </button>
      )}
      {may && run.actions.includes("cancel") && (
        <button type="button" onClick={() => setAsks("cancel")}>
          Cancel run
        </button>
      )}
      <button type="button" onClick={() => setAsks("compare")}>
        Compare
      </button>
      <Confirm title="Cancel this run?" verb="Cancel run" isDanger isOpen={asks === "cancel"} onConfirm={cancel} onClose={() => setAsks(null)}>
        <p>Its calls that are still open are cancelled too. What has been done stays done.</p>
      </Confirm>
      <Dialog title="Compare with" isOpen={asks === "compare"} onClose={() => setAsks(null)}>
        <Others run={run} />
      </Dialog>
    </div>
  );
}

/** The newest runs of the same kind. */
function Others({ run }: { run: WholeRun }): ReactNode {
  const kind = (KINDS as readonly string[]).includes(run.kind) ? run.kind : "";
  const { data, error } = useData<{ runs: RunRecord[] }>(linkTo("/api/runs", { kind, agent: run.agentEntityId, limit: 12 }));
  if (error !== undefined) return <Fault error={error} />;
  const others = data?.runs.filter((other) => other.id !== run.id) ?? [];
  return (
    <>
      {data !== undefined && others.length === 0 && <p className="quiet">There is no other run of this kind.</p>}
      <ul className="list">
        {others.map((other) => (
          <li key={other.id}>
            <Link href={linkTo("/runs/compare", { one: run.id, other: other.id })}>
              <span className="run-line">
                <strong>{inOneLine(titleOf(other), 60)}</strong>
                <Badge tone={toneOfRun(other.status)}>{safeText(wordOfRun(other.status), 40)}</Badge>
                <Moment at={other.createdAt} />
              </span>
              <span className="quiet one-line">{inOneLine(other.summary ?? other.asked ?? "", 160)}</span>
            </Link>
          </li>
        ))}
      </ul>
      <Link href={linkTo("/runs", { compare: run.id })}>Choose from all runs</Link>
    </>
  );
}

function Whole({ run }: { run: WholeRun }): ReactNode {
  return (
    <>
      <Asked run={run} />
      <Waterfall run={run} />
      <ol className="steps">
        {run.steps.map((step) => (
          <li key={step.n} id={`step-${step.n}`}>
            <StepView step={step} />
          </li>
        ))}
        {run.calls.map((call) => (
          <li key={call.id} id={call.id}>
            <ProgramLink childRun={call.child_run} />
            <CallCard call={shownRecord(call)} />
          </li>
        ))}
      </ol>
    </>
  );
}

/** What it was asked, and what it answered. */
function Asked({ run }: { run: WholeRun }): ReactNode {
  const prompt = promptOf(run);
  const answer = answerOf(run);
  return (
    <div className="run-said">
      <Section title={run.kind === "program" ? "Program" : "Prompt"}>
        {prompt !== null && run.kind === "program" ? <Code label="Python" text={prompt} /> : prompt !== null ? <LongText text={prompt} /> : <Woken events={run.events ?? []} />}
      </Section>
      <Section title="Answer">{run.result !== undefined ? <Json label="Result" value={run.result} /> : answer !== null ? <LongText text={answer} /> : <p className="quiet">{run.summary === null ? "None yet." : safeText(run.summary)}</p>}</Section>
    </div>
  );
}

/** The events that woke an agent. */
function Woken({ events }: { events: NonNullable<WholeRun["events"]> }): ReactNode {
  if (events.length === 0) return <p className="quiet">Not on record.</p>;
  return events.map((event, place) => (
    <div key={place} className="fact">
      <span className="quiet">{safeText(event.type.replaceAll("_", " "), 40)}</span>{" "}
      {typeof (event.data as { content?: unknown } | null)?.content === "string" ? <LongText text={`${String((event.data as { senderName?: unknown }).senderName ?? "somebody")}: ${(event.data as { content: string }).content}`} /> : <Tree value={event.data} depth={1} />}
    </div>
  ));
}

function StepView({ step }: { step: Step }): ReactNode {
  return (
    <>
      <h2>
        Step {step.n} <span className="quiet">{[step.modelMs === null ? "" : took(step.modelMs), tokensOf(step), costOf(step.cost)].filter(Boolean).join(" · ")}</span>
      </h2>
      {step.error !== null && <p className="fault">{safeText(step.error.message)}</p>}
      {step.items.filter((item) => item.type === "message" || item.type === "reasoning").map((item, place) => (
        <ItemView key={place} item={item} />
      ))}
      {step.log !== undefined && step.log !== "" && <Code label="Printed" text={step.log} />}
      {step.calls.map((call) => (
        <div key={call.id} id={call.id}>
          <ProgramLink childRun={call.child_run} />
          <CallCard call={shownRecord(call)} />
        </div>
      ))}
    </>
  );
}

function ProgramLink({ childRun }: { childRun: string | null }): ReactNode {
  if (childRun === null) return null;
  return (
    <p className="call-links quiet">
      <Link href={`/runs/${encodeURIComponent(childRun)}`}>The program that it ran</Link>
    </p>
  );
}

function Messages({ path }: { path: string }): ReactNode {
  const { data, error, mutate } = useData<{ run: WholeRun }>(`${path}?messages=true`, { every: REFRESH_MS });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the messages" />;
  return <Conversation run={data.run} />;
}
