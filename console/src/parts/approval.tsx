import { useId, useState, type ReactNode } from "react";
import { parsed } from "@jackfield/react";
import { Tree } from "./tree";

interface ApprovalProps {
  args: unknown;
  canAnswer: boolean;
  /** Receives the edited arguments, or null if unchanged. */
  onApprove: (args: unknown) => Promise<unknown>;
  onReject: (reason: string) => Promise<unknown>;
}

/** An approval: shows exactly what would run, and allows editing it first. */
export function ApprovalForm({ args, canAnswer, onApprove, onReject }: ApprovalProps): ReactNode {
  const id = useId();
  const [edited, setEdited] = useState<string | null>(null);
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);

  const send = async (act: () => Promise<unknown>): Promise<void> => {
    setIsBusy(true);
    setFault(null);
    try {
      await act();
    } catch (refusal) {
      setFault((refusal as Error).message);
    } finally {
      setIsBusy(false);
    }
  };
  const approve = (): void => {
    const changed = edited === null ? null : valueOf(edited);
    if (changed === undefined) setFault("The arguments are not valid JSON.");
    else void send(() => onApprove(changed));
  };

  return (
    <div className="approval">
      {edited === null ? (
        <Tree value={args} whole />
      ) : (
        <>
          <label htmlFor={`${id}-args`}>Arguments</label>
          <textarea id={`${id}-args`} className="code" rows={8} value={edited} spellCheck={false} onChange={(event) => setEdited(event.target.value)} />
        </>
      )}
      {canAnswer && (
        <div className="actions">
          <label className="hidden" htmlFor={`${id}-reason`}>
            Reason for rejecting
          </label>
          <input id={`${id}-reason`} value={reason} placeholder="Reason for rejecting (optional)" onChange={(event) => setReason(event.target.value)} />
          <button type="button" disabled={isBusy} onClick={() => setEdited(edited === null ? JSON.stringify(args, null, 2) : null)}>
            {edited === null ? "Edit" : "Discard edits"}
          </button>
          <button type="button" disabled={isBusy} onClick={() => void send(() => onReject(reason))}>
            Reject
          </button>
          <button type="button" className="primary" disabled={isBusy} onClick={approve}>
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

function valueOf(text: string): unknown {
  try {
    return parsed(text);
  } catch {
    return undefined;
  }
}
