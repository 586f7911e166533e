import { useEffect, type ReactNode } from "react";
import { Link } from "wouter";
import { follow } from "@jackfield/react";
import { client, useData, type CallRecord } from "../data";
import { CallCard, shownRecord } from "../parts/call-card";
import { Empty, Fault, Loading } from "../parts/states";
import { LongText, Tree } from "../parts/tree";
import { counted, inOneLine, safeText } from "../safe-text";
import { clock, took } from "../time";

interface RunRecord {
  id: string;
  kind: "cycle" | "response" | "calls";
  agentEntityId: string | null;
  status: string;
  cycleNumber?: number | null;
  summary?: string | null;
  reason?: string | null;
  inputTokens?: number | null;
  outputTokens?: number | null;
  createdAt: string;
  finishedAt: string | null;
}

interface Step {
  n: number;
  items: { type: string; [field: string]: unknown }[];
  usage: Record<string, unknown> | null;
  calls: CallRecord[];
}

interface WholeRun extends RunRecord {
  events?: { event_id?: string; eventId?: string; type: string; data: unknown }[];
  steps?: Step[];
  calls?: CallRecord[];
  response?: Record<string, unknown>;
}

/** All runs (cycles and responses), or one with its steps and calls on a timeline. */
export default function RunsPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <One key={id} id={id} />;
}

