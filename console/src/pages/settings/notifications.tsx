import { useState, type ReactNode } from "react";
import { linkTo, useFilters } from "../../address";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge, type Tone } from "../../parts/badge";
import { Json } from "../../parts/code";
import { Choose, FilterBar } from "../../parts/filters";
import { Moment } from "../../parts/moment";
import { Pager, useCursor } from "../../parts/pager";
import { Empty, Fault, Section, Skeleton } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { toast } from "../../parts/toast";
import { counted, inOneLine, safeText } from "../../safe-text";
import { took } from "../../time";

interface Target {
  name: string;
  kind: string;
  on: string[];
  waiting: number;
  oldest_seconds: number;
  failed: number;
}

interface NotificationRecord {
  id: string;
  target: string;
  type: string;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  error: string | null;
  created_at: string;
  next_attempt_at: string | null;
  finished_at: string | null;
  data: unknown;
}

const TONES: Record<string, Tone> = { pending: "busy", delivered: "good", failed: "bad" };

/** Whom the gateway tells of what; what was delivered, what failed and why. */
export function Notifications(): ReactNode {
  const { data, error, mutate } = useData<{ targets: Target[] }>("/api/v1/notifications/targets", { every: 5000 });
  const columns: Column<Target>[] = [
    { id: "name", name: "Target", width: "minmax(80px, 1fr)", cell: ({ name }) => <strong className="one-line">{inOneLine(name, 64)}</strong> },
    { id: "kind", name: "Kind", width: "80px", isWide: true, cell: ({ kind }) => kind },
    { id: "on", name: "Told of", width: "minmax(100px, 2fr)", isWide: true, cell: ({ on }) => <span className="text quiet">{inOneLine(on.join(", "), 300)}</span> },
    { id: "waiting", name: "Waiting", width: "112px", isNumber: true, isWide: true, cell: ({ waiting, oldest_seconds }) => (waiting === 0 ? "0" : `${waiting.toLocaleString()}, ${took(oldest_seconds * 1000)}`) },
    { id: "failed", name: "Failed", width: "64px", isNumber: true, cell: ({ failed }) => (failed === 0 ? "0" : <Badge tone="bad">{failed.toLocaleString()}</Badge>) },
    { id: "test", name: "Test", width: "minmax(112px, 2fr)", cell: ({ name }) => <SendTest name={name} /> },
  ];
  return (
    <>
      <DataTable
        label="Targets"
        columns={columns}
        rows={data?.targets}
        rowKey={({ name }) => name}
        error={error}
        onRetry={() => void mutate()}
        empty={
          <Empty title="Nobody is told of anything">
            Write <code>[notify.NAME]</code> with <code>kind</code>, <code>on</code> and where to send it into the config file.
          </Empty>
        }
      />
      <Delivered targets={data?.targets.map(({ name }) => name) ?? []} onRetried={() => void mutate()} />
    </>
  );
}

function SendTest({ name }: { name: string }): ReactNode {
  const test = useAction();
  const [result, setResult] = useState<{ success: boolean; error: string | null } | null>(null);
  return (
    <span className="with-marks">
      <button type="button" className="small" disabled={test.isBusy} onClick={() => void test.run(async () => setResult(await client.post(`/api/v1/notifications/targets/${encodeURIComponent(name)}/test`)))}>
        {test.isBusy ? "Sending …" : "Send a test"}
      </button>
      {result !== null && (
        <span role="status" className="text">
          {result.success ? <Badge tone="good">taken</Badge> : <Badge tone="bad">not taken</Badge>} {safeText(result.error ?? "", 500)}
        </span>
      )}
      {test.fault !== null && <Fault error={test.fault} />}
    </span>
  );
}

function Delivered({ targets, onRetried }: { targets: readonly string[]; onRetried: () => void }): ReactNode {
  const filters = useFilters(["status", "target"]);
  const cursor = useCursor();
  const { data, error, mutate } = useData<{ notifications: NotificationRecord[]; next_cursor: string | null }>(linkTo("/api/v1/notifications", { ...filters.values, limit: 50, cursor }), {
    every: cursor === "" ? 5000 : 0,
  });
  const refresh = (): void => {
    void mutate();
    onRetried();
  };
  return (
    <Section title="Notifications">
      <FilterBar filters={filters}>
        <Choose name="status" label="State" any="All states" options={["pending", "delivered", "failed"]} filters={filters} />
        <Choose name="target" label="Target" any="All targets" options={targets} filters={filters} />
      </FilterBar>
      {data === undefined && (error === undefined ? <Skeleton what="Notifications" /> : <Fault error={error} onRetry={() => void mutate()} />)}
      {data?.notifications.length === 0 && <Empty title="No notifications">{filters.isAny ? "None matches the filters." : "One is made for each event that a target is told of."}</Empty>}
      <ol className="notifications" aria-label="Notifications">
        {data?.notifications.map((one) => (
          <li key={one.id}>
            <One notification={one} onRetried={refresh} />
          </li>
        ))}
      </ol>
      <Pager next={data?.next_cursor} isFirst={cursor === ""} />
    </Section>
  );
}

function One({ notification: one, onRetried }: { notification: NotificationRecord; onRetried: () => void }): ReactNode {
  const retry = useAction();
  return (
    <details>
      <summary>
        <Moment at={one.created_at} />
        <Badge tone={TONES[one.status] ?? "none"}>{one.status}</Badge>
        <code>{inOneLine(one.type, 60)}</code>
        <span className="one-line">
          to {inOneLine(one.target, 64)}, {counted(one.attempts, "attempt")}
          {one.error !== null && `: ${inOneLine(one.error, 200)}`}
        </span>
      </summary>
      {one.error !== null && <p className="fault text">{safeText(one.error, 2000)}</p>}
      <p className="quiet">
        {one.next_attempt_at !== null && (
          <>
            Next attempt <Moment at={one.next_attempt_at} />.{" "}
          </>
        )}
        {one.finished_at !== null && (
          <>
            Ended <Moment at={one.finished_at} />.{" "}
          </>
        )}
        {one.id}
      </p>
      {one.status === "failed" && (
        <div className="actions start">
          <button
            type="button"
            disabled={retry.isBusy}
            onClick={() =>
              void retry.run(async () => {
                await client.post(`/api/v1/notifications/${encodeURIComponent(one.id)}/retry`);
                toast(`Sent again to ${one.target}`);
                onRetried();
              })
            }
          >
            Retry
          </button>
        </div>
      )}
      {retry.fault !== null && <Fault error={retry.fault} />}
      <Json value={one.data} label="What is sent" />
    </details>
  );
}
