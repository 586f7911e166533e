import { useState, type FormEvent, type ReactNode } from "react";
import { client } from "../../data";
import { useAction } from "../../parts/action";
import { Field } from "../../parts/field";
import { Fault } from "../../parts/states";
import { bodyOf, draftOf, hasHidden, patchOf, variablesIn, type Body, type Draft } from "./draft";
import { sourcePath, type SourceTest } from "./records";
import { NamedSecrets } from "./secrets";
import { Tested } from "./tested";

/** The form of a new source: it is tested as it stands before it is saved. */
export function NewSource({ draft, onDraft, onSaved }: { draft: Draft; onDraft: (draft: Draft) => void; onSaved: (name: string) => void }): ReactNode {
  return (
    <SourceForm
      draft={draft}
      onDraft={onDraft}
      isNew
      onSave={async (body) => {
        await client.post("/api/v1/sources", { name: draft.name.trim(), ...body });
        onSaved(draft.name.trim());
      }}
    />
  );
}

/** Sends only what is different, so that hidden values stay. */
export function EditSource({ name, settings, onSaved }: { name: string; settings: Body; onSaved: () => void }): ReactNode {
  const [before] = useState(() => draftOf(name, settings));
  const [draft, setDraft] = useState(before);
  return (
    <SourceForm
      draft={draft}
      onDraft={setDraft}
      isNew={false}
      onSave={async (body) => {
        await client.patch(sourcePath(name), patchOf(bodyOf(before), body));
        onSaved();
      }}
    />
  );
}

interface Given {
  draft: Draft;
  onDraft: (draft: Draft) => void;
  isNew: boolean;
  onSave: (body: Body) => Promise<void>;
}

function SourceForm({ draft, onDraft, isNew, onSave }: Given): ReactNode {
  const test = useAction();
  const save = useAction();
  const [result, setResult] = useState<{ of: string; found: SourceTest } | null>(null);
  const current = JSON.stringify(draft);
  const isTested = result?.of === current;
  const body = read(draft);
  const isHidden = hasHidden(body);
  const runTest = (): void =>
    void test.run(async () => {
      const found = await client.post<SourceTest>("/api/v1/sources/test", { name: draft.name.trim() || "test", ...bodyOf(draft) });
      setResult({ of: current, found });
    });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void save.run(() => onSave(bodyOf(draft)));
  };
  return (
    <form className="source-form" onSubmit={submit}>
      <Fields draft={draft} onDraft={onDraft} isNew={isNew} />
      <NamedSecrets names={variablesIn(body)} />
      {isHidden && <p className="quiet">Values that the gateway hides stay as they are. A test needs all values, so save first and test then.</p>}
      {test.fault !== null && <Fault error={test.fault} />}
      {result !== null && (
        <div className={isTested ? "" : "stale"}>
          {!isTested && <p className="quiet">Changed since this test.</p>}
          <Tested result={result.found} />
        </div>
      )}
      {save.fault !== null && <Fault error={save.fault} />}
      <div className="actions">
        {!isHidden && (
          <button type="button" className={isTested ? "" : "primary"} disabled={test.isBusy} onClick={runTest}>
            {test.isBusy ? "Testing …" : "Test"}
          </button>
        )}
        <button type="submit" className={isTested || isHidden ? "primary" : ""} disabled={save.isBusy || (isNew && !isTested)}>
          {isTested && !result.found.ok ? "Save anyway" : "Save"}
        </button>
        {isNew && !isTested && <span className="quiet">Test it first; nothing is kept by a test.</span>}
      </div>
    </form>
  );
}

function Fields({ draft, onDraft, isNew }: Pick<Given, "draft" | "onDraft" | "isNew">): ReactNode {
  const set = (change: Partial<Draft>): void => onDraft({ ...draft, ...change });
  const secret = "Name a secret as ${NAME}; its value is asked for below.";
  return (
    <>
      {isNew && (
        <Field label="Name" hint="1 to 32 letters, digits, _ or -. It stays.">
          <input value={draft.name} required maxLength={32} pattern="[A-Za-z0-9_\-]{1,32}" autoComplete="off" onChange={(event) => set({ name: event.target.value })} />
        </Field>
      )}
      {draft.shape === "command" ? (
        <>
          <Field label="Command" hint="The program and its arguments, as in a shell, such as uvx mcp-server-git. No shell reads it.">
            <input className="code" value={draft.command} required spellCheck={false} autoComplete="off" onChange={(event) => set({ command: event.target.value })} />
          </Field>
          <Field label="Environment" hint={`NAME=value, one a line. ${secret}`}>
            <textarea className="code" rows={3} value={draft.env} spellCheck={false} onChange={(event) => set({ env: event.target.value })} />
          </Field>
        </>
      ) : (
        <>
          <Field label="URL" hint={URLS[draft.shape]}>
            <input className="code" value={draft.url} required spellCheck={false} autoComplete="off" onChange={(event) => set({ url: event.target.value })} />
          </Field>
          <Field label="Headers" hint={`Name: value, one a line. ${secret}`}>
            <textarea className="code" rows={3} value={draft.headers} spellCheck={false} onChange={(event) => set({ headers: event.target.value })} />
          </Field>
          <Field label="Login" hint="Whose login its requests are made with, if its server wants one.">
            <select value={draft.auth} onChange={(event) => set({ auth: event.target.value as Draft["auth"] })}>
              <option value="none">none</option>
              <option value="shared">one for everybody</option>
              <option value="user">each person's own</option>
            </select>
          </Field>
        </>
      )}
      <Field label="Prefix" hint="Prepended to the names of its tools. May be empty.">
        <input className="code" value={draft.prefix} maxLength={32} pattern="[A-Za-z0-9_]*" autoComplete="off" onChange={(event) => set({ prefix: event.target.value })} />
      </Field>
      <details open={draft.more !== ""}>
        <summary>Other fields</summary>
        <Field label="Other fields as JSON" hint='As in [sources.NAME] of the config, such as {"allowed_tools": ["list_*"], "on_new": "hold"}.'>
          <textarea className="code" rows={4} value={draft.more} spellCheck={false} onChange={(event) => set({ more: event.target.value })} />
        </Field>
      </details>
    </>
  );
}

const URLS: Record<string, string> = {
  url: "Of its MCP endpoint, such as https://mcp.example.org/mcp.",
  openapi: "Of the document, JSON or YAML.",
  manifest: "Of the service; its manifest is read at /api/v1/tools.",
};

/** What can be read of a draft that is not finished. */
function read(draft: Draft): Body {
  try {
    return bodyOf(draft);
  } catch {
    return { url: draft.url, command: draft.command, headers: draft.headers, env: draft.env, more: draft.more };
  }
}
