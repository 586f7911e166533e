import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { ToolUI, useToolResult, type ToolCallData } from "@jackfield/react";
import { client, useData, type CallRecord } from "../data";
import { useMay } from "../identity";
import { clock, left, took, useNow } from "../time";
import { isMine, untilOf, useWaiting } from "../waiting-list";
import { ApprovalForm } from "./approval";
import { Moment } from "./moment";
import { LoginForm, type MissingLogin } from "./login";
import { Tree } from "./tree";
import { safeText } from "../safe-text";

/** What a card shows, wherever the call comes from. */
export interface ShownCall extends ToolCallData {
  needsApproval?: boolean;
  /** Why hooks asked for an approval. */
  why?: string;
  login?: MissingLogin;
  tookMs?: number | null;
  until?: string | null;
  /** When it was asked for. */
  at?: string;
  by?: string | null;
  decided?: Decided;
  /** The word for how it ended, where that is not just "failed". */
  outcome?: string;
}

/** The decision on an approval; `asked` only if the arguments were edited. */
interface Decided {
  decision: string;
  by: string | null;
  at: string | null;
  asked?: Record<string, unknown>;
}

const WORDS: Record<string, string> = { running: "running", requires_action: "waiting", complete: "completed", error: "failed" };

/** The card of a call: name, status, time, and the component registered for its tool. */
export function CallCard({ call: shown }: { call: ShownCall }): ReactNode {
  const record = useWaiting().byId.get(shown.toolCallId);
  const call = withRecord(shown, record);
  const { submit, isSending, error } = useToolResult(call);
  const isWaiting = call.status === "requires_action";
  const canAnswer = isWaiting && isMine(record);
  const state = isWaiting ? waitingFor(call, canAnswer) : (call.outcome ?? WORDS[call.status] ?? call.status);
  return (
    <article className={`card ${call.status}`} aria-label={`${call.toolName}: ${state}`} data-call={call.toolCallId}>
      <header>
        <Link href={`/tools/${encodeURIComponent(call.toolName)}`}>{safeText(call.toolName, 80)}</Link>
        <span className="card-state">
          <Time call={call} />
          {call.toolCallId.startsWith("call_") ? (
            <Link className={`state-word ${call.status}`} href={`/calls/${encodeURIComponent(call.toolCallId)}`} title="The call's own page">
              {state}
            </Link>
          ) : (
            <span className={`state-word ${call.status}`}>{state}</span>
          )}
        </span>
      </header>
      <div className="card-body">
        {call.login !== undefined && isWaiting ? (
          <Login call={call} login={call.login} />
        ) : call.needsApproval === true && isWaiting ? (
          <>
            {call.why !== undefined && <p className="text">{safeText(call.why, 1000)}</p>}
            <Approval call={call} canAnswer={canAnswer} />
          </>
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

/** The traceback of a tool file, loaded when an administrator expands it. */
function Traceback({ id }: { id: string }): ReactNode {
  const isAdmin = useMay("admin");
  const [isOpen, setIsOpen] = useState(false);
  const { data, error } = useData<{ call: CallRecord }>(isOpen ? `/api/v1/calls/${encodeURIComponent(id)}` : null);
  if (!isAdmin || id === "") return null;
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>Traceback</summary>
      {error !== undefined && <p className="fault">{error.message}</p>}
      {data !== undefined && (data.call.trace ? <pre className="code">{safeText(data.call.trace)}</pre> : <p className="quiet">No traceback: the error was not raised by a tool file.</p>)}
    </details>
  );
}

/** Adds what only the list of pending calls has: the deadline, and whether approval is needed. */
function withRecord(call: ShownCall, record: CallRecord | undefined): ShownCall {
  if (record === undefined || call.status !== "requires_action") return call;
  return { ...call, ...waitOf(record), until: untilOf(record) };
}

/** What a person has to do before the call can run. */
function waitOf(record: CallRecord): { needsApproval: boolean; why?: string; login?: MissingLogin } {
  const needsApproval = record.status === "pending_approval";
  const reasons = (record.hooks ?? []).filter(({ decision, reason }) => decision === "ask" && reason).map(({ name, reason }) => `${name}: ${reason}`);
  if (needsApproval && reasons.length > 0) return { needsApproval, why: [...new Set(reasons)].join(", ") };
  if (record.status !== "pending_login") return { needsApproval };
  const { source, principal, scopes } = record.login ?? { source: record.source, principal: record.principal, scopes: [] };
  return { needsApproval, login: { source, principal, scopes, url: record.login_url ?? null } };
}

function Login({ call, login }: { call: ShownCall; login: MissingLogin }): ReactNode {
  const canReject = useMay("answer");
  return <LoginForm login={login} args={call.args} canReject={canReject} onReject={() => client.post(`/api/v1/calls/${call.toolCallId}/reject`, {})} />;
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

/** Who approved or rejected it and when, with the original arguments if they were edited. */
function DecisionLine({ decided: { decision, by, at, asked } }: { decided: Decided }): ReactNode {
  const who = decision === "expired" ? "Expired without a decision" : `${decision === "approved" ? "Approved" : "Rejected"} by ${safeText(by ?? "somebody", 80)}`;
  return (
    <div className="decided quiet">
      <p>
        {who}
        {at === null ? "" : `, ${clock(at)}`}
        {asked === undefined ? "" : ", with edited arguments. Original arguments:"}
      </p>
      {asked !== undefined && <Tree value={asked} />}
    </div>
  );
}

function waitingFor(call: ShownCall, canAnswer: boolean): string {
  if (call.login !== undefined) return call.login.url !== null ? "needs your login" : "waiting for a login";
  if (call.needsApproval === true) return canAnswer ? "needs your approval" : "needs approval";
  return canAnswer ? "needs your answer" : "waiting";
}

function Time({ call }: { call: ShownCall }): ReactNode {
  const isCounting = call.status === "requires_action" && typeof call.until === "string";
  const now = useNow(isCounting);
  if (isCounting) return <span className="quiet">{left(call.until!, now)} left</span>;
  return (
    <>
      {call.at !== undefined && (
        <span className="quiet card-at">
          <Moment at={call.at} isExact />
        </span>
      )}
      {typeof call.tookMs === "number" && <span className="quiet">{took(call.tookMs)}</span>}
    </>
  );
}

const STATES: Record<string, ToolCallData["status"]> = {
  running: "running",
  waiting: "requires_action",
  pending: "requires_action",
  pending_approval: "requires_action",
  pending_login: "requires_action",
  completed: "complete",
};

/** How a call ended that did not fail. */
const ENDED = new Set(["rejected", "expired", "cancelled"]);

/** A call record, converted for a card. */
export function shownRecord(record: CallRecord): ShownCall {
  const shown: ShownCall = {
    type: "tool_call",
    toolCallId: record.id,
    toolName: record.tool,
    args: record.arguments,
    result: record.result,
    status: STATES[record.status] ?? "error",
    runId: record.run_id,
    ...waitOf(record),
    tookMs: record.execution_time_ms,
    until: untilOf(record),
    at: record.created_at,
    by: record.agent ?? record.principal,
  };
  if (record.error !== null) shown.error = record.error.message;
  if (record.status === "refused") shown.outcome = (record.count ?? 1) > 1 ? `refused ${record.count} times` : "refused";
  if (ENDED.has(record.status)) shown.outcome = record.status;
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
