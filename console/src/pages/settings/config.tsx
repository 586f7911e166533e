import { useMemo, useState, type ReactNode } from "react";
import { useFilters } from "../../address";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge, type Tone } from "../../parts/badge";
import { Choose, FilterBar, Search } from "../../parts/filters";
import { Icon } from "../../parts/icon";
import { Moment } from "../../parts/moment";
import { Empty, Fault, Skeleton } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { inOneLine, safeText } from "../../safe-text";
import { useActions } from "../../shortcuts";
import { unitOf, type ConfigRecord, type ConfigValue } from "./values";

interface Reloaded {
  added: string[];
  removed: string[];
  changed: string[];
  restart_needed: string[];
}

const ORIGINS: Record<ConfigValue["origin"], readonly [Tone, string]> = {
  file: ["good", "file"],
  default: ["none", "default"],
  environment: ["busy", "environment"],
  command_line: ["busy", "command line"],
  api: ["wait", "made here"],
};

/** The config in force: every value with where it comes from, and reading the file anew. */
export function Config(): ReactNode {
  const { data, error, mutate } = useData<ConfigRecord>("/api/v1/config", { every: 15_000 });
  const filters = useFilters(["q", "origin"]);
  const { q, origin } = filters.values;
  const found = useMemo(() => data?.values.filter((one) => fits(one, q) && (origin === "" || one.origin === origin)), [data, q, origin]);
  if (data === undefined) return error === undefined ? <Skeleton what="Config" /> : <Fault error={error} onRetry={() => void mutate()} />;
  const differs = Object.entries(data.differs);
  return (
    <>
      <p>
        {data.path === null ? "There is no config file." : <code className="text">{inOneLine(data.path, 300)}</code>}{" "}
        <span className="quiet">
          in force since <Moment at={data.read_at} />
        </span>
      </p>
      {data.error !== null && (
        <p className="notice" role="alert">
          <Icon name="warning" /> <span className="text">The file was read since and is not in force: {safeText(data.error, 2000)}</span>
        </p>
      )}
      {data.restart_needed.length > 0 && (
        <p className="notice" role="status">
          <Icon name="refresh" /> <span>Different in the file, and in force after a restart only: {inOneLine(data.restart_needed.join(", "), 1000)}</span>
        </p>
      )}
      {differs.map(([gateway, tables]) => (
        <p key={gateway} className="notice" role="status">
          <Icon name="warning" />{" "}
          <span>
            Gateway {inOneLine(gateway, 60)} of this database has another config in {inOneLine(tables.join(", "), 500)}.
          </span>
        </p>
      ))}
      <Reload onReloaded={() => void mutate()} />
      <FilterBar filters={filters}>
        <Search name="q" label="Search keys and values" filters={filters} />
        <Choose name="origin" label="Origin" any="All origins" options={Object.entries(ORIGINS).map(([id, [, words]]) => [id, words] as const)} filters={filters} />
      </FilterBar>
      <Values values={found ?? []} label="Config in force" empty={<Empty title="No value matches the filters" />} />
    </>
  );
}

const COLUMNS: Column<ConfigValue>[] = [
  { id: "key", name: "Key", width: "minmax(96px, 2fr)", cell: ({ key }) => <code className="text">{inOneLine(key, 200)}</code> },
  { id: "value", name: "Value", width: "minmax(80px, 3fr)", cell: ({ key, value }) => <Value value={value} unit={unitOf(key)} /> },
  {
    id: "origin",
    name: "Origin",
    width: "128px",
    cell: ({ origin, given_by }) => (
      <span className="with-marks">
        <Badge tone={ORIGINS[origin][0]}>{ORIGINS[origin][1]}</Badge>
        {given_by !== null && <code className="one-line quiet">{inOneLine(given_by, 60)}</code>}
      </span>
    ),
  },
];

export function Values({ values, label, empty }: { values: readonly ConfigValue[]; label: string; empty: ReactNode }): ReactNode {
  return <DataTable label={label} columns={COLUMNS} rows={values} rowKey={({ key, origin }) => `${key} ${origin}`} empty={empty} />;
}

function Value({ value, unit }: { value: unknown; unit: string }): ReactNode {
  if (typeof value === "number" && unit !== "") {
    return (
      <span>
        <code>{value >= 10_000 ? value.toLocaleString() : value}</code> <span className="quiet">{unit}</span>
      </span>
    );
  }
  if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) return <span className="quiet">{value === null ? "not set" : "empty"}</span>;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text.length <= 160) return <code className="text">{inOneLine(text, 200)}</code>;
  return (
    <details>
      <summary className="one-line">{inOneLine(text, 100)}</summary>
      <pre className="code" tabIndex={0} aria-label="The whole value">{safeText(typeof value === "string" ? value : JSON.stringify(value, null, 2), 100_000)}</pre>
    </details>
  );
}

function fits({ key, value }: ConfigValue, words: string): boolean {
  return words === "" || `${key} ${JSON.stringify(value)}`.toLowerCase().includes(words.toLowerCase());
}

function Reload({ onReloaded }: { onReloaded: () => void }): ReactNode {
  const reload = useAction();
  const [changes, setChanges] = useState<Reloaded | null>(null);
  const run = async (): Promise<void> => {
    setChanges(null);
    await reload.run(async () => setChanges(await client.post<Reloaded>("/api/v1/config/reload")));
    onReloaded();
  };
  useActions([{ name: "Reload the config file", run: () => void run() }]);
  return (
    <div className="reload">
      <button type="button" disabled={reload.isBusy} onClick={() => void run()}>
        <Icon name="refresh" /> {reload.isBusy ? "Reading …" : "Reload the file"}
      </button>
      {reload.fault !== null && (
        <div>
          <p className="quiet">Nothing was changed.</p>
          <Fault error={reload.fault} />
        </div>
      )}
      {changes !== null && <Changed changes={changes} />}
    </div>
  );
}

function Changed({ changes }: { changes: Reloaded }): ReactNode {
  const lines = [
    ["Added", changes.added],
    ["Removed", changes.removed],
    ["Changed", changes.changed],
    ["In force after a restart only", changes.restart_needed],
  ] as const;
  const said = lines.filter(([, names]) => names.length > 0);
  return (
    <div role="status" aria-label="What the reload changed">
      {said.length === 0 && <p>Nothing is different.</p>}
      {said.map(([words, names]) => (
        <p key={words}>
          {words}: <code className="text">{inOneLine(names.join(", "), 2000)}</code>
        </p>
      ))}
    </div>
  );
}
