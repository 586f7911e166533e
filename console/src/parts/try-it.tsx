import { useId, useState, type ReactNode } from "react";
import { hasLargeNumber, indented } from "../call-code";
import { client, useData, type CallRecord, type ToolDefinition } from "../data";
import { inOneLine } from "../safe-text";
import { took, useNow } from "../time";
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

/** A call that runs: since when, and what its tool has reported. */
interface Running {
  id: string | null;
  since: number;
  progress: { progress: number; total?: number | null; message?: string | null } | null;
}

interface CallEvent {
  call_id?: string;
  progress?: Running["progress"];
}

/** Calls a tool: a form generated from its schema, or JSON; then the card of the call. */
export default function TryIt({ tool, onCalled, start, replayOf, ask }: Given): ReactNode {
  const id = useId();
  const [asJson, setAsJson] = useState(start !== undefined && hasLargeNumber(start));
  const [values, setValues] = useState<unknown>(start === undefined ? exampleOf(tool) : JSON.parse(start));
  const [json, setJson] = useState(start === undefined ? "{}" : indented(start));
  const [callId, setCallId] = useState<string | null>(null);
  const [fault, setFault] = useState<Error | null>(null);
  const [running, setRunning] = useState<Running | null>(null);
  const isBusy = running !== null;

  /** Text, so that numbers go as they are written. */
  const run = async (given: string): Promise<void> => {
    if (ask !== undefined && !(await ask())) return;
    setRunning({ id: null, since: Date.now(), progress: null });
    setFault(null);
    setCallId(null);
    try {
      const bodyText = `{"arguments":${given}${replayOf === undefined ? "" : `,"replay_of":${JSON.stringify(replayOf)}`}}`;
      let made: string | null = null;
      for await (const { data } of client.stream("POST", `/api/v1/tools/${encodeURIComponent(tool.name)}/execute`, { bodyText })) {
        const { call_id: id, progress } = data as CallEvent;
        if (id === undefined) continue;
        if (made === null) onCalled(id);
        made = id;
        setRunning((now) => now && { ...now, id, progress: progress ?? now.progress });
      }
      setCallId(made);
      if (made !== null) onCalled(made);
    } catch (refusal) {
      const { message, details = [] } = refusal as Error & { details?: { path: string; message: string }[] };
      setFault(new Error([message, ...details.map((one) => `${one.path}: ${one.message}`)].join(" ")));
    } finally {
      setRunning(null);
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
      {running !== null && <Now running={running} />}
      {callId !== null && <Made key={callId} id={callId} />}
    </div>
  );
}

/** How far a call is, how long it takes already, and its end if somebody wants it. */
function Now({ running: { id, since, progress } }: { running: Running }): ReactNode {
  const now = useNow(true);
  const [fault, setFault] = useState<Error | null>(null);
  const cancel = async (): Promise<void> => {
    try {
      await client.post(`/api/v1/calls/${encodeURIComponent(id!)}/cancel`);
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  const total = progress?.total ?? null;
  return (
    <div className="running-call" role="group" aria-label="The call runs">
      {progress !== null && total !== null ? <progress value={progress.progress} max={total} aria-label="Progress" /> : <progress aria-label="Progress" />}
      <span className="one-line">
        {progress !== null && total !== null && `${progress.progress.toLocaleString()} of ${total.toLocaleString()} `}
        <span className="quiet">{inOneLine(progress?.message ?? "", 200)}</span>
      </span>
      <span className="quiet elapsed">{took(Math.max(0, now - since))}</span>
      <button type="button" className="small danger" disabled={id === null} onClick={() => void cancel()}>
        Cancel call
      </button>
      {fault !== null && <Fault error={fault} />}
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
