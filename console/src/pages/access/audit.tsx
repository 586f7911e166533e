import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { linkTo, useFilters } from "../../address";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Json } from "../../parts/code";
import { Choose, FilterBar, Search } from "../../parts/filters";
import { Icon } from "../../parts/icon";
import { Moment } from "../../parts/moment";
import { Pager, useCursor } from "../../parts/pager";
import { Empty, Fault, Skeleton } from "../../parts/states";
import { TimeRange, useTimeRange } from "../../parts/time-range";
import { counted, inOneLine, safeText } from "../../safe-text";
import { sideBySide } from "../sources/side-by-side";

interface AuditEntry {
  id: string;
  at: string;
  actor: string;
  action: string;
  subject: string;
  before: unknown;
  after: unknown;
  hash: string;
  gateway: string;
  number: number;
}

interface Verified {
  entries: number;
  chains: number;
  checkpoints: number;
  faults: string[];
  heads: { gateway: string; number: number; hash: string }[];
}

const ABOUT = ["call", "config", "connection", "definition", "gateway", "group", "key", "login", "model", "secret", "source", "tool", "user", "vault"];
const ACTIONS = ABOUT.map((about) => [`${about}.*`, about] as const);

/** Who changed what, newest first; filters in the address, each entry with its before and after. */
export function Audit(): ReactNode {
  const filters = useFilters(["actor", "action"]);
  const time = useTimeRange({ standard: null });
  const cursor = useCursor();
  const wanted = { ...filters.values, since: time.since, until: time.until };
  const { data, error, mutate } = useData<{ audit: AuditEntry[]; next_cursor: string | null }>(linkTo("/api/v1/audit", { ...wanted, limit: 50, cursor }), { every: cursor === "" ? 5000 : 0 });
  return (
    <>
      <FilterBar filters={filters}>
        <Search name="actor" label="Who" filters={filters} />
        <Choose name="action" label="What" any="All actions" options={ACTIONS} filters={filters} />
        <TimeRange time={time} />
        <a className="button" href={linkTo("/api/v1/audit/export", wanted)} download="audit.jsonl">
          <Icon name="download" /> Export
        </a>
      </FilterBar>
      <Verify />
      {data === undefined && error === undefined && <Skeleton what="Audit log" />}
      {data === undefined && error !== undefined && <Fault error={error} onRetry={() => void mutate()} />}
      {data?.audit.length === 0 && <Empty title="No entries">{filters.isAny || time.since !== "" ? "Nothing matches the filters." : "Changes by administrators and refused calls appear here."}</Empty>}
      {data !== undefined && data.audit.length > 0 && (
        <ol className="audit" aria-label="Audit log">
          {data.audit.map((entry) => (
            <li key={entry.id}>
              <Entry entry={entry} />
            </li>
          ))}
        </ol>
      )}
      <Pager next={data?.next_cursor} isFirst={cursor === ""} />
    </>
  );
}

function Entry({ entry }: { entry: AuditEntry }): ReactNode {
  return (
    <details>
      <summary>
        <Moment at={entry.at} isExact /> <strong>{inOneLine(entry.actor, 80)}</strong> <code>{inOneLine(entry.action, 60)}</code> <span className="one-line">{aboutOf(entry)}</span>
      </summary>
      {entry.subject.startsWith("call_") && (
        <p>
          <Link href={`/calls/${encodeURIComponent(entry.subject)}`}>View call</Link>
        </p>
      )}
      <Difference before={entry.before} after={entry.after} />
      <p className="quiet">
        Entry {entry.number.toLocaleString()} of {inOneLine(entry.gateway, 60)}, hash <code className="text">{inOneLine(entry.hash, 80)}</code>
      </p>
    </details>
  );
}

/** What it is about: of a call its tool, and why it was refused, rather than its id. */
function aboutOf({ subject, after }: AuditEntry): string {
  const { tool, reason } = (after ?? {}) as { tool?: unknown; reason?: unknown };
  if (!subject.startsWith("call_") || typeof tool !== "string") return inOneLine(subject, 160);
  return inOneLine(typeof reason === "string" ? `${tool}: ${reason}` : tool, 240);
}

/** One value as it is; two as what is different between them. */
function Difference({ before, after }: { before: unknown; after: unknown }): ReactNode {
  if (before === null && after === null) return <p className="quiet">It has no values before or after.</p>;
  if (before === null || after === null) return <Json value={before ?? after} label={before === null ? "After" : "Before"} />;
  const lines = sideBySide(JSON.stringify(before, null, 2).split("\n"), JSON.stringify(after, null, 2).split("\n"));
  return (
    <pre className="diff" tabIndex={0} aria-label="Before and after">
      {lines.map(({ before: was, after: is }, place) =>
        was === is ? (
          `  ${safeText(was ?? "", 10_000)}\n`
        ) : (
          <span key={place}>
            {was !== null && <span className="removed">{`- ${safeText(was, 10_000)}\n`}</span>}
            {is !== null && <span className="added">{`+ ${safeText(is, 10_000)}\n`}</span>}
          </span>
        ),
      )}
    </pre>
  );
}

/** Reads the whole log and checks that no entry was changed, removed or forged. */
function Verify(): ReactNode {
  const verify = useAction();
  const [found, setFound] = useState<Verified | null>(null);
  return (
    <div className="verify" role="status">
      <button type="button" disabled={verify.isBusy} onClick={() => void verify.run(async () => setFound(await client.post<Verified>("/api/v1/audit/verify")))}>
        {verify.isBusy ? "Verifying …" : "Verify the log"}
      </button>
      {verify.fault !== null && <Fault error={verify.fault} />}
      {found !== null && found.faults.length === 0 && (
        <>
          <Badge tone="good">intact</Badge> {found.entries.toLocaleString()} entries in {counted(found.chains, "chain")}.
          {found.heads.map((head) => (
            <span key={head.hash} className="quiet">
              Head {head.number.toLocaleString()}: <code className="text">{inOneLine(head.hash, 80)}</code>
            </span>
          ))}
        </>
      )}
      {found !== null && found.faults.length > 0 && (
        <>
          <Badge tone="bad">not intact</Badge>
          <ul>
            {found.faults.map((fault) => (
              <li key={fault} className="text">
                {safeText(fault, 1000)}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
