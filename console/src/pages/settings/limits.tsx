import { type ReactNode } from "react";
import { Link } from "wouter";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Moment } from "../../parts/moment";
import { Empty, Fault, Section } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { toast } from "../../parts/toast";
import { inOneLine } from "../../safe-text";
import type { SwitchRecord } from "../sources/records";
import { Values } from "./config";
import type { ConfigRecord } from "./values";

const LIMIT = /(^|\.)(budget|rate_limit_per_minute|max_[a-z_]+|timeout|call_timeout|connect_timeout|idle_timeout|retries|keep|large_result|memory(_mb)?|cpu|file_size|processes|four_eyes|commands|search_tools_above|models_search_above)$/;
const PLACES: Record<SwitchRecord["kind"], (name: string) => string> = {
  tool: (name) => `/tools/${encodeURIComponent(name)}`,
  source: (name) => `/sources/${encodeURIComponent(name)}`,
  key: (name) => `/access/keys/${encodeURIComponent(name)}`,
};

/** What is off for everybody, and every limit in force. */
export function Limits(): ReactNode {
  const { data, error, mutate } = useData<{ switches: SwitchRecord[] }>("/api/v1/switches", { every: 5000 });
  const { data: config, error: fault, mutate: again } = useData<ConfigRecord>("/api/v1/config", { every: 15_000 });
  const columns: Column<SwitchRecord>[] = [
    { id: "kind", name: "What", width: "72px", cell: ({ kind }) => kind },
    { id: "name", name: "Name", width: "minmax(120px, 1fr)", cell: ({ kind, name }) => <Link href={PLACES[kind](name)}>{inOneLine(name, 80)}</Link> },
    { id: "reason", name: "Reason", width: "minmax(100px, 2fr)", isWide: true, cell: ({ reason }) => <span className="text">{inOneLine(reason ?? "", 500)}</span> },
    { id: "by", name: "By", isWide: true, cell: ({ by }) => inOneLine(by ?? "", 80) },
    { id: "at", name: "Since", width: "112px", isNumber: true, isWide: true, cell: ({ at }) => <Moment at={at} /> },
    { id: "on", name: "Switch", width: "112px", isNumber: true, cell: (one) => <SwitchOn one={one} onDone={() => void mutate()} /> },
  ];
  return (
    <>
      <Section title="Off for everybody">
        <DataTable
          label="Off for everybody"
          columns={columns}
          rows={data?.switches}
          rowKey={({ kind, name }) => `${kind} ${name}`}
          error={error}
          onRetry={() => void mutate()}
          empty={<p className="quiet">Nothing is. A tool, a source or a key is switched off on its own page.</p>}
        />
      </Section>
      <Section title="Limits in force">
        {config === undefined && fault !== undefined && <Fault error={fault} onRetry={() => void again()} />}
        {config !== undefined && <Values values={config.values.filter(({ key }) => LIMIT.test(key))} empty={<Empty title="No limits" />} label="Limits" />}
      </Section>
    </>
  );
}

function SwitchOn({ one, onDone }: { one: SwitchRecord; onDone: () => void }): ReactNode {
  const flip = useAction();
  return (
    <>
      <button
        type="button"
        className="small"
        disabled={flip.isBusy}
        onClick={() =>
          void flip.run(async () => {
            await client.put(`/api/v1/switches/${one.kind}/${encodeURIComponent(one.name)}`, { enabled: true });
            toast(`${one.kind} ${one.name} is on for everybody`);
            onDone();
          })
        }
      >
        Switch on
      </button>
      {flip.fault !== null && <Fault error={flip.fault} />}
    </>
  );
}
