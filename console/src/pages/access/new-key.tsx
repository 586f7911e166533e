import { useState, type FormEvent, type ReactNode } from "react";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Code } from "../../parts/code";
import { Field } from "../../parts/field";
import { Fault } from "../../parts/states";
import { inOneLine } from "../../safe-text";
import type { KeyRecord } from "./keys";

const SCOPES: readonly (readonly [string, string])[] = [
  ["read", "see tools and its own calls"],
  ["call", "call tools and post messages; includes read"],
  ["answer", "answer questions and approve calls"],
  ["admin", "everything: sources, keys, all calls, settings"],
];
const EXPIRIES: readonly (readonly [number, string])[] = [
  [0, "never"],
  [86_400, "in a day"],
  [7 * 86_400, "in a week"],
  [30 * 86_400, "in 30 days"],
  [90 * 86_400, "in 90 days"],
  [365 * 86_400, "in a year"],
];
type Limit = "tools" | "groups" | "agents" | "spaces";
const LIMITS: readonly (readonly [Limit, string])[] = [
  ["tools", "names, globs or SOURCE:*"],
  ["groups", "names of groups"],
  ["agents", "names and globs of agents"],
  ["spaces", "names and globs of spaces"],
];

/** The form of a new key, then the key itself: the only time that it is shown. */
export function NewKey({ onClose }: { onClose: () => void }): ReactNode {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly string[]>(["call"]);
  const [more, setMore] = useState("");
  const [limits, setLimits] = useState<Partial<Record<Limit, string>>>({});
  const [expires, setExpires] = useState(0);
  const [budget, setBudget] = useState("");
  const [made, setMade] = useState<KeyRecord | null>(null);
  const save = useAction();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void save.run(async () => {
      const body = {
        name: name.trim(),
        scopes: [...scopes, ...namesIn(more)],
        ...Object.fromEntries(Object.entries(limits).map(([limit, text]) => [limit, namesIn(text)])),
        ...(expires === 0 ? {} : { expires_in: expires }),
        ...(budget.trim() === "" ? {} : { budget: Number(budget) }),
      };
      setMade(await client.post<KeyRecord>("/api/v1/keys", body));
    });
  };
  if (made !== null) {
    return (
      <>
        <ShownOnce made={made} />
        <div className="actions">
          <button type="button" className="primary" onClick={onClose}>
            Done
          </button>
        </div>
      </>
    );
  }
  return (
    <form className="source-form" onSubmit={submit}>
      <Field label="Name" hint="Calls are on record under it.">
        <input value={name} required maxLength={64} autoComplete="off" autoFocus onChange={(event) => setName(event.target.value)} />
      </Field>
      <fieldset className="field-group">
        <legend>What it may do</legend>
        {SCOPES.map(([scope, about]) => (
          <label key={scope} className="check">
            <input type="checkbox" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} />
            <span>
              <strong>{scope}</strong> <span className="quiet">{about}</span>
            </span>
          </label>
        ))}
        <Field label="Other scopes" hint="agent:NAME to act as an agent, worker:GLOB to serve tools; separated by commas.">
          <input value={more} autoComplete="off" onChange={(event) => setMore(event.target.value)} />
        </Field>
      </fieldset>
      <Limits limits={limits} onLimits={setLimits} budget={budget} onBudget={setBudget} />
      <Field label="It expires">
        <select value={expires} onChange={(event) => setExpires(Number(event.target.value))}>
          {EXPIRIES.map(([seconds, words]) => (
            <option key={seconds} value={seconds}>
              {words}
            </option>
          ))}
        </select>
      </Field>
      {save.fault !== null && <Fault error={save.fault} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={save.isBusy || scopes.length + namesIn(more).length === 0}>
          Create key
        </button>
      </div>
    </form>
  );
}

interface GivenLimits {
  limits: Partial<Record<Limit, string>>;
  onLimits: (limits: Partial<Record<Limit, string>>) => void;
  budget: string;
  onBudget: (budget: string) => void;
}

function Limits({ limits, onLimits, budget, onBudget }: GivenLimits): ReactNode {
  const { data } = useData<{ groups: { name: string }[] }>("/api/v1/groups");
  const known = data?.groups.map((one) => inOneLine(one.name, 64)).join(", ") || "none";
  const set = (limit: Limit, isSet: boolean): void => {
    const { [limit]: _, ...rest } = limits;
    onLimits(isSet ? { ...limits, [limit]: "" } : rest);
  };
  return (
    <fieldset className="field-group">
      <legend>What it is limited to</legend>
      {LIMITS.map(([limit, hint]) => (
        <div key={limit}>
          <label className="check">
            <input type="checkbox" checked={limits[limit] !== undefined} onChange={(event) => set(limit, event.target.checked)} /> Only some {limit}
          </label>
          {limits[limit] !== undefined && (
            <Field label={`The ${limit}`} hint={`${hint}, separated by commas; empty is none at all.${limit === "groups" ? ` There are: ${known}.` : ""}`}>
              <input value={limits[limit]} autoComplete="off" onChange={(event) => onLimits({ ...limits, [limit]: event.target.value })} />
            </Field>
          )}
        </div>
      ))}
      <Field label="Cost points an hour" hint="Empty: no budget. A call costs 1, 5 or 25 by its tool's cost estimate.">
        <input type="number" min={0} value={budget} onChange={(event) => onBudget(event.target.value)} />
      </Field>
    </fieldset>
  );
}

export function ShownOnce({ made }: { made: KeyRecord }): ReactNode {
  return (
    <section className="shown-once" aria-label="The new key">
      <p role="status">
        This is the key of <strong>{inOneLine(made.name, 64)}</strong>. Copy it now: it is not shown again, and nobody can read it here.
      </p>
      <Code text={made.key ?? ""} label="Key" />
      <Code text={`curl -s -H "x-api-key: $KEY" ${location.origin}/api/v1/tools`} label="Try it" />
    </section>
  );
}

export function namesIn(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map((name) => name.trim())
    .filter((name) => name !== "");
}
