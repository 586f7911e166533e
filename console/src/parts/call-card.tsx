import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { ToolUI, useToolResult, type ToolCallData } from "@jackfield/react";
import { client, useData, type CallRecord } from "../data";
import { useMay } from "../identity";
import { clock, left, took, useNow } from "../time";
import { isMine, useWaiting } from "../waiting-list";
import { ApprovalForm } from "./approval";
import { Tree } from "./tree";
import { safeText } from "../safe-text";

/** All that a card needs to know, wherever the call is shown. */
export interface ShownCall extends ToolCallData {
  needsApproval?: boolean;
  tookMs?: number | null;
  until?: string | null;
  by?: string | null;
  decided?: Decided;
}

/** What a person said about it; `asked` only where they changed what was asked for. */
interface Decided {
  decision: string;
  by: string | null;
  at: string | null;
  asked?: Record<string, unknown>;
}

const WORDS: Record<string, string> = { running: "running", requires_action: "waiting", complete: "done", error: "failed" };

/** One call, one card, everywhere: its name, its state in words and colour, its time, then the component of its name. */
export function CallCard({ call: shown }: { call: ShownCall }): ReactNode {
  const record = useWaiting().byId.get(shown.toolCallId);
  const call = withRecord(shown, record);
  const { submit, isSending, error } = useToolResult(call);
  const isWaiting = call.status === "requires_action";
  const canAnswer = isWaiting && isMine(record);
  const state = isWaiting ? waitingFor(call, canAnswer) : (WORDS[call.status] ?? call.status);
  return (
    <article className={`card ${call.status}`} aria-label={`${call.toolName}: ${state}`} data-call={call.toolCallId}>
      <header>
        <Link href={`/tools/${encodeURIComponent(call.toolName)}`}>{safeText(call.toolName, 80)}</Link>
        <span className="card-state">
          <Time call={call} />
          <span className={`state-word ${call.status}`}>{state}</span>
        </span>
      </header>
      <div className="card-body">
        {call.needsApproval === true && isWaiting ? (
          <Approval call={call} canAnswer={canAnswer} />
        ) : (
          <ToolUI call={call} canAnswer={canAnswer} submit={submit} isSending={isSending} />
        )}
        {error !== null && (
          <p className="fault" role="alert">
            {error.message}
          </p>
        )}
        {call.status === "error" && <Traceback id={call.toolCallId} />}
        {call.decided !== undefined && <DecisionLine decided={call.decided} />}
      </div>
    </article>
  );
}

/** Where a tool file failed: read when an administrator asks for it. */
function Traceback({ id }: { id: string }): ReactNode {
  const isAdmin = useMay("admin");
  const [isOpen, setIsOpen] = useState(false);
  const { data, error } = useData<{ call: CallRecord }>(isOpen ? `/api/v1/calls/${encodeURIComponent(id)}` : null);
  if (!isAdmin || id === "") return null;
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>traceback</summary>
      {error !== undefined && <p className="fault">{error.message}</p>}
      {data !== undefined && (data.call.trace ? <pre className="code">{safeText(data.call.trace)}</pre> : <p className="quiet">None is on record: no tool file raised it.</p>)}
    </details>
  );
}

/** What only the list of waiting calls knows: until when, and whether somebody has to allow it. */
function withRecord(call: ShownCall, record: CallRecord | undefined): ShownCall {
  if (record === undefined || call.status !== "requires_action") return call;
  return { ...call, needsApproval: record.status === "pending_approval", until: record.deadline ?? record.expires_at };
}

function Approval({ call, canAnswer }: { call: ShownCall; canAnswer: boolean }): ReactNode {
  const path = `/api/v1/calls/${call.toolCallId}`;
  return (
    <ApprovalForm
      args={call.args}
      canAnswer={canAnswer}
      onApprove={(args) => client.post(`${path}/approve`, args === null ? {} : { arguments: args })}
      onReject={(reason) => client.post(`${path}/reject`, reason === "" ? {} : { reason })}
    />
  );
}

/** Who allowed or refused it, when, and what had been asked where that was changed. */
function DecisionLine({ decided: { decision, by, at, asked } }: { decided: Decided }): ReactNode {
  const who = decision === "expired" ? "Nobody decided in time" : `${decision === "approved" ? "Approved" : "Rejected"} by ${safeText(by ?? "somebody", 80)}`;
  return (
    <div className="decided quiet">
      <p>
        {who}
        {at === null ? "" : `, ${clock(at)}`}
        {asked === undefined ? "" : ", with changed arguments. It had been asked for with:"}
      </p>
      {asked !== undefined && <Tree value={asked} />}
    </div>
  );
}

function waitingFor(call: ShownCall, canAnswer: boolean): string {
  if (call.needsApproval === true) return canAnswer ? "needs your approval" : "needs approval";
  return canAnswer ? "waiting for you" : "waiting";
}

function Time({ call }: { call: ShownCall }): ReactNode {
  const isCounting = call.status === "requires_action" && typeof call.until === "string";
  const now = useNow(isCounting);
  if (isCounting) return <span className="quiet">{left(call.until!, now)}</span>;
  return typeof call.tookMs === "number" ? <span className="quiet">{took(call.tookMs)}</span> : null;
}

const STATES: Record<string, ToolCallData["status"]> = {
  running: "running",
  waiting: "requires_action",
  pending: "requires_action",
  pending_approval: "requires_action",
  completed: "complete",
};

/** A record of the gateway as a card shows it. */
export function shownRecord(record: CallRecord): ShownCall {
  const shown: ShownCall = {
    type: "tool_call",
    toolCallId: record.id,
    toolName: record.tool,
    args: record.arguments,
    result: record.result,
    status: STATES[record.status] ?? "error",
    runId: record.run_id,
    needsApproval: record.status === "pending_approval",
    tookMs: record.execution_time_ms,
    until: record.deadline ?? record.expires_at,
    by: record.agent ?? record.principal,
  };
  if (record.error !== null) shown.error = record.error.message;
  const decided = decidedOf(record);
  if (decided !== undefined) shown.decided = decided;
  return shown;
}

function decidedOf({ decision, decided_by, decided_at, asked_arguments, arguments: ran }: CallRecord): Decided | undefined {
  if (decision === undefined || decision === null) return undefined;
  const decided: Decided = { decision, by: decided_by ?? null, at: decided_at ?? null };
  if (asked_arguments !== undefined && JSON.stringify(asked_arguments) !== JSON.stringify(ran)) decided.asked = asked_arguments;
  return decided;
}
