import type { ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { Tree, LongText } from "../parts/tree";

/** `confirmAction`: a question with two answers. */
export function Confirm({ call, canAnswer, submit, isSending }: ToolProps): ReactNode {
  const { question, title, message, ...rest } = (call.args ?? {}) as Record<string, unknown>;
  const asked = [title, question, message].find((text) => typeof text === "string");
  return (
    <div className="confirm">
      {typeof asked === "string" ? (
        <p className="question">
          <LongText text={asked} />
        </p>
      ) : null}
      {Object.keys(rest).length > 0 && <Tree value={rest} />}
      {canAnswer ? (
        <div className="actions">
          <button type="button" disabled={isSending} onClick={() => void submit({ confirmed: false }).catch(() => undefined)}>
            Reject
          </button>
          <button type="button" className="primary" disabled={isSending} onClick={() => void submit({ confirmed: true }).catch(() => undefined)}>
            Confirm
          </button>
        </div>
      ) : (
        <p className="quiet">{answered(call)}</p>
      )}
    </div>
  );
}

function answered(call: ToolProps["call"]): string {
  if (call.status === "error") return call.error ?? "Not answered.";
  if (call.status !== "complete") return "Waiting for an answer.";
  return (call.result as { confirmed?: unknown } | null)?.confirmed === true ? "Confirmed" : "Rejected";
}
