import { lazy, Suspense, useState, type ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { LongText, Tree } from "../parts/tree";

const FormOf = lazy(async () => ({ default: (await import("../forms/form")).FormOf }));

/** `elicitation`: a question asked by an MCP server while one of its tools runs. It can be declined. */
export function Question({ call, canAnswer, submit, isSending }: ToolProps): ReactNode {
  const [value, setValue] = useState<unknown>(undefined);
  const { message, schema, url, tool } = (call.args ?? {}) as Record<string, unknown>;
  const send = (result: unknown): void => void submit(result).catch(() => undefined);
  return (
    <>
      <p className="question">
        <LongText text={typeof message === "string" ? message : "An answer is needed."} />
      </p>
      {typeof tool === "string" && <p className="quiet">Asked by {tool}</p>}
      {typeof url === "string" && <LongText text={url} />}
      {canAnswer && (
        <Suspense fallback={<p className="quiet">Loading the form …</p>}>
          <div className="schema-form">
            <FormOf schema={schema ?? {}} value={value} isBusy={isSending} onChange={setValue} onSubmit={(content) => send({ action: "accept", content: content ?? {} })}>
              <div className="actions">
                <button type="button" disabled={isSending} onClick={() => send({ action: "decline" })}>
                  Decline
                </button>
                <button type="submit" className="primary" disabled={isSending}>
                  Send
                </button>
              </div>
            </FormOf>
          </div>
        </Suspense>
      )}
      {call.status === "complete" && <Tree value={call.result} />}
    </>
  );
}
