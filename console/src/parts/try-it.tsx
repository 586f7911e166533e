import Form from "@rjsf/core";
import validator from "@rjsf/validator-ajv8";
import type { RJSFSchema } from "@rjsf/utils";
import { useId, useState, type ReactNode } from "react";
import { client, type CallRecord, type ToolDefinition } from "../data";
import { CallCard, shownRecord } from "./call-card";
import { Fault } from "./states";

/** A form made from the tool's schema, or its arguments as JSON; then the call's card. */
export default function TryIt({ tool, onCalled }: { tool: ToolDefinition; onCalled: () => void }): ReactNode {
  const id = useId();
  const [asJson, setAsJson] = useState(false);
  const [values, setValues] = useState<unknown>(exampleOf(tool));
  const [json, setJson] = useState("{}");
  const [call, setCall] = useState<CallRecord | null>(null);
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);

  const run = async (given: unknown): Promise<void> => {
    setIsBusy(true);
    setFault(null);
    try {
      const { call_id } = await client.post<{ call_id: string }>(`/api/v1/tools/${encodeURIComponent(tool.name)}/execute`, { arguments: given ?? {} });
      setCall((await client.get<{ call: CallRecord }>(`/api/v1/calls/${call_id}`)).call);
      onCalled();
    } catch (refusal) {
      const { message, details = [] } = refusal as Error & { details?: { path: string; message: string }[] };
      setFault(new Error([message, ...details.map((one) => `${one.path}: ${one.message}`)].join(" ")));
    } finally {
      setIsBusy(false);
    }
  };
  const runJson = (): void => {
    try {
      void run(JSON.parse(json));
    } catch {
      setFault(new Error("The arguments are not valid JSON. Correct them first."));
    }
  };
  return (
    <div className="try-it">
      {asJson ? (
        <>
          <label htmlFor={id}>Arguments as JSON</label>
          <textarea id={id} className="code" rows={6} value={json} spellCheck={false} onChange={(event) => setJson(event.target.value)} />
          <div className="actions">
            <button type="button" className="plain" onClick={() => setAsJson(false)}>
              as a form
            </button>
            <button type="button" className="primary" disabled={isBusy} onClick={runJson}>
              Call it
            </button>
          </div>
        </>
      ) : (
        <Form
          schema={tool.parameters as RJSFSchema}
          validator={validator}
          formData={values}
          disabled={isBusy}
          showErrorList={false}
          onChange={({ formData }: { formData?: unknown }) => setValues(formData)}
          onSubmit={({ formData }: { formData?: unknown }) => void run(formData)}
        >
          <div className="actions">
            <button type="button" className="plain" onClick={() => (setJson(JSON.stringify(values ?? {}, null, 2)), setAsJson(true))}>
              as JSON
            </button>
            <button type="submit" className="primary" disabled={isBusy}>
              Call it
            </button>
          </div>
        </Form>
      )}
      {fault !== null && <Fault error={fault} />}
      {call !== null && <CallCard call={shownRecord(call)} canAnswer />}
    </div>
  );
}

function exampleOf(tool: ToolDefinition): unknown {
  const examples = tool.metadata["examples"];
  return (Array.isArray(examples) ? (examples[0] as { input?: unknown } | undefined)?.input : undefined) ?? {};
}
