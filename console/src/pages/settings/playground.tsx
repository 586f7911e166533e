import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { frames } from "@jackfield/react";
import { client, useData, type CallRecord } from "../../data";
import { CallCard, shownRecord, type ShownCall } from "../../parts/call-card";
import { Field } from "../../parts/field";
import { Duration } from "../../parts/moment";
import { Section } from "../../parts/states";
import { safeText } from "../../safe-text";
import { NOTHING, withEvent, type Answer, type Made } from "./answer";
import { namesIn } from "../access/new-key";

interface Turn {
  prompt: string;
  answer: Answer;
  firstMs: number | null;
  ms: number | null;
}

/** A prompt to a model with tools of the catalog; the answer as it comes, its calls as cards, its tokens and time. */
export function Playground({ model, onAnswered }: { model: string; onAnswered: () => void }): ReactNode {
  const [prompt, setPrompt] = useState("");
  const [instructions, setInstructions] = useState("");
  const [tools, setTools] = useState("");
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const running = useRef<AbortController | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const last = turns.at(-1);

  const ask = async (): Promise<void> => {
    const text = prompt.trim();
    if (text === "" || running.current !== null) return;
    const stop = new AbortController();
    running.current = stop;
    setIsBusy(true);
    setPrompt("");
    const began = performance.now();
    let turn: Turn = { prompt: text, answer: NOTHING, firstMs: null, ms: null };
    const show = (change: Partial<Turn>): void => {
      turn = { ...turn, ...change };
      setTurns([...turns, turn]);
    };
    show({});
    const body = {
      model,
      input: text,
      stream: true,
      ...(instructions.trim() === "" ? {} : { instructions }),
      ...(namesIn(tools).length === 0 ? {} : { tools: [{ type: "jackfield:catalog", tools: namesIn(tools) }] }),
      ...(last?.answer.id === null || last === undefined ? {} : { previous_response_id: last.answer.id }),
    };
    try {
      await stream(body, stop.signal, (data) => {
        const answer = withEvent(turn.answer, data);
        const isFirst = turn.firstMs === null && data["type"] === "response.output_text.delta";
        show({ answer, ...(isFirst ? { firstMs: performance.now() - began } : {}) });
      });
      show({ ms: performance.now() - began });
    } catch (fault) {
      show({ ms: performance.now() - began, answer: { ...turn.answer, status: stop.signal.aborted ? "cancelled" : "failed", error: stop.signal.aborted ? null : (fault as Error).message } });
    } finally {
      running.current = null;
      setIsBusy(false);
      onAnswered();
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void ask();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) void ask();
  };
  return (
    <Section title="Playground" actions={turns.length > 0 && !isBusy ? <button type="button" className="plain" onClick={() => setTurns([])}>Begin anew</button> : null}>
      <ol className="turns">
        {turns.map((turn, place) => (
          <li key={place}>
            <OneTurn turn={turn} />
          </li>
        ))}
      </ol>
      <form className="source-form" onSubmit={submit}>
        <Field label="Prompt" hint="Ctrl Enter sends it. Real calls are made, on record and under the usual approvals.">
          <textarea rows={3} value={prompt} onChange={(event) => setPrompt(event.target.value)} onKeyDown={onKey} />
        </Field>
        <details>
          <summary>Tools and instructions</summary>
          <Field label="Tools" hint="Names, globs and SOURCE:*, separated by commas; * is the whole catalog, empty is none.">
            <input className="code" value={tools} spellCheck={false} autoComplete="off" onChange={(event) => setTools(event.target.value)} />
          </Field>
          <Field label="Instructions">
            <textarea rows={2} value={instructions} onChange={(event) => setInstructions(event.target.value)} />
          </Field>
        </details>
        <div className="actions">
          {isBusy && (
            <button type="button" onClick={() => running.current?.abort()}>
              Stop
            </button>
          )}
          <button type="submit" className="primary" disabled={isBusy || prompt.trim() === ""}>
            Send
          </button>
        </div>
      </form>
    </Section>
  );
}

