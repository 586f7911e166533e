import { useState, type FormEvent, type ReactNode } from "react";
import { go } from "../../address";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Confirm, Dialog } from "../../parts/dialog";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Duration } from "../../parts/moment";
import { Empty, Fault, Loading, Section } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { toast } from "../../parts/toast";
import { Tree } from "../../parts/tree";
import { inOneLine, safeText } from "../../safe-text";
import { useActions } from "../../shortcuts";
import { hasHidden, patchOf, variablesIn, type Body } from "../sources/draft";
import { NamedSecrets } from "../sources/secrets";
import { Playground } from "./playground";

export interface ModelRecord {
  name: string;
  origin: "config" | "api";
  provider: string | null;
  model: string | null;
  base_url: string | null;
  error: string | null;
  input_tokens: number;
  output_tokens: number;
  settings: Body | null;
}

interface ModelTest {
  ok: boolean;
  error: string | null;
  text: string;
  milliseconds: number;
}

const COLUMNS: Column<ModelRecord>[] = [
  { id: "name", name: "Model", width: "minmax(96px, 1fr)", sortBy: ({ name }) => name, cell: ({ name }) => <strong className="one-line">{inOneLine(name, 64)}</strong> },
  { id: "provider", name: "Provider", width: "80px", isWide: true, cell: ({ provider }) => inOneLine(provider ?? "", 60) },
  { id: "model", name: "Called", isWide: true, cell: ({ model }) => <span className="one-line">{inOneLine(model ?? "", 80)}</span> },
  { id: "url", name: "Server", width: "minmax(80px, 2fr)", isWide: true, cell: ({ base_url }) => <span className="one-line">{inOneLine(base_url ?? "", 120)}</span> },
  { id: "origin", name: "From", width: "88px", isWide: true, cell: ({ origin }) => (origin === "api" ? "made here" : "config file") },
  { id: "error", name: "State", width: "minmax(96px, 2fr)", cell: ({ error }) => (error === null ? <Badge tone="good">usable</Badge> : <span className="fault text">{inOneLine(error, 300)}</span>) },
  { id: "tokens", name: "Tokens", width: "72px", isNumber: true, cell: (model) => (model.input_tokens + model.output_tokens).toLocaleString() },
];

export function Models(): ReactNode {
  const { data, error, mutate } = useData<{ models: ModelRecord[] }>("/api/v1/models", { every: 15_000 });
  const [isMaking, setIsMaking] = useState(false);
  useActions([{ name: "Add a model", key: "n", run: () => setIsMaking(true) }]);
  return (
    <>
      <div className="actions start">
        <button type="button" className="primary" onClick={() => setIsMaking(true)}>
          <Icon name="plus" /> Add a model
        </button>
      </div>
      <DataTable
        label="Models"
        columns={COLUMNS}
        rows={data?.models}
        rowKey={({ name }) => name}
        hrefOf={({ name }) => `/settings/models/${encodeURIComponent(name)}`}
        error={error}
        onRetry={() => void mutate()}
        empty={
          <Empty title="No models yet">
            Add one here, or to the config: <code>[models.NAME]</code> with <code>provider</code> and <code>model</code>. Agents and responses need one.
          </Empty>
        }
      />
      <Dialog title="Add a model" isOpen={isMaking} onClose={() => setIsMaking(false)} isWide>
        <ModelForm
          onSaved={(name) => {
            toast(`Model ${name} made`);
            void mutate();
            go(`/settings/models/${encodeURIComponent(name)}`);
          }}
        />
      </Dialog>
    </>
  );
}

