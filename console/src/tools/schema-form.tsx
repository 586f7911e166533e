import { useState, type ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { useData, type CallRecord } from "../data";
import { FormOf } from "../forms/form";
import { isAnything } from "../forms/shown-schema";

const FREE = { type: "object", properties: { answer: { type: "string", title: "Answer" } }, required: ["answer"] };

/** A form generated from the tool's output schema; free text without one. */
export default function SchemaForm({ call, submit, isSending }: ToolProps): ReactNode {
  const [value, setValue] = useState<unknown>(undefined);
  // A signed link includes the schema; otherwise it is in the call's record.
  const { data, isLoading } = useData<{ call: CallRecord }>(call.toolCallId === "" ? null : `/api/v1/calls/${encodeURIComponent(call.toolCallId)}`);
  if (isLoading) return <p className="quiet">Loading the form …</p>;
  const said = call.answerSchema ?? data?.call.answer_schema ?? null;
  const schema = said === null || isAnything(said) ? FREE : said;
  return (
    <div className="schema-form">
      <FormOf schema={schema} value={value} isBusy={isSending} onChange={setValue} onSubmit={(given) => void submit(given ?? null).catch(() => undefined)}>
        <div className="actions">
          <button type="submit" className="primary" disabled={isSending}>
            Send
          </button>
        </div>
      </FormOf>
    </div>
  );
}