function OneTurn({ turn }: { turn: Turn }): ReactNode {
  const { answer, firstMs, ms } = turn;
  const hasWaited = answer.parts.some((part) => part?.is === "call" && waits(part));
  const { data } = useData<{ calls: CallRecord[] }>(hasWaited && answer.id !== null ? `/api/v1/calls?run_id=${encodeURIComponent(answer.id)}&limit=100` : null, { every: 2000 });
  const records = data?.calls ?? [];
  const isWaiting = hasWaited && (data === undefined || records.some(({ status }) => status.startsWith("pending")));
  return (
    <article className="turn" aria-label="Prompt and answer" aria-busy={ms === null}>
      <p className="text asked">{safeText(turn.prompt)}</p>
      {answer.parts.map((part) =>
        part === null ? null : part.is === "text" ? (
          <p key={part.id} className="text">
            {safeText(part.text, 200_000)}
          </p>
        ) : (
          <CallCard key={part.id} call={shownCall(part, answer.id, records)} />
        ),
      )}
      {isWaiting && (
        <p className="notice" role="status">
          <span>
            A call waits for somebody. Answer it here or in <Link href="/waiting">Waiting</Link>, then ask on: the model is told the outcome.
          </span>
        </p>
      )}
      {answer.error !== null && (
        <p className="fault text" role="alert">
          {safeText(answer.error, 4000)}
        </p>
      )}
      <p className="quiet facts">
        <span>{ms === null ? "answering …" : answer.status.replaceAll("_", " ")}</span>
        {firstMs !== null && (
          <span>
            first token <Duration ms={firstMs} />
          </span>
        )}
        {ms !== null && (
          <span>
            in all <Duration ms={ms} />
          </span>
        )}
        {answer.inputTokens !== null && <span>{answer.inputTokens.toLocaleString()} tokens read</span>}
        {answer.outputTokens !== null && <span>{answer.outputTokens.toLocaleString()} written</span>}
        {answer.id !== null && ms !== null && <Link href={`/runs/${encodeURIComponent(answer.id)}`}>Its run</Link>}
      </p>
    </article>
  );
}

const STATES: Record<string, ShownCall["status"]> = { in_progress: "running", calling: "running", completed: "complete", failed: "error", incomplete: "requires_action" };

function waits(made: Made): boolean {
  return made.needsApproval || made.status === "incomplete";
}

/** A call that waited is shown by its record, which knows what has become of it. */
function shownCall(made: Made, runId: string | null, records: readonly CallRecord[]): ShownCall {
  const own = waits(made) ? records.filter(({ tool }) => tool === made.name) : [];
  const record = own.find((one) => JSON.stringify(one.arguments) === JSON.stringify(parsed(made.arguments))) ?? own[0];
  if (record !== undefined) return shownRecord(record);
  const status = made.needsApproval ? "requires_action" : (STATES[made.status] ?? "running");
  const call: ShownCall = { type: "tool_call", toolCallId: made.id, toolName: made.name, args: parsed(made.arguments), result: made.output === null ? undefined : parsed(made.output), status, runId };
  if (made.error !== null) call.error = made.error;
  return call;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Each event of the stream, until it ends. Throws what the gateway says when it refuses. */
async function stream(body: unknown, signal: AbortSignal, onEvent: (data: Record<string, unknown>) => void): Promise<void> {
  const answer = await fetch(`${client.url}/v1/responses`, { method: "POST", headers: { ...client.headers(true), accept: "text/event-stream" }, credentials: "same-origin", body: JSON.stringify(body), signal });
  if (!answer.ok || answer.body === null) {
    const said = (await answer.json().catch(() => ({}))) as { error?: { message?: string } };
    throw new Error(said.error?.message ?? `The gateway answered ${answer.status}.`);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const take = frames(({ data }) => {
    if (typeof data === "object" && data !== null) onEvent(data as Record<string, unknown>);
  });
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    take(value);
  }
}
