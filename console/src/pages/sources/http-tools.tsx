import { useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Confirm, Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Fault, Loading, Section } from "../../parts/states";
import { toast } from "../../parts/toast";
import { inOneLine } from "../../safe-text";
import { HIDDEN, pairsOf, type Body } from "./draft";
import type { ToolTest } from "./records";
import { ToolTested } from "./tested";

interface ToolDraft {
  name: string;
  description: string;
  method: string;
  url: string;
  headers: string;
  inputSchema: string;
  seconds: string;
  needsApproval: boolean;
}

const EMPTY: ToolDraft = { name: "", description: "", method: "GET", url: "", headers: "", inputSchema: '{\n  "type": "object",\n  "properties": {}\n}', seconds: "30", needsApproval: false };

/** A tool that sends one HTTP request. `edited` is the definition it was made with. */
export function HttpToolForm({ edited, onSaved }: { edited?: { name: string; definition: Body }; onSaved: (name: string) => void }): ReactNode {
  const [before] = useState(() => (edited === undefined ? EMPTY : draftOf(edited.name, edited.definition)));
  const [draft, setDraft] = useState(before);
  const test = useAction();
  const save = useAction();
  const [result, setResult] = useState<{ of: string; found: ToolTest } | null>(null);
  const current = JSON.stringify(draft);
  const isNew = edited === undefined;
  const isTested = result?.of === current;
  const set = (change: Partial<ToolDraft>): void => setDraft({ ...draft, ...change });
  const runTest = (): void =>
    void test.run(async () => {
      const found = await client.post<ToolTest>("/api/v1/sources/test/tool", { name: draft.name.trim(), ...bodyOf(draft) });
      setResult({ of: current, found });
    });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void save.run(async () => {
      const body = bodyOf(draft, edited?.definition);
      if (edited === undefined) await client.post("/api/v1/tools", { name: draft.name.trim(), ...body });
      else await client.put(`/api/v1/tools/${encodeURIComponent(edited.name)}`, body);
      onSaved(draft.name.trim());
    });
  };
  const hadHeaders = Object.keys((executionOf(edited?.definition)["headers"] as Body | undefined) ?? {});
  return (
    <form className="source-form" onSubmit={submit}>
      {edited === undefined && (
        <Field label="Name" hint="As agents call it, such as weather_now.">
          <input value={draft.name} required maxLength={64} autoComplete="off" onChange={(event) => set({ name: event.target.value })} />
        </Field>
      )}
      <Field label="Description" hint="What it does and when to use it: a model reads this.">
        <textarea rows={2} required value={draft.description} onChange={(event) => set({ description: event.target.value })} />
      </Field>
      <Field label="Method">
        <select value={draft.method} onChange={(event) => set({ method: event.target.value })}>
          {["GET", "POST", "PUT", "PATCH", "DELETE"].map((method) => (
            <option key={method}>{method}</option>
          ))}
        </select>
      </Field>
      <Field label="URL" hint="GET sends the arguments as the query, other methods as a JSON body. Private addresses need [outgoing] allow.">
        <input className="code" required value={draft.url} spellCheck={false} autoComplete="off" onChange={(event) => set({ url: event.target.value })} />
      </Field>
      <Field label="Headers" hint={hadHeaders.length > 0 ? `Name: value, one a line. The values of ${hadHeaders.join(", ")} are hidden: write them again to keep them.` : "Name: value, one a line. Values are stored as they are and not shown again."}>
        <textarea className="code" rows={2} value={draft.headers} spellCheck={false} onChange={(event) => set({ headers: event.target.value })} />
      </Field>
      <Field label="Arguments" hint="A JSON Schema of an object.">
        <textarea className="code" rows={8} value={draft.inputSchema} spellCheck={false} onChange={(event) => set({ inputSchema: event.target.value })} />
      </Field>
      <Field label="Seconds it may take">
        <input type="number" min={1} max={3600} value={draft.seconds} onChange={(event) => set({ seconds: event.target.value })} />
      </Field>
      <label className="check">
        <input type="checkbox" checked={draft.needsApproval} onChange={(event) => set({ needsApproval: event.target.checked })} /> Calls need approval
      </label>
      {test.fault !== null && <Fault error={test.fault} />}
      {result !== null && (
        <div className={isTested ? "" : "stale"}>
          {!isTested && <p className="quiet">Changed since this test.</p>}
          <ToolTested result={result.found} />
        </div>
      )}
      {save.fault !== null && <Fault error={save.fault} />}
      <div className="actions">
        {isNew && (
          <button type="button" className={isTested ? "" : "primary"} disabled={test.isBusy} onClick={runTest}>
            {test.isBusy ? "Testing …" : "Test"}
          </button>
        )}
        <button type="submit" className={isTested || !isNew ? "primary" : ""} disabled={save.isBusy || (isNew && !isTested)}>
          {!isNew ? "Save" : isTested && !result.found.ok ? "Save anyway" : "Save and try it"}
        </button>
        {isNew && !isTested && <span className="quiet">Test it first; a test connects to the server, sends nothing and keeps nothing.</span>}
      </div>
    </form>
  );
}