/** One model: a test with one short question, and a playground. */
export function ModelPage({ name }: { name: string }): ReactNode {
  const path = `/api/v1/models/${encodeURIComponent(name)}`;
  const { data, error, mutate } = useData<{ model: ModelRecord }>(path, { every: 15_000 });
  const [open, setOpen] = useState<"edit" | "remove" | null>(null);
  const test = useAction();
  const [result, setResult] = useState<ModelTest | null>(null);
  if (data === undefined) {
    if (error?.status === 404) return <Empty title="There is no such model">{error.message}</Empty>;
    return error === undefined ? <Loading what="the model" /> : <Fault error={error} onRetry={() => void mutate()} />;
  }
  const { model } = data;
  return (
    <>
      <h2>{inOneLine(name, 64)}</h2>
      <Facts
        facts={[
          ["Provider", inOneLine(model.provider ?? "", 60)],
          ["Called", inOneLine(model.model ?? "", 80)],
          ["Server", inOneLine(model.base_url ?? "", 200)],
          ["From", model.origin === "api" ? "made here" : "config file"],
          ["Read since the start", `${model.input_tokens.toLocaleString()} tokens`],
          ["Written since the start", `${model.output_tokens.toLocaleString()} tokens`],
        ]}
      />
      {model.error !== null && <p className="fault text">{safeText(model.error, 2000)}</p>}
      <div className="actions start">
        <button type="button" disabled={test.isBusy} onClick={() => void test.run(async () => (setResult(await client.post<ModelTest>(`${path}/test`)), await mutate()))}>
          {test.isBusy ? "Asking …" : "Test"}
        </button>
        {model.settings !== null && (
          <>
            <button type="button" onClick={() => setOpen("edit")}>
              <Icon name="edit" /> Edit
            </button>
            <button type="button" className="danger" onClick={() => setOpen("remove")}>
              <Icon name="bin" /> Remove
            </button>
          </>
        )}
      </div>
      {test.fault !== null && <Fault error={test.fault} />}
      {result !== null && <Answered result={result} />}
      <Playground model={name} onAnswered={() => void mutate()} />
      {model.settings !== null && (
        <Section title="Settings">
          <div className="json">
            <Tree value={model.settings} />
          </div>
        </Section>
      )}
      <Dialog title={`Edit ${inOneLine(name, 64)}`} isOpen={open === "edit"} onClose={() => setOpen(null)} isWide>
        {model.settings !== null && (
          <ModelForm
            edited={{ name, settings: model.settings }}
            onSaved={() => {
              setOpen(null);
              toast(`Model ${name} changed`);
              void mutate();
            }}
          />
        )}
      </Dialog>
      <Confirm
        title={`Remove ${inOneLine(name, 64)}?`}
        verb="Remove"
        isDanger
        isOpen={open === "remove"}
        onClose={() => setOpen(null)}
        onConfirm={async () => {
          await client.delete(path);
          toast(`Model ${name} removed`);
          go("/settings/models");
        }}
      >
        <p>Agents and responses that name it fail from now on. What runs ends with it.</p>
      </Confirm>
    </>
  );
}

function Answered({ result }: { result: ModelTest }): ReactNode {
  return (
    <p role="status" className={result.ok ? "tested" : "tested trouble"} aria-label="Result of the test">
      {result.ok ? (
        <span className="text">
          <Badge tone="good">answers</Badge> “{safeText(result.text, 1000)}” in <Duration ms={result.milliseconds} />
        </span>
      ) : (
        <span className="text">
          <Badge tone="bad">does not answer</Badge> {safeText(result.error ?? "", 2000)}
        </span>
      )}
    </p>
  );
}

interface ModelDraft {
  name: string;
  provider: string;
  base_url: string;
  model: string;
  api_key: string;
  more: string;
}

const EMPTY: ModelDraft = { name: "", provider: "openai", base_url: "", model: "", api_key: "", more: "" };
const FIELDS = ["provider", "base_url", "model", "api_key"] as const;

