import { useCallback, useEffect, useState, type ReactNode } from "react";
import { ToolUI, type ToolCallData } from "@jackfield/react";
import { client } from "../data";
import { Fault, Loading } from "../parts/states";
import { ApprovalForm } from "../parts/approval";
import { safeText } from "../safe-text";
import "../style/waiting.css";

interface Asked {
  purpose: "callback" | "approval";
  tool: string;
  agent: string | null;
  principal: string;
  /** Null once it has been answered. */
  arguments: Record<string, unknown> | null;
  status: string;
  expires_at: string | null;
  answer_schema: Record<string, unknown> | null;
}

/** The page of a signed link: exactly what would run or is asked, and the answer. No sign-in required. */
export default function AnswerPage({ token }: { token: string }): ReactNode {
  const path = `/api/v1/callbacks/${encodeURIComponent(token)}`;
  const [asked, setAsked] = useState<Asked | null>(null);
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const read = useCallback(async () => {
    try {
      setAsked(await client.get<Asked>(path));
      setFault(null);
    } catch (refusal) {
      setFault(refusal as Error);
    }
  }, [path]);
  useEffect(() => void read(), [read]);
  const send = async (body: unknown): Promise<void> => {
    setIsBusy(true);
    try {
      await client.post(path, body);
      await read();
    } catch (refusal) {
      setFault(refusal as Error);
    } finally {
      setIsBusy(false);
    }
  };
  if (asked === null) return <main className="page answer">{fault === null ? <Loading what="the question" /> : <Fault error={fault} onRetry={() => void read()} />}</main>;
  const isApproval = asked.purpose === "approval";
  const isOpen = isStillOpen(asked);
  return (
    <main className="page answer">
      <div>
        <h1>{titleOf(isApproval, isOpen)}</h1>
        <p className="quiet">
          <Asker agent={asked.agent} principal={asked.principal} /> {askedTo(isApproval, isOpen)} <code>{safeText(asked.tool, 80)}</code>
        </p>
      </div>
      {isOpen && (
        <div className="card-body card">
          {isApproval ? (
            <ApprovalForm
              args={asked.arguments}
              canAnswer
              onApprove={(args) => send(args === null ? { approve: true } : { approve: true, arguments: args })}
              onReject={(reason) => send(reason === "" ? { approve: false } : { approve: false, reason })}
            />
          ) : (
            <ToolUI call={asCall(asked)} canAnswer submit={send} isSending={isBusy} />
          )}
        </div>
      )}
      {!isOpen && (
        <p role="status">
          <strong>{isApproval && APPROVED.includes(asked.status) ? "Approved. You can close this page." : (ENDS[asked.status] ?? asked.status)}</strong>
        </p>
      )}
      {fault !== null && <Fault error={fault} />}
    </main>
  );
}

/** Who made the call, and on whose behalf: an agent acts for a principal. */
function Asker({ agent, principal }: { agent: string | null; principal: string }): ReactNode {
  if (agent === null || agent === principal) return <strong>{safeText(principal, 80)}</strong>;
  return (
    <>
      <strong>{safeText(agent, 80)}</strong>, on behalf of <strong>{safeText(principal, 80)}</strong>,
    </>
  );
}

/** The title asks only while the call is open. */
function titleOf(isApproval: boolean, isOpen: boolean): string {
  if (isOpen) return isApproval ? "Approve this call?" : "Your answer is needed";
  return isApproval ? "Approval request" : "Question";
}

function askedTo(isApproval: boolean, isOpen: boolean): string {
  if (isApproval) return isOpen ? "wants to run" : "wanted to run";
  return isOpen ? "asks via" : "asked via";
}

const APPROVED = ["running", "waiting", "pending", "completed", "failed"];
const ENDS: Record<string, string> = {
  completed: "Answered. You can close this page.",
  rejected: "Rejected. The caller has been notified.",
  failed: "The call failed.",
  expired: "Expired: nobody answered in time.",
  cancelled: "Cancelled.",
};

function isStillOpen({ purpose, status }: Asked): boolean {
  return purpose === "approval" ? status === "pending_approval" : status === "waiting" || status === "pending";
}

function asCall(asked: Asked): ToolCallData {
  const call: ToolCallData = { type: "tool_call", toolCallId: "", toolName: asked.tool, args: asked.arguments ?? {}, result: null, status: "requires_action", runId: null };
  if (asked.answer_schema !== null) call.answerSchema = asked.answer_schema;
  return call;
}
