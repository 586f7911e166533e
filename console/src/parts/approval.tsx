import { useId, useState, type ReactNode } from "react";
import { client } from "../data";
import type { ShownCall } from "./call-card";
import { Tree } from "./tree";

/** A call that a person has to allow: exactly what would run, and a way to change it first. */
export function ApprovalCard({ call, canAnswer }: { call: ShownCall; canAnswer: boolean }): ReactNode {
  const id = useId();
  const [edited, setEdited] = useState<string | null>(null);
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const path = `/api/v1/calls/${call.toolCallId}`;

  const send = async (where: string, body: unknown): Promise<void> => {
    setIsBusy(true);
    setFault(null);
    try {
      await client.post(where, body);
    } catch (refusal) {
      const { message, details } = refusal as Error & { details?: { message: string }[] };
      setFault([message, ...(details ?? []).map((one) => one.message)].join(" "));
    } finally {
      setIsBusy(false);
    }
  };
  const approve = async (): Promise<void> => {
    if (edited === null) return send(`${path}/approve`, {});
    try {
      await send(`${path}/approve`, { arguments: JSON.parse(edited) as unknown });
    } catch {
      setFault("The arguments are not valid JSON. Correct them first.");
    }
  };

  return (
    <div className="approval">
      {edited === null ? (
        <Tree value={call.args} />
      ) : (
        <>
          <label htmlFor={`${id}-args`}>Arguments</label>
          <textarea id={`${id}-args`} className="code" rows={8} value={edited} spellCheck={false} onChange={(event) => setEdited(event.target.value)} />
        </>
      )}
      {canAnswer && (
        <div className="actions">
          <label className="hidden" htmlFor={`${id}-reason`}>
            Reason for a rejection
          </label>
          <input id={`${id}-reason`} value={reason} placeholder="Reason, if you reject it" onChange={(event) => setReason(event.target.value)} />
          <button type="button" disabled={isBusy} onClick={() => setEdited(edited === null ? JSON.stringify(call.args, null, 2) : null)}>
            {edited === null ? "Edit" : "Undo edits"}
          </button>
          <button type="button" disabled={isBusy} onClick={() => void send(`${path}/reject`, reason === "" ? {} : { reason })}>
            Reject
          </button>
          <button type="button" className="primary" disabled={isBusy} onClick={() => void approve()}>
            Approve
          </button>
        </div>
      )}
      {fault !== null && (
        <p className="fault" role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}