function ModelForm({ edited, onSaved }: { edited?: { name: string; settings: Body }; onSaved: (name: string) => void }): ReactNode {
  const [before] = useState(() => (edited === undefined ? EMPTY : draftOf(edited.name, edited.settings)));
  const [draft, setDraft] = useState(before);
  const [result, setResult] = useState<{ of: string; found: ModelTest } | null>(null);
  const test = useAction();
  const save = useAction();
  const set = (change: Partial<ModelDraft>): void => setDraft({ ...draft, ...change });
  const current = JSON.stringify(draft);
  const isTested = result?.of === current;
  const isHidden = hasHidden(draft);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void save.run(async () => {
      const body = bodyOf(draft);
      if (edited === undefined) await client.post("/api/v1/models", { name: draft.name.trim(), ...body });
      else await client.patch(`/api/v1/models/${encodeURIComponent(edited.name)}`, patchOf(bodyOf(before), body));
      onSaved(draft.name.trim());
    });
  };
  return (
    <form className="source-form" onSubmit={submit}>
      {edited === undefined && (
        <Field label="Name" hint="As agents and requests name it.">
          <input value={draft.name} required maxLength={64} autoComplete="off" onChange={(event) => set({ name: event.target.value })} />
        </Field>
      )}
      <Field label="Provider" hint="openai is every server that speaks its Chat Completions.">
        <input value={draft.provider} required autoComplete="off" onChange={(event) => set({ provider: event.target.value })} />
      </Field>
      <Field label="Server" hint="Its base URL, such as https://api.example.org/v1.">
        <input className="code" value={draft.base_url} spellCheck={false} autoComplete="off" onChange={(event) => set({ base_url: event.target.value })} />
      </Field>
      <Field label="Model" hint="What the server calls it.">
        <input className="code" value={draft.model} spellCheck={false} autoComplete="off" onChange={(event) => set({ model: event.target.value })} />
      </Field>
      <Field label="Key" hint="Name a secret as ${NAME}; its value is asked for below.">
        <input className="code" value={draft.api_key} spellCheck={false} autoComplete="off" onChange={(event) => set({ api_key: event.target.value })} />
      </Field>
      <details open={draft.more !== ""}>
        <summary>Other fields</summary>
        <Field label="Other fields as JSON" hint="As in [models.NAME] of the config.">
          <textarea className="code" rows={3} value={draft.more} spellCheck={false} onChange={(event) => set({ more: event.target.value })} />
        </Field>
      </details>
      <NamedSecrets names={variablesIn(draft)} />
      {test.fault !== null && <Fault error={test.fault} />}
      {result !== null && <Answered result={result.found} />}
      {save.fault !== null && <Fault error={save.fault} />}
      <div className="actions">
        {!isHidden && (
          <button
            type="button"
            className={isTested ? "" : "primary"}
            disabled={test.isBusy}
            onClick={() => void test.run(async () => setResult({ of: current, found: await client.post<ModelTest>("/api/v1/models/test", { name: draft.name.trim() || "test", ...bodyOf(draft) }) }))}
          >
            {test.isBusy ? "Asking …" : "Test"}
          </button>
        )}
        <button type="submit" className={isTested || isHidden ? "primary" : ""} disabled={save.isBusy || (edited === undefined && !isTested)}>
          {isTested && !result.found.ok ? "Save anyway" : "Save"}
        </button>
      </div>
    </form>
  );
}

function draftOf(name: string, settings: Body): ModelDraft {
  const text = (key: string): string => (typeof settings[key] === "string" ? (settings[key] as string) : "");
  const more = Object.fromEntries(Object.entries(settings).filter(([key]) => !FIELDS.some((field) => field === key)));
  return { name, provider: text("provider"), base_url: text("base_url"), model: text("model"), api_key: text("api_key"), more: Object.keys(more).length === 0 ? "" : JSON.stringify(more, null, 2) };
}

function bodyOf(draft: ModelDraft): Body {
  const given = Object.fromEntries(FIELDS.map((field) => [field, draft[field].trim()] as const).filter(([, value]) => value !== ""));
  if (draft.more.trim() === "") return given;
  try {
    return { ...given, ...(JSON.parse(draft.more) as Body) };
  } catch (fault) {
    throw new Error(`The other fields are not valid JSON: ${(fault as Error).message}`);
  }
}