/** The tools of the source `http`; those made here are changed and removed here. */
export function HttpTools({ tools, onChanged }: { tools: readonly string[]; onChanged: () => void }): ReactNode {
  const [edited, setEdited] = useState<string | null>(null);
  const [removed, setRemoved] = useState<string | null>(null);
  return (
    <Section title="Change a tool" count={tools.length} nothing="Add an HTTP tool first.">
      <ul className="names">
        {tools.map((tool) => (
          <li key={tool} className="with-marks">
            <Link href={`/tools/${encodeURIComponent(tool)}`}>
              <code>{inOneLine(tool, 80)}</code>
            </Link>
            <button type="button" className="plain" aria-label={`Edit ${tool}`} onClick={() => setEdited(tool)}>
              <Icon name="edit" />
            </button>
            <button type="button" className="plain" aria-label={`Remove ${tool}`} onClick={() => setRemoved(tool)}>
              <Icon name="bin" />
            </button>
          </li>
        ))}
      </ul>
      <Dialog title={`Edit ${inOneLine(edited ?? "", 60)}`} isOpen={edited !== null} onClose={() => setEdited(null)} isWide>
        {edited !== null && (
          <EditTool
            name={edited}
            onSaved={() => {
              toast(`Tool ${edited} changed`);
              setEdited(null);
              onChanged();
            }}
          />
        )}
      </Dialog>
      <Confirm
        title={`Remove ${inOneLine(removed ?? "", 60)}?`}
        verb="Remove"
        isDanger
        isOpen={removed !== null}
        onClose={() => setRemoved(null)}
        onConfirm={async () => {
          await client.delete(`/api/v1/tools/${encodeURIComponent(removed ?? "")}`);
          toast(`Tool ${removed ?? ""} removed`);
          onChanged();
        }}
      >
        <p>Nobody can call it any more. Calls on record stay.</p>
      </Confirm>
    </Section>
  );
}

function EditTool({ name, onSaved }: { name: string; onSaved: () => void }): ReactNode {
  const { data, error, mutate } = useData<{ name: string; definition: Body }>(`/api/v1/tools/${encodeURIComponent(name)}/definition`);
  if (data === undefined) return error === undefined ? <Loading what="the definition" /> : <Fault error={error} onRetry={() => void mutate()} />;
  return <HttpToolForm edited={data} onSaved={onSaved} />;
}

function executionOf(definition: Body | undefined): Body {
  return (definition?.["execution"] as Body | undefined) ?? {};
}

function draftOf(name: string, definition: Body): ToolDraft {
  const execution = executionOf(definition);
  const headers = Object.entries((execution["headers"] as Record<string, string> | undefined) ?? {}).filter(([, value]) => value !== HIDDEN);
  return {
    name,
    description: String(definition["description"] ?? ""),
    method: String(execution["method"] ?? "GET"),
    url: String(execution["url"] ?? ""),
    headers: headers.map(([key, value]) => `${key}: ${value}`).join("\n"),
    inputSchema: JSON.stringify(definition["input_schema"] ?? {}, null, 2),
    seconds: typeof definition["timeout"] === "number" ? String(definition["timeout"] / 1000) : "30",
    needsApproval: (definition["metadata"] as Body | undefined)?.["requires_approval"] === true,
  };
}

/** The definition, with what the form has no field for as it was. */
function bodyOf(draft: ToolDraft, before: Body = {}): Body {
  let inputSchema: unknown;
  try {
    inputSchema = JSON.parse(draft.inputSchema);
  } catch (fault) {
    throw new Error(`The arguments' schema is not valid JSON: ${(fault as Error).message}`);
  }
  const { name: _, ...kept } = before;
  return {
    ...kept,
    description: draft.description,
    execution_type: "gateway",
    input_schema: inputSchema,
    execution: { ...executionOf(before), url: draft.url.trim(), method: draft.method, headers: pairsOf(draft.headers, ":", "headers") },
    timeout: Math.round(Number(draft.seconds) * 1000),
    metadata: { ...((before["metadata"] as Body | undefined) ?? {}), requires_approval: draft.needsApproval },
  };
}
