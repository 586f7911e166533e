import { useCallback, useEffect, useState, type ReactNode } from "react";
import { ToolUI, type ToolCallData } from "@jackfield/react";
import { client } from "../data";
import { Fault, Loading } from "../parts/states";
import { Tree } from "../parts/tree";
import { safeText } from "../safe-text";

interface Asked {
  purpose: "callback" | "approval";
  tool: string;
  agent: string | null;
  arguments: Record<string, unknown>;
  status: string;
  expires_at: string | null;
}

const OPEN = ["waiting", "pending", "pending_approval"];

/** One call, for whoever holds its signed link: exactly what would run or is asked, and the answer. No sign-in. */
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
  if (asked === null) return fault === null ? <Loading what="the question" /> : <Fault error={fault} onRetry={() => void read()} />;
  const isOpen = OPEN.includes(asked.status);
  return (
    <main className="page answer">
      <h1>{asked.purpose === "approval" ? "Allow this call?" : "You are asked"}</h1>
      <p className="quiet">
        {asked.agent === null ? "Somebody" : safeText(asked.agent, 80)} {asked.purpose === "approval" ? "wants to run" : "asks by"}{" "}
        <code>{safeText(asked.tool, 80)}</code>
      </p>
      {asked.purpose === "approval" ? (
        <>
          <Tree value={asked.arguments} />
          {isOpen && (
            <div className="actions">
              <button type="button" disabled={isBusy} onClick={() => void send({ approve: false })}>
                Reject
              </button>
              <button type="button" className="primary" disabled={isBusy} onClick={() => void send({ approve: true })}>
                Approve
              </button>
            </div>
          )}
        </>
      ) : (
        <ToolUI call={asCall(asked)} canAnswer={isOpen} submit={send} isSending={isBusy} />
      )}
      {!isOpen && (
        <p role="status">
          <strong>{ENDS[asked.status] ?? asked.status}</strong>
        </p>
      )}
      {fault !== null && <Fault error={fault} />}
    </main>
  );
}

const ENDS: Record<string, string> = {
  completed: "Answered. You can close this page.",
  running: "Approved. It runs now.",
  rejected: "Rejected. The agent is told.",
  failed: "It has failed.",
  expired: "It is too late: nobody answered in time.",
  cancelled: "It was cancelled.",
};

function asCall(asked: Asked): ToolCallData {
  const isOpen = OPEN.includes(asked.status);
  return { type: "tool_call", toolCallId: "", toolName: asked.tool, args: asked.arguments, result: null, status: isOpen ? "requires_action" : "complete", runId: null };
}
