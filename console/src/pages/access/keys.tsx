import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { go, linkTo } from "../../address";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Confirm, Dialog } from "../../parts/dialog";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Moment } from "../../parts/moment";
import { Empty, Fault, Loading } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { Traffic } from "../../parts/traffic";
import { toast } from "../../parts/toast";
import { inOneLine } from "../../safe-text";
import { useActions } from "../../shortcuts";
import type { SwitchRecord } from "../sources/records";
import { NewKey, ShownOnce } from "./new-key";

export interface KeyRecord {
  name: string;
  scopes: string[];
  tools: string[] | null;
  groups: string[] | null;
  agents: string[] | null;
  spaces: string[] | null;
  budget: number | null;
  origin: "config" | "api" | "file";
  created_at: string | null;
  created_by: string | null;
  expires_at: string | null;
  rotated_at: string | null;
  old_key_until: string | null;
  key?: string;
}

const FROM: Record<string, string> = { config: "config file", api: "made here", file: "admin.key" };
const GRACES: readonly (readonly [number, string])[] = [
  [0, "at once"],
  [3600, "in an hour"],
  [86_400, "in a day"],
  [604_800, "in a week"],
];

interface Row extends KeyRecord {
  /** Of the last 24 hours; undefined while that is not known. */
  calls: number | undefined;
}

const COLUMNS: Column<Row>[] = [
  { id: "name", name: "Key", width: "minmax(120px, 1fr)", sortBy: ({ name }) => name, cell: ({ name }) => <strong className="one-line">{inOneLine(name, 64)}</strong> },
  { id: "scopes", name: "Scopes", width: "minmax(100px, 1fr)", cell: ({ scopes }) => <span className="one-line">{inOneLine(scopes.join(", "), 300)}</span> },
  { id: "limits", name: "Limited to", width: "minmax(100px, 2fr)", isWide: true, cell: (key) => <span className="one-line quiet">{inOneLine(limitsOf(key).join("; ") || "nothing", 300)}</span> },
  { id: "origin", name: "From", width: "96px", isWide: true, sortBy: ({ origin }) => origin, cell: ({ origin }) => FROM[origin] ?? origin },
  {
    id: "calls",
    name: "Calls, 24 h",
    width: "96px",
    isNumber: true,
    isWide: true,
    sortBy: ({ calls }) => calls ?? 0,
    cell: ({ name, calls }) => (calls === undefined ? <span className="quiet">–</span> : calls === 0 ? "0" : <Link href={linkTo("/calls", { principal: name, range: 1440 })}>{calls.toLocaleString()}</Link>),
  },
  { id: "at", name: "Made", width: "112px", isNumber: true, isWide: true, sortBy: ({ created_at }) => created_at ?? "", cell: ({ created_at }) => <Moment at={created_at} /> },
  { id: "until", name: "Expires", width: "112px", isNumber: true, sortBy: ({ expires_at }) => expires_at ?? "", cell: ({ expires_at }) => (expires_at === null ? "never" : <Moment at={expires_at} />) },
];

export function limitsOf({ tools, groups, agents, spaces, budget }: KeyRecord): string[] {
  const list = (what: string, names: string[] | null): string[] => (names === null ? [] : [names.length === 0 ? `no ${what}` : `${what} ${names.join(", ")}`]);
  return [...list("tools", tools), ...list("groups", groups), ...list("agents", agents), ...list("spaces", spaces), ...(budget === null ? [] : [`${budget.toLocaleString()} cost points an hour`])];
}

export function Keys(): ReactNode {
  const { data, error, mutate } = useData<{ keys: KeyRecord[] }>("/api/v1/keys", { every: 15_000 });
  const { data: day } = useData<{ principals: { name: string; calls: number }[] }>("/api/v1/overview?minutes=1440", { every: 30_000 });
  const rows = data?.keys.map((key): Row => ({ ...key, calls: day === undefined ? undefined : (day.principals.find(({ name }) => name === key.name)?.calls ?? 0) }));
  const [isMaking, setIsMaking] = useState(false);
  useActions([{ name: "Create a key", key: "n", run: () => setIsMaking(true) }]);
  const close = (): void => {
    setIsMaking(false);
    void mutate();
  };
  return (
    <>
      <div className="actions start">
        <button type="button" className="primary" onClick={() => setIsMaking(true)}>
          <Icon name="plus" /> Create a key
        </button>
      </div>
      <DataTable
        label="Keys"
        columns={COLUMNS}
        rows={rows}
        rowKey={({ name }) => name}
        hrefOf={({ name }) => `/access/keys/${encodeURIComponent(name)}`}
        error={error}
        onRetry={() => void mutate()}
        empty={<Empty title="No keys" />}
      />
      <Dialog title="Create a key" isOpen={isMaking} onClose={close} isWide>
        <NewKey onClose={close} />
      </Dialog>
    </>
  );
}

