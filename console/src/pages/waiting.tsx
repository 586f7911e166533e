import { useState, type KeyboardEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { useData, type CallRecord } from "../data";
import { useMay } from "../identity";
import { BulkDialog, BulkOutcome, canDecide, type Outcomes, type Verdict } from "../parts/bulk";
import { CallCard, shownRecord } from "../parts/call-card";
import { Moment } from "../parts/moment";
import { Phone } from "../parts/phone";
import { Empty, Fault, Loading } from "../parts/states";
import { safeText } from "../safe-text";
import { isMine, useWaiting } from "../waiting-list";
import "../style/waiting.css";

/** Calls that need an answer, an approval or a login, nearest deadline first. */
export default function WaitingPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <One id={id} />;
}

const BAR_KEYS: Record<string, Verdict> = { a: "approve", r: "reject" };

function All(): ReactNode {
  const { calls, isKnown, error } = useWaiting();
  const mayAnswer = useMay("answer");
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [last, setLast] = useState<{ verdict: Verdict; outcomes: Outcomes } | null>(null);
  if (!isKnown) return <Loading what="pending calls" />;
  const choosable = mayAnswer ? calls.filter((call) => canDecide(call, "reject")) : [];
  const chosen = choosable.filter(({ id }) => marked.has(id));
  const toggle = (id: string): void => setMarked((now) => (now.has(id) ? new Set([...now].filter((one) => one !== id)) : new Set([...now, id])));
  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    const target = event.target as HTMLElement;
    if (event.metaKey || event.ctrlKey || event.altKey || target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const step = STEPS[event.key];
    const id = target.closest<HTMLElement>("li[data-waits]")?.dataset["waits"];
    if (step !== undefined) move(event.currentTarget, id, step);
    else if (event.key === "x" && id !== undefined && choosable.some((call) => call.id === id)) toggle(id);
    else if (BAR_KEYS[event.key] !== undefined && chosen.length > 0) setVerdict(BAR_KEYS[event.key]!);
    else return;
    event.preventDefault();
  };
  return (
    <div className="page narrow">
      <h1>Waiting</h1>
      {error !== null && <Fault error={new Error(error)} />}
      {last !== null && <BulkOutcome {...last} onDismiss={() => setLast(null)} />}
      {calls.length === 0 && <Empty title="Nothing to answer">Calls that need an answer, an approval or a login appear here, nearest deadline first.</Empty>}
      {choosable.length > 1 && (
        <div className="bulk-bar" role="group" aria-label="Several at once">
          <label>
            <input type="checkbox" checked={chosen.length === choosable.length} onChange={() => setMarked(new Set(chosen.length === choosable.length ? [] : choosable.map(({ id }) => id)))} /> All {choosable.length}
          </label>
          <span className={chosen.length === 0 ? "quiet bulk-keys" : "quiet"}>{chosen.length === 0 ? "j and k move, x marks, a approves, r rejects" : `${chosen.length} marked`}</span>
          <span className="actions push">
            <button type="button" className="small" disabled={chosen.length === 0} onClick={() => setVerdict("reject")}>
              Reject …
            </button>
            <button type="button" className="small primary" disabled={!chosen.some((call) => canDecide(call, "approve"))} onClick={() => setVerdict("approve")}>
              Approve …
            </button>
          </span>
        </div>
      )}
      <ol className="cards" aria-label="Pending calls" onKeyDown={onKeyDown}>
        {calls.map((call) => (
          <li key={call.id} data-waits={call.id} tabIndex={-1} className={marked.has(call.id) ? "marked" : ""}>
            {choosable.length > 1 && choosable.includes(call) && (
              <label className="mark-call">
                <input type="checkbox" checked={marked.has(call.id)} onChange={() => toggle(call.id)} />
                <span className="hidden">Mark {safeText(call.tool, 80)}</span>
              </label>
            )}
            <Waiting call={call} />
          </li>
        ))}
      </ol>
      <BulkDialog verdict={verdict} chosen={chosen} onClose={() => setVerdict(null)} onDone={(made, outcomes) => setLast({ verdict: made, outcomes })} />
    </div>
  );
}

const STEPS: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** From card to card. */
function move(list: HTMLElement, id: string | undefined, step: number): void {
  const items = [...list.querySelectorAll<HTMLElement>("li[data-waits]")];
  const next = items[items.findIndex((item) => item.dataset["waits"] === id) + step];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function One({ id }: { id: string }): ReactNode {
  const { data, error, mutate } = useData<{ call: CallRecord }>(`/api/v1/calls/${encodeURIComponent(id)}`, { every: 2000 });
  if (error !== undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the call" />;
  return (
    <div className="page narrow">
      <h1>{safeText(data.call.tool, 80)}</h1>
      <Waiting call={data.call} />
    </div>
  );
}

function Waiting({ call }: { call: CallRecord }): ReactNode {
  return (
    <>
      <p className="quiet asked-by">
        Requested by {safeText(call.agent ?? call.principal, 80)} <Moment at={call.created_at} isAgo /> ago
        {call.space_id !== null && (
          <>
            {" in "}
            <Link href={`/spaces/${encodeURIComponent(call.space_id)}`}>{safeText(call.space_id, 80)}</Link>
          </>
        )}
        {" · "}
        <Link href={`/runs/${encodeURIComponent(call.run_id)}`}>view run</Link>
        {" · "}
        <Link href={`/calls/${encodeURIComponent(call.id)}`}>view call</Link>
      </p>
      <CallCard call={shownRecord(call)} />
      {isMine(call) && call.status !== "pending_login" && <Phone call={call} />}
    </>
  );
}
