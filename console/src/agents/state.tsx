/**
 * What an agent remembers, wants and plans, edited in place: each list is sent back as a whole. What an editor does not
 * show of an entry (ids, times) is sent back as it was. If the agent changes the list meanwhile, the gateway's answer to
 * saving shows what it is then.
 */
import { useContext, useState, type FormEvent, type ReactNode } from "react";
import { client, useData } from "../data";
import { IdentityContext } from "../identity";
import { Icon } from "../parts/icon";
import { Fault, Section } from "../parts/states";
import { toast } from "../parts/toast";
import { LongText } from "../parts/tree";
import { Unsaved } from "../parts/unsaved";
import { clock } from "../time";

type Entry = Record<string, unknown>;
export type What = "memories" | "goals" | "plans";

interface Field {
  name: string;
  label: string;
  kind: "line" | "text" | "number" | readonly string[];
  isOptional?: boolean;
}

const SHAPES: Record<What, { one: string; fields: readonly Field[]; line: (entry: Entry) => string }> = {
  memories: {
    one: "memory",
    fields: [
      { name: "key", label: "Key", kind: "line" },
      { name: "value", label: "Value", kind: "text" },
    ],
    line: (memory) => `${String(memory["key"])}: ${String(memory["value"])}`,
  },
  goals: {
    one: "goal",
    fields: [
      { name: "description", label: "Goal", kind: "text" },
      { name: "status", label: "Status", kind: "line", isOptional: true },
      { name: "priority", label: "Priority", kind: "number", isOptional: true },
    ],
    line: (goal) => `${String(goal["description"])} (${String(goal["status"])}, priority ${String(goal["priority"])})`,
  },
  plans: {
    one: "plan",
    fields: [
      { name: "name", label: "Name", kind: "line" },
      { name: "instruction", label: "What it is told", kind: "text", isOptional: true },
      { name: "cron", label: "Cron", kind: "line", isOptional: true },
      { name: "scheduledAt", label: "Once, at (ISO 8601)", kind: "line", isOptional: true },
      { name: "timeZone", label: "Time zone", kind: "line", isOptional: true },
    ],
    line: (plan) => `${String(plan["name"])}: ${String(plan["instruction"])} (${planned(plan)})`,
  },
};

function planned(plan: Entry): string {
  const next = plan["nextRunAt"];
  if (typeof next !== "string") return String(plan["status"]);
  return `${typeof plan["cron"] === "string" ? `cron ${plan["cron"]}, ` : ""}next ${clock(next)}`;
}

export function AgentState({ path, what, agent }: { path: string; what: What; agent: string }): ReactNode {
  const { one, line } = SHAPES[what];
  const [isOpen, setIsOpen] = useState(false);
  const { data, mutate } = useData<Record<What, Entry[]>>(`${path}/${what}`, { every: isOpen ? 0 : 5000 });
  const scopes = useContext(IdentityContext)?.scopes ?? [];
  const may = scopes.includes("admin") || scopes.includes(`agent:${agent}`);
  const found = data?.[what];
  const title = what[0]!.toUpperCase() + what.slice(1);
  const actions = may && !isOpen && found !== undefined && (
    <button type="button" className="small" onClick={() => setIsOpen(true)}>
      Edit {what}
    </button>
  );
  return (
    <Section title={title} count={isOpen ? undefined : found?.length} nothing={`No ${what}.`} actions={actions}>
      {isOpen && found !== undefined ? (
        <Editor path={path} what={what} one={one} entries={found} onDone={(now) => (setIsOpen(false), void mutate(now, { revalidate: false }))} onCancel={() => setIsOpen(false)} />
      ) : (
        found?.map((entry, place) => (
          <div key={place} className="fact">
            <LongText text={line(entry)} />
          </div>
        ))
      )}
    </Section>
  );
}

interface Editing {
  path: string;
  what: What;
  one: string;
  entries: Entry[];
  onDone: (now: Record<What, Entry[]>) => void;
  onCancel: () => void;
}

function Editor({ path, what, one, entries, onDone, onCancel }: Editing): ReactNode {
  const { fields } = SHAPES[what];
  const [draft, setDraft] = useState<readonly Entry[]>(entries);
  const [before] = useState(entries);
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const isChanged = draft !== before;
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setIsBusy(true);
    try {
      const now = await client.put<Record<What, Entry[]>>(`${path}/${what}`, { [what]: draft.map(withoutEmpty) });
      toast(`The ${what} are saved.`);
      onDone(now);
    } catch (refusal) {
      setFault(refusal as Error);
      setIsBusy(false);
    }
  };
  const change = (place: number, name: string, value: unknown): void => setDraft(draft.map((entry, here) => (here === place ? { ...entry, [name]: value } : entry)));
  return (
    <form className="stack-small agent-form" aria-label={`Edit ${what}`} onSubmit={(event) => void save(event)}>
      {draft.map((entry, place) => (
        <fieldset key={place} className="agent-entry">
          <legend className="hidden">
            {one} {place + 1}
          </legend>
          {fields.map((field) => (
            <Input key={field.name} field={field} value={entry[field.name]} onChange={(value) => change(place, field.name, value)} />
          ))}
          <button type="button" className="bare" aria-label={`Remove ${one} ${place + 1}`} onClick={() => setDraft(draft.filter((_, here) => here !== place))}>
            <Icon name="close" />
          </button>
        </fieldset>
      ))}
      {fault !== null && <Fault error={fault} />}
      <div className="actions">
        <button type="button" onClick={() => setDraft([...draft, {}])}>
          Add a {one}
        </button>
        <Unsaved isDirty={isChanged && !isBusy} />
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={isBusy || !isChanged}>
          Save
        </button>
      </div>
    </form>
  );
}

function Input({ field: { label, kind, isOptional }, value, onChange }: { field: Field; value: unknown; onChange: (value: unknown) => void }): ReactNode {
  const text = value === null || value === undefined ? "" : String(value);
  const isRequired = isOptional !== true;
  return (
    <label className={kind === "text" ? "wide" : ""}>
      {label}
      {kind === "text" ? (
        <textarea rows={Math.min(8, 1 + text.split("\n").length)} value={text} required={isRequired} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input type={kind === "number" ? "number" : "text"} value={text} required={isRequired} onChange={(event) => onChange(kind === "number" ? (event.target.value === "" ? null : Number(event.target.value)) : event.target.value)} />
      )}
    </label>
  );
}

/** An empty field says nothing. */
function withoutEmpty(entry: Entry): Entry {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== "" && value !== null));
}