/** One key: what it may do, its calls, a new secret for it, and its end. */
export function KeyPage({ name }: { name: string }): ReactNode {
  const { data, error, mutate } = useData<{ keys: KeyRecord[] }>("/api/v1/keys", { every: 15_000 });
  if (data === undefined) return error === undefined ? <Loading what="the key" /> : <Fault error={error} onRetry={() => void mutate()} />;
  const key = data.keys.find((one) => one.name === name);
  if (key === undefined) return <Empty title="There is no such key">It may have been revoked or have expired.</Empty>;
  const limits = limitsOf(key);
  return (
    <>
      <h2 className="with-marks">
        {inOneLine(name, 64)} <OffBadge name={name} />
      </h2>
      <Facts
        facts={[
          ["Scopes", inOneLine(key.scopes.join(", "), 500)],
          ["Limited to", limits.length === 0 ? "nothing: all that its scopes allow" : inOneLine(limits.join("; "), 2000)],
          ["From", FROM[key.origin] ?? key.origin],
          ["Made by", key.created_by === null ? null : inOneLine(key.created_by, 100)],
          ["Made", key.created_at === null ? null : <Moment at={key.created_at} />],
          ["Expires", key.expires_at === null ? "never" : <Moment at={key.expires_at} />],
          ["Rotated", key.rotated_at === null ? null : <Moment at={key.rotated_at} />],
          ["Old key good until", key.old_key_until === null ? null : <Moment at={key.old_key_until} />],
        ]}
      />
      <p>
        <Link href={linkTo("/calls", { principal: name })}>Its calls</Link> · <Link href={linkTo("/access/audit", { actor: name })}>What it changed</Link>
      </p>
      <Traffic of="principal" name={name} />
      <KeyActions record={key} onChanged={() => void mutate()} />
    </>
  );
}

function useKeySwitch(name: string): { off: SwitchRecord | undefined; refresh: () => Promise<unknown> } {
  const { data, mutate } = useData<{ switches: SwitchRecord[] }>("/api/v1/switches", { every: 15_000 });
  return { off: data?.switches.find((one) => one.kind === "key" && one.name === name), refresh: () => mutate() };
}

function OffBadge({ name }: { name: string }): ReactNode {
  const { off } = useKeySwitch(name);
  return off === undefined ? null : <Badge tone="none">off, by {inOneLine(off.by ?? "", 60)}</Badge>;
}

function KeyActions({ record, onChanged }: { record: KeyRecord; onChanged: () => void }): ReactNode {
  const { name, origin } = record;
  const [open, setOpen] = useState<"rotate" | "revoke" | null>(null);
  const { off, refresh } = useKeySwitch(name);
  const flip = useAction();
  const path = `/api/v1/keys/${encodeURIComponent(name)}`;
  const set = (enabled: boolean): void => void flip.run(async () => (await client.put(`/api/v1/switches/key/${encodeURIComponent(name)}`, { enabled }), await refresh()));
  return (
    <>
      {origin === "config" && <p className="quiet">It is in the config file: change or remove it there, and reload under Settings, Config.</p>}
      <div className="actions start">
        {origin === "api" && (
          <button type="button" onClick={() => setOpen("rotate")}>
            Rotate
          </button>
        )}
        {origin !== "file" && (
          <button type="button" disabled={flip.isBusy} onClick={() => set(off !== undefined)}>
            {off === undefined ? "Switch off" : "Switch on"}
          </button>
        )}
        {origin === "api" && (
          <button type="button" className="danger" onClick={() => setOpen("revoke")}>
            Revoke
          </button>
        )}
      </div>
      {flip.fault !== null && <Fault error={flip.fault} />}
      <Dialog title={`Rotate ${inOneLine(name, 64)}`} isOpen={open === "rotate"} onClose={() => (setOpen(null), onChanged())} isWide>
        <Rotate path={path} />
      </Dialog>
      <Confirm
        title={`Revoke ${inOneLine(name, 64)}?`}
        verb="Revoke"
        isDanger
        isOpen={open === "revoke"}
        onClose={() => setOpen(null)}
        onConfirm={async () => {
          await client.delete(path);
          toast(`Key ${name} revoked`);
          go("/access/keys");
          onChanged();
        }}
      >
        <p>Requests with it are refused from now on, its logins end, and its waiting calls are cancelled. That cannot be undone.</p>
      </Confirm>
    </>
  );
}

function Rotate({ path }: { path: string }): ReactNode {
  const [grace, setGrace] = useState(3600);
  const [made, setMade] = useState<KeyRecord | null>(null);
  const rotate = useAction();
  if (made !== null) return <ShownOnce made={made} />;
  return (
    <form
      className="stack-small"
      onSubmit={(event) => {
        event.preventDefault();
        void rotate.run(async () => setMade(await client.post<KeyRecord>(`${path}/rotate`, { grace })));
      }}
    >
      <Field label="The old key ends" hint="Until then both are good.">
        <select value={grace} onChange={(event) => setGrace(Number(event.target.value))}>
          {GRACES.map(([seconds, words]) => (
            <option key={seconds} value={seconds}>
              {words}
            </option>
          ))}
        </select>
      </Field>
      {rotate.fault !== null && <Fault error={rotate.fault} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={rotate.isBusy}>
          Rotate
        </button>
      </div>
    </form>
  );
}
