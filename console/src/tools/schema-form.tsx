import Form from "@rjsf/core";
import validator from "@rjsf/validator-ajv8";
import type { RJSFSchema } from "@rjsf/utils";
import { useState, type ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { useData, type ToolDefinition } from "../data";

const ANYTHING: RJSFSchema = { type: "object", properties: { answer: { type: "string", title: "Answer" } } };

/** A form for whoever is asked by a `space` tool: by its output schema where it has one, else free text or JSON. */
export default function SchemaForm({ call, submit, isSending }: ToolProps): ReactNode {
  const { data: tool } = useData<ToolDefinition & { output_schema?: RJSFSchema }>(`/api/v1/tools/${encodeURIComponent(call.toolName)}`);
  const asked = (call.args as { schema?: RJSFSchema; requestedSchema?: RJSFSchema } | null) ?? {};
  const schema = asked.requestedSchema ?? asked.schema ?? tool?.output_schema ?? ANYTHING;
  const [fault, setFault] = useState<string | null>(null);
  const send = (value: unknown): void => {
    submit(value).catch((refusal: unknown) => setFault((refusal as Error).message));
  };
  return (
    <div className="schema-form">
      <Form schema={schema} validator={validator} disabled={isSending} onSubmit={({ formData }: { formData?: unknown }) => send(formData ?? null)} showErrorList={false} />
      {fault !== null && (
        <p className="fault" role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}