function All(): ReactNode {
  const { data, error, mutate } = useData<{ runs: RunRecord[] }>("/api/runs?limit=100", { every: 5000 });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="runs" />;
  return (
    <div className="page">
      <h1>Runs</h1>
      {data.runs.length === 0 && <Empty title="No runs yet">Agent cycles and requests to /v1/responses appear here with all their steps.</Empty>}
      <ul className="list">
        {data.runs.map((run) => (
          <li key={run.id}>
            <Link href={`/runs/${encodeURIComponent(run.id)}`}>
              <span className="run-line">
                <strong>{title(run)}</strong>
                <span className={`state-word ${stateOf(run)}`}>{run.status}</span>
                <span className="quiet">{duration(run)}</span>
                <time className="quiet" dateTime={run.createdAt}>
                  {clock(run.createdAt)}
                </time>
              </span>
              <span className="quiet one-line">{inOneLine(run.reason ?? run.summary ?? "", 200)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function One({ id }: { id: string }): ReactNode {
  const path = `/api/runs/${encodeURIComponent(id)}`;
  const { data, error, mutate } = useData<{ run: WholeRun }>(path);
  const isOpen = data !== undefined && data.run.finishedAt === null;
  useEffect(() => {
    if (!isOpen) return;
    return follow(client, `${path}/stream`, { onFrame: () => void mutate() });
  }, [isOpen, path, mutate]);
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the run" />;
  const { run } = data;
  const calls = run.steps?.flatMap((step) => step.calls) ?? run.calls ?? [];
  return (
    <div className="page">
      <header>
        <nav aria-label="Breadcrumb">
          <Link href="/runs">Runs</Link>
        </nav>
        <h1>{title(run)}</h1>
        <p className="facts">
          <span className={`state-word ${stateOf(run)}`}>{run.status}</span>
          <span>{clock(run.createdAt)}</span>
          <span>{duration(run)}</span>
          {typeof run.inputTokens === "number" && (
            <span>
              {run.inputTokens.toLocaleString()} tokens in, {(run.outputTokens ?? 0).toLocaleString()} out
            </span>
          )}
        </p>
        {(run.reason ?? run.summary) != null && (
          <p className={run.reason != null ? "fault" : ""}>
            <LongText text={run.reason ?? run.summary ?? ""} />
          </p>
        )}
      </header>
      <Timeline run={run} calls={calls} />
      {run.events !== undefined && run.events.length > 0 && (
        <details>
          <summary>
            Events <span className="quiet">{run.events.length}</span>
          </summary>
          <Tree value={run.events} />
        </details>
      )}
      <ol className="steps">
        {run.steps?.map((step) => (
          <li key={step.n} id={`step-${step.n}`}>
            <h2>
              Step {step.n} <span className="quiet">{tokens(step.usage)}</span>
            </h2>
            <StepText items={step.items} />
            {step.calls.map((call) => (
              <div key={call.id} id={call.id}>
                <CallCard call={shownRecord(call)} />
              </div>
            ))}
          </li>
        ))}
        {run.steps === undefined &&
          calls.map((call) => (
            <li key={call.id} id={call.id}>
              <CallCard call={shownRecord(call)} />
            </li>
          ))}
      </ol>
    </div>
  );
}

function StepText({ items }: { items: Step["items"] }): ReactNode {
  const texts = items.flatMap((item) => {
    const content = item["content"];
    if (!Array.isArray(content)) return [];
    return content.map((part: { text?: unknown; refusal?: unknown }) => ({ kind: item.type, text: String(part.text ?? part.refusal ?? "") }));
  });
  return texts.map(({ kind, text }, place) => (
    <p key={place} className={kind === "reasoning" ? "quiet" : ""}>
      <LongText text={text} />
    </p>
  ));
}

interface Lane {
  key: string;
  name: string;
  state: string;
  from: number;
  to: number;
}

/** Model steps and calls on one time axis; parallel calls below each other. */
function Timeline({ run, calls }: { run: WholeRun; calls: CallRecord[] }): ReactNode {
  if (calls.length === 0) return null;
  const start = Date.parse(run.createdAt);
  const ends = calls.map((call) => Date.parse(call.finished_at ?? call.created_at));
  const end = run.finishedAt === null ? Math.max(Date.now(), ...ends) : Math.max(Date.parse(run.finishedAt), ...ends);
  const whole = Math.max(end - start, 1);
  const percent = (moment: number): number => Math.min(100, Math.max(0, ((moment - start) / whole) * 100));
  return (
    <figure className="timeline" aria-label={`Timeline of ${counted(calls.length, "call")} in ${took(whole)}`}>
      {lanesOf(run, calls, end).map((lane) => (
        <a key={lane.key} href={`#${lane.key}`} onClick={(event) => (event.preventDefault(), document.getElementById(lane.key)?.scrollIntoView({ block: "center" }))}>
          <span className="lane-name">{lane.name}</span>
          <span className="lane">
            <span className={`bar ${lane.state}`} ref={(bar) => place(bar, percent(lane.from), Math.max(percent(lane.to) - percent(lane.from), 0.6))} />
          </span>
          <span className="quiet">{took(lane.to - lane.from)}</span>
        </a>
      ))}
    </figure>
  );
}

/** A step lasts from the end of the previous calls until its own calls are made. */
function lanesOf(run: WholeRun, calls: CallRecord[], end: number): Lane[] {
  if (run.steps === undefined) return calls.slice(0, 200).map((call) => laneOf(call, end));
  let from = Date.parse(run.createdAt);
  return run.steps.slice(0, 100).flatMap((step, place) => {
    const made = step.calls.map((call) => Date.parse(call.created_at));
    const isLast = place === run.steps!.length - 1;
    const to = made.length > 0 ? Math.max(...made) : isLast ? Date.parse(run.finishedAt ?? "") || end : from;
    const lane = { key: `step-${step.n}`, name: `step ${step.n}`, state: "thinking-bar", from, to: Math.max(from, to) };
    from = Math.max(lane.to, ...step.calls.map((call) => Date.parse(call.finished_at ?? call.created_at)));
    return [lane, ...step.calls.map((call) => laneOf(call, end))];
  });
}

function laneOf(call: CallRecord, end: number): Lane {
  const { status } = shownRecord(call);
  return { key: call.id, name: safeText(call.tool, 40), state: status, from: Date.parse(call.created_at), to: call.finished_at === null ? end : Date.parse(call.finished_at) };
}

function place(bar: HTMLElement | null, from: number, width: number): void {
  if (bar === null) return;
  bar.style.insetInlineStart = `${from}%`;
  bar.style.width = `${Math.min(width, 100 - from)}%`;
}

function tokens(usage: Record<string, unknown> | null): string {
  const { input_tokens: given, output_tokens: made } = usage ?? {};
  return typeof given === "number" && typeof made === "number" ? `${given.toLocaleString()} tokens in, ${made.toLocaleString()} out` : "";
}

function title(run: RunRecord): string {
  if (run.kind === "cycle") return `${safeText(run.agentEntityId ?? "", 60)}, cycle ${run.cycleNumber ?? ""}`;
  return run.kind === "response" ? `Response ${run.id.slice(-8)}` : `Calls ${run.id.slice(-8)}`;
}

function duration(run: RunRecord): string {
  return run.finishedAt === null ? "" : took(Date.parse(run.finishedAt) - Date.parse(run.createdAt));
}

function stateOf(run: RunRecord): string {
  if (run.status === "completed") return "complete";
  return ["failed", "cancelled", "incomplete"].includes(run.status) ? "error" : "running";
}
