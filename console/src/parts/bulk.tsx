/**
 * Several approvals at once: `<Bulk chosen={calls} onDone={…} />` asks once, with one reason, and makes a decision for
 * each call by itself, each on record. What failed is said with its reason and stays chosen.
 */
import { useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { client, type CallRecord } from "../data";
import { counted, inOneLine, safeText } from "../safe-text";
import { Dialog } from "./dialog";

export type Verdict = "approve" | "reject";
export type Outcomes = readonly { call: CallRecord; fault: string | null }[];

const DONE: Record<Verdict, string> = { approve: "approved", reject: "rejected" };
const AT_ONCE = 4;

/** Whether it can be decided here: an approval either way, a login that is missing can only be rejected. */
export function canDecide(call: CallRecord, verdict: Verdict): boolean {
  return verdict === "approve" ? call.status === "pending_approval" && call.approval_url != null : call.status === "pending_approval" ? call.approval_url != null : call.status === "pending_login";
}

/** A few at a time, in their order. */
async function decideAll(calls: readonly CallRecord[], verdict: Verdict, reason: string, onOne: () => void): Promise<Outcomes> {
  const outcomes: { call: CallRecord; fault: string | null }[] = [];
  const rest = [...calls];
  const work = async (): Promise<void> => {
    for (let call = rest.shift(); call !== undefined; call = rest.shift()) {
      try {
        await client.post(`/api/v1/calls/${encodeURIComponent(call.id)}/${verdict}`, verdict === "reject" && reason !== "" ? { reason } : {});
        outcomes.push({ call, fault: null });
      } catch (refusal) {
        outcomes.push({ call, fault: (refusal as Error).message });
      }
      onOne();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcomes;
}

interface Given {
  verdict: Verdict | null;
  chosen: readonly CallRecord[];
  onClose: () => void;
  onDone: (verdict: Verdict, outcomes: Outcomes) => void;
}

export function BulkDialog({ verdict, chosen, onClose, onDone }: Given): ReactNode {
  const calls = verdict === null ? [] : chosen.filter((call) => canDecide(call, verdict));
  return (
    <Dialog title={`${verdict === "approve" ? "Approve" : "Reject"} ${counted(calls.length, "call")}?`} isOpen={verdict !== null} onClose={onClose}>
      {verdict !== null && <Asked verdict={verdict} calls={calls} left={chosen.length - calls.length} onClose={onClose} onDone={onDone} />}
    </Dialog>
  );
}

function Asked({ verdict, calls, left, onClose, onDone }: { verdict: Verdict; calls: readonly CallRecord[]; left: number; onClose: () => void; onDone: Given["onDone"] }): ReactNode {
  const [reason, setReason] = useState("");
  const [done, setDone] = useState<number | null>(null);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setDone(0);
    const outcomes = await decideAll(calls, verdict, reason.trim(), () => setDone((count) => (count ?? 0) + 1));
    onDone(verdict, outcomes);
    onClose();
  };
  return (
    <form className="stack-small" onSubmit={(event) => void send(event)}>
      <ul className="list bulk-list" aria-label="Calls to decide" tabIndex={0}>
        {calls.map((call) => (
          <li key={call.id} className="fact">
            <code>{inOneLine(call.tool, 80)}</code> <span className="quiet">for {inOneLine(call.agent ?? call.principal, 60)}</span>
          </li>
        ))}
      </ul>
      {left > 0 && <p className="quiet">{counted(left, "other")} cannot be decided in this way and stay as they are.</p>}
      {verdict === "reject" && (
        <label>
          Reason <span className="quiet">(optional, told to each of them)</span>
          <input value={reason} maxLength={10_000} onChange={(event) => setReason(event.target.value)} />
        </label>
      )}
      <div className="actions">
        <button type="button" onClick={onClose}>
          Back
        </button>
        <button type="submit" className={verdict === "approve" ? "primary" : "danger"} disabled={done !== null || calls.length === 0} autoFocus>
          {done === null ? `${verdict === "approve" ? "Approve" : "Reject"} ${counted(calls.length, "call")}` : `${done} of ${calls.length} …`}
        </button>
      </div>
    </form>
  );
}

/** What came of it: how many, and which failed and why. */
export function BulkOutcome({ verdict, outcomes, onDismiss }: { verdict: Verdict; outcomes: Outcomes; onDismiss: () => void }): ReactNode {
  const failed = outcomes.filter(({ fault }) => fault !== null);
  return (
    <div className="bulk-outcome" role="status">
      <p>
        {counted(outcomes.length - failed.length, "call")} {DONE[verdict]}
        {failed.length > 0 && `, ${failed.length} not`}.{" "}
        <button type="button" className="plain" onClick={onDismiss}>
          Dismiss
        </button>
      </p>
      {failed.length > 0 && (
        <ul>
          {failed.map(({ call, fault }) => (
            <li key={call.id}>
              <Link href={`/calls/${encodeURIComponent(call.id)}`}>{inOneLine(call.tool, 80)}</Link>: {safeText(fault ?? "", 500)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
