import { useId, useState, type ReactNode } from "react";
import { hasLargeNumber, indented } from "../call-code";
import { client, useData, type CallRecord, type ToolDefinition } from "../data";
import { FormOf } from "../forms/form";
import { CallCard, shownRecord } from "./call-card";
import { Fault } from "./states";

interface Given {
  tool: ToolDefinition;
  onCalled: (callId: string) => void;
  /** Arguments to begin with, as JSON. */
  start?: string;
  /** The call that is made again. */
  replayOf?: string;
  /** Asked before the call; false: it is not made. */
  ask?: () => Promise<boolean>;
}

/** Calls a tool: a form generated from its schema, or JSON; then the card of the call. */
export default function TryIt({ tool, onCalled, start, replayOf, ask }: Given): ReactNode {
  const id = useId();
  const [asJson, setAsJson] = useState(start !== undefined && hasLargeNumber(start));
  const [values, setValues] = useState<unknown>(start === undefined ? exampleOf(tool) : JSON.parse(start));
  const [json, setJson] = useState(start === undefined ? "{}" : indented(start));
  const [callId, setCallId] = useState<string | null>(null);
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);

  /** Text, so that numbers go as they are written. */
  const run = async (given: string): Promise<void> => {
    if (ask !== undefined && !(await ask())) return;
    setIsBusy(true);
    setFault(null);
    try {
      const body = `{"arguments":${given}${replayOf === undefined ? "" : `,"replay_of":${JSON.stringify(replayOf)}`}}`;
      const { call_id } = JSON.parse(await client.text("POST", `/api/v1/tools/${encodeURIComponent(tool.name)}/execute`, body)) as { call_id: string };
      setCallId(call_id);
      onCalled(call_id);
    } catch (refusal) {
      const { message, details = [] } = refusal as Error & { details?: { path: string; message: string }[] };
      setFault(new Error([message, ...details.map((one) => `${one.path}: ${one.message}`)].join(" ")));
    } finally {
      setIsBusy(false);
    }
  };
  const runJson = (): void => {
    try {
      JSON.parse(json);
    } catch {
      return setFault(new Error("The arguments are not valid JSON."));
    }
    void run(json);
  };
  return (
    <div className="try-it">
      {asJson ? (
        <>
          <label htmlFor={id}>Arguments as JSON</label>
          <textarea id={id} className="code" rows={6} value={json} spellCheck={false} onChange={(event) => setJson(event.target.value)} />
          <div className="actions">
            <button type="button" className="plain" onClick={() => setAsJson(false)}>
              Edit as form
            </button>
            <button type="button" className="primary" disabled={isBusy} onClick={runJson}>
              Call tool
            </button>
          </div>
        </>
      ) : (
        <FormOf schema={tool.parameters} value={values} isBusy={isBusy} onChange={setValues} onSubmit={(given) => void run(JSON.stringify(given ?? {}))}>
          {Object.keys((tool.parameters["properties"] as object | undefined) ?? {}).length === 0 && <p className="quiet">No arguments.</p>}
          <div className="actions">
            <button type="button" className="plain" onClick={() => (setJson(JSON.stringify(values ?? {}, null, 2)), setAsJson(true))}>
              Edit as JSON
            </button>
            <button type="submit" className="primary" disabled={isBusy}>
              Call tool
            </button>
          </div>
        </FormOf>
      )}
      {fault !== null && <Fault error={fault} />}
      {callId !== null && <Made key={callId} id={callId} />}
    </div>
  );
}

/** The card of the call, refreshed until it ends. */
function Made({ id }: { id: string }): ReactNode {
  const { data } = useData<{ call: CallRecord }>(`/api/v1/calls/${id}`, { every: 1000 });
  return data === undefined ? null : <CallCard call={shownRecord(data.call)} />;
}

function exampleOf(tool: ToolDefinition): unknown {
  const examples = tool.metadata["examples"];
  return (Array.isArray(examples) ? (examples[0] as { input?: unknown } | undefined)?.input : undefined) ?? {};
}
