import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { go, linkTo, useFilters, type Filters } from "../address";
import { useConnection } from "../connection";
import { useData, type CallRecord, type Readiness } from "../data";
import { useMay } from "../identity";
import { LineChart, StackChart, Swatch } from "../parts/charts";
import { BANDS, percent, type Figures, type Named } from "../parts/figures";
import { Choose } from "../parts/filters";
import { Badge, SourceState } from "../parts/badge";
import { AsOf, Moment } from "../parts/moment";
import { Fault, Loading } from "../parts/states";
import { TimeRange, useTimeRange } from "../parts/time-range";
import { counted, inOneLine } from "../safe-text";
import { took } from "../time";
import { useWaiting } from "../waiting-list";
import "../style/overview.css";

interface AuditEntry {
  id: string;
  at: string;
  actor: string;
  action: string;
  subject: string;
}

const REFRESH_MS = 5000;

/** The first page: traffic, errors, latency, tokens; what waits, what is down, what changed. */
export default function OverviewPage(): ReactNode {
  const range = useTimeRange({ standard: 60 });
  const minutes = range.minutes ?? 60;
  const only = useOnly();
  const { data, error, mutate } = useData<Figures>(linkTo("/api/v1/overview", { minutes, ...only.values }), { every: REFRESH_MS });
  const { ready, isAway } = useConnection();
  const { data: first } = useData<{ calls: unknown[] }>(data?.total.calls === 0 ? "/api/v1/calls?limit=1" : null);
  const isEmpty = first?.calls.length === 0;
  const toCalls: ToCalls = (filters) => linkTo("/calls", { range: minutes, ...only.values, ...filters });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the overview" />;
  return (
    <div className="page">
      <header className="page-head overview-head">
        <h1>Overview</h1>
        <TimeRange time={range} withOwn={false} />
        <Only filters={only} />
        <Live asOf={data.as_of} isAway={isAway || error !== undefined} />
      </header>
      {data.of !== null && !only.isAny && <p className="quiet">Calls of {inOneLine(data.of, 80)}. Figures of all calls need the scope admin.</p>}
      {!data.complete && (
        <p className="quiet" role="status">
          Older calls are still being counted; these figures are too low.
        </p>
      )}
      {data.total.calls === 0 && isEmpty && !only.isAny ? <FirstSteps ready={ready} /> : <Charts data={data} toCalls={toCalls} of={only.values} />}
      <div className="overview-columns">
        <div className="stack">
          <Table title="By tool" rows={data.tools} of="tool" toCalls={toCalls} hrefOf={({ name }) => `/tools/${encodeURIComponent(name)}`} />
          <Table title="By source" rows={data.sources} of="source" toCalls={toCalls} hrefOf={({ name }) => `/sources/${encodeURIComponent(name)}`} />
          <Table title="By key" rows={data.principals} of="principal" toCalls={toCalls} withTokens hrefOf={({ name }) => placeOfPrincipal(name)} />
          <Table title="By agent" rows={data.agents} of="agent" toCalls={toCalls} withTokens hrefOf={({ name }) => `/agents/${encodeURIComponent(name)}`} />
        </div>
        <div className="stack">
          <WaitingNow />
          <Down ready={ready} />
          <Changed />
        </div>
      </div>
    </div>
  );
}

const ONE_OF = ["source", "principal", "agent", "tool"] as const;

/** Figures are kept of one name at a time, so a choice replaces the one before. */
function useOnly(): Filters<(typeof ONE_OF)[number]> {
  const filters = useFilters(ONE_OF);
  const none = Object.fromEntries(ONE_OF.map((name) => [name, ""]));
  return { ...filters, set: (changes, options) => filters.set({ ...none, ...changes }, options) };
}

/** Of which source or whose calls the figures are; administrators only, who see everybody's. */
function Only({ filters }: { filters: Filters<(typeof ONE_OF)[number]> }): ReactNode {
  const isAdmin = useMay("admin");
  const { data: hour } = useData<Figures>(isAdmin ? "/api/v1/overview?minutes=60" : null, { every: 30_000 });
  const { ready } = useConnection();
  if (!isAdmin) return null;
  const names = (of: readonly { name: string }[] | undefined): string[] => [...new Set((of ?? []).map(({ name }) => name).filter((name) => !name.startsWith("(")))].sort();
  return (
    <span className="filters">
      <Choose name="source" label="Source" any="All sources" options={names(ready?.sources).map((name) => [name, inOneLine(name, 60)] as const)} filters={filters} />
      <Choose name="principal" label="Key or person" any="All keys" options={names(hour?.principals).map((name) => [name, inOneLine(name, 60)] as const)} filters={filters} />
      {(["agent", "tool"] as const).map((of) => filters.values[of] !== "" && <span key={of}>of {of} {inOneLine(filters.values[of], 60)}</span>)}
      {filters.isAny && (
        <button type="button" className="plain" onClick={filters.clear}>
          All calls
        </button>
      )}
    </span>
  );
}

/** Agents and people have pages of their own, everybody else is a key. */
function placeOfPrincipal(name: string): string {
  if (name.startsWith("agent:")) return `/agents/${encodeURIComponent(name.slice("agent:".length))}`;
  return name.startsWith("user:") ? "/access/people" : `/access/keys/${encodeURIComponent(name)}`;
}

/** Where the calls behind a number are. */
type ToCalls = (filters: Record<string, string | number | undefined>) => string;

/** Says as of when the figures are; a gateway that does not answer is not shown as live. */
function Live({ asOf, isAway }: { asOf: string; isAway: boolean }): ReactNode {
  return (
    <span className={isAway ? "live gone" : "live"} role="status">
      {isAway ? (
        <>
          not live, <AsOf at={asOf} />
        </>
      ) : (
        "live"
      )}
    </span>
  );
}

/** What to do with a gateway that nobody has called yet. */
function FirstSteps({ ready }: { ready: Readiness | undefined }): ReactNode {
  const tools = ready?.sources?.reduce((sum, source) => sum + source.tools, 0) ?? 0;
  return (
    <section className="first-steps" aria-labelledby="first-title">
      <h2 id="first-title">No calls yet. Three things to do first</h2>
      <ol>
        <li>
          <h3>Add tools</h3>
          <p className="quiet">
            {tools > 0 ? `${counted(tools, "tool")} so far. ` : ""}A Python file in the config&apos;s <code>tools/</code> folder is a source; so are MCP servers and OpenAPI documents.
          </p>
          <Link className="button" href="/sources">
            Sources
          </Link>
        </li>
        <li>
          <h3>Try one</h3>
          <p className="quiet">Every tool has a form made from its schema, and shows how to call it with curl and Python.</p>
          <Link className="button primary" href="/tools">
            Try a tool
          </Link>
        </li>
        <li>
          <h3>Connect an agent</h3>
          <p className="quiet">
            An MCP client connects to <code>{location.origin}/mcp</code> with a key of its own, from <code>jackfield keys create</code>.
          </p>
          <Link className="button" href="/access">
            Keys
          </Link>
        </li>
      </ol>
    </section>
  );
}

function Charts({ data, toCalls, of }: { data: Figures; toCalls: ToCalls; of: Record<string, string> }): ReactNode {
  const { total, series } = data;
  const perMinute = data.step_seconds / 60;
  const times = series.map(({ at }) => at);
  const pick = (place: number): void => {
    const since = Date.parse(times[place]!);
    go(linkTo("/calls", { ...of, since: new Date(since).toISOString(), until: new Date(since + data.step_seconds * 1000).toISOString() }));
  };
  const bands = BANDS.filter(({ name }) => (total.outcomes[name] ?? 0) > 0);
  return (
    <div className="charts">
      <section className="figure calls-figure" aria-labelledby="calls-title">
        <h2 id="calls-title">
          Calls a minute <Link href={toCalls({})}>{counted(total.calls, "call")} ended</Link>
        </h2>
        <StackChart
          onPick={pick}
          times={times}
          bands={bands.map((band) => ({ ...band, values: series.map(({ outcomes }) => (outcomes[band.name] ?? 0) / perMinute) }))}
          label={`Calls a minute by outcome: ${bands.map(({ name }) => `${total.outcomes[name]} ${name}`).join(", ") || "none"}`}
        />
        <p className="legend">
          {bands.map(({ name, color }) => (
            <Link key={name} href={toCalls({ status: name })}>
              <Swatch color={color} /> {name} {total.outcomes[name]?.toLocaleString()}
            </Link>
          ))}
        </p>
      </section>
      <section className="figure" aria-labelledby="errors-title">
        <h2 id="errors-title">Errors</h2>
        <p className="big">
          <Link href={toCalls({ status: "failed" })}>{percent(total.error_rate)}</Link>
        </p>
        <LineChart onPick={pick} times={times} lines={[{ name: "failed", color: "var(--chart-5)", values: series.map((one) => (one.error_rate === null ? null : one.error_rate * 100)) }]} unit="%" label="Share of calls that failed" />
      </section>
      <section className="figure" aria-labelledby="latency-title">
        <h2 id="latency-title">Latency</h2>
        <p className="big">
          <span>
            {time(total.p50_ms)} <span className="quiet">p50</span>
          </span>
          <span>
            {time(total.p95_ms)} <span className="quiet">p95</span>
          </span>
        </p>
        <LineChart
          onPick={pick}
          times={times}
          lines={[
            { name: "p95", color: "var(--chart-4)", values: series.map(({ p95_ms }) => p95_ms) },
            { name: "p50", color: "var(--chart-1)", values: series.map(({ p50_ms }) => p50_ms) },
          ]}
          unit="ms"
          label="How long calls took, half of them and 95 of 100"
        />
      </section>
      <section className="figure" aria-labelledby="tokens-title">
        <h2 id="tokens-title">Tokens</h2>
        <p className="big">
          <span>
            {short(total.input_tokens)} <span className="quiet">in</span>
          </span>
          <span>
            {short(total.output_tokens)} <span className="quiet">out</span>
          </span>
        </p>
        <LineChart
          times={times}
          lines={[
            { name: "in", color: "var(--chart-1)", values: series.map(({ input_tokens }) => input_tokens) },
            { name: "out", color: "var(--chart-2)", values: series.map(({ output_tokens }) => output_tokens) },
          ]}
          unit=""
          label="Tokens of the runs that ended"
        />
      </section>
    </div>
  );
}

const FEW = 8;

/** The busiest of one kind; the rest can be expanded. */
function Table({ title, rows, of, toCalls, withTokens = false, hrefOf }: { title: string; rows: Named[]; of: string; toCalls: ToCalls; withTokens?: boolean; hrefOf?: (one: Named) => string }): ReactNode {
  const [isWhole, setIsWhole] = useState(false);
  if (rows.length === 0) return null;
  const id = title.replace(" ", "-").toLowerCase();
  const twice = new Set(rows.map(({ name }) => name).filter((name, place, all) => all.indexOf(name) !== place));
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <div className="table" role="group" aria-labelledby={id} tabIndex={0}>
        <table className="figures">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Calls</th>
              <th scope="col">Failed</th>
              <th scope="col">p50</th>
              <th scope="col">p95</th>
              {withTokens && <th scope="col">Tokens</th>}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, isWhole ? rows.length : FEW).map((one) => (
              <tr key={`${one.source ?? ""} ${one.name}`}>
                <th scope="row">
                  <Name one={one} href={isSeveral(one) ? null : (hrefOf?.(one) ?? null)} />
                  {twice.has(one.name) && one.source && <span className="quiet"> of {inOneLine(one.source, 40)}</span>}
                </th>
                <td>{isSeveral(one) ? one.calls.toLocaleString() : <Link href={toCalls({ [of]: one.name, ...sourceOf(one) })}>{one.calls.toLocaleString()}</Link>}</td>
                <td>{(one.error_rate ?? 0) > 0 && !isSeveral(one) ? <Link className="fault" href={toCalls({ [of]: one.name, ...sourceOf(one), status: "failed" })}>{percent(one.error_rate)}</Link> : percent(one.error_rate)}</td>
                <td>{time(one.p50_ms)}</td>
                <td>{time(one.p95_ms)}</td>
                {withTokens && <td>{short(one.input_tokens + one.output_tokens)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > FEW && (
        <button type="button" className="plain" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>
          {isWhole ? "Show fewer" : `${(rows.length - FEW).toLocaleString()} more`}
        </button>
      )}
    </section>
  );
}

/** `(unknown)`, `(other)`: no one name is behind it. */
function isSeveral({ name }: Named): boolean {
  return name.startsWith("(");
}

/** Tools of two sources may have one name. */
function sourceOf({ source }: Named): { source?: string } {
  return source === null || source === "" || source.startsWith("(") ? {} : { source };
}

function Name({ one, href }: { one: Named; href: string | null }): ReactNode {
  const text = inOneLine(one.name, 60);
  return href === null ? text : <Link href={href}>{text}</Link>;
}

const WAITS: Record<string, string> = { pending_approval: "approval", pending_login: "login", pending: "answer", waiting: "answer" };

/** What waits for somebody, the oldest first. */
function WaitingNow(): ReactNode {
  const { calls, isKnown, error } = useWaiting();
  const oldest = [...calls].sort((one, other) => one.created_at.localeCompare(other.created_at));
  return (
    <section aria-labelledby="waits-title">
      <h2 id="waits-title">
        Waiting for somebody <span className="quiet">{calls.length || ""}</span>
      </h2>
      {error !== null && <p className="fault">{error}</p>}
      {isKnown && calls.length === 0 && error === null && <p className="quiet">Nothing waits.</p>}
      <ul className="list">
        {oldest.slice(0, FEW).map((call) => (
          <li key={call.id}>
            <Link href={`/waiting/${encodeURIComponent(call.id)}`}>
              <WaitingLine call={call} />
            </Link>
          </li>
        ))}
      </ul>
      {calls.length > FEW && <Link href="/waiting">All {calls.length}</Link>}
    </section>
  );
}

function WaitingLine({ call }: { call: CallRecord }): ReactNode {
  return (
    <span className="run-line">
      <code className="one-line">{inOneLine(call.tool, 60)}</code>
      <span className="quiet one-line">
        {WAITS[call.status] ?? call.status} · {inOneLine(call.agent ?? call.principal, 40)}
      </span>
      <Moment at={call.created_at} isAgo />
    </span>
  );
}

/** Sources that are not up, and why. */
function Down({ ready }: { ready: Readiness | undefined }): ReactNode {
  if (ready?.sources === undefined) return null;
  const held = ready.sources.reduce((sum, source) => sum + (source.held?.length ?? 0), 0);
  const down = ready.sources.filter(({ status }) => status !== "up");
  return (
    <section aria-labelledby="down-title">
      <h2 id="down-title">
        Down <span className="quiet">{down.length || ""}</span>
      </h2>
      {down.length === 0 && <p className="quiet">{counted(ready.sources.length, "source")} up.</p>}
      <ul className="list">
        {down.map((source) => (
          <li key={source.name}>
            <Link className="down-line" href={`/sources/${encodeURIComponent(source.name)}`}>
              <span>
                <strong>{inOneLine(source.name, 60)}</strong> <SourceState status={source.status} />
              </span>
              <span className="quiet text">{inOneLine(source.error ?? source.doing ?? "", 300)}</span>
            </Link>
          </li>
        ))}
      </ul>
      {held > 0 && (
        <p className="held">
          <Link href="/sources?state=quarantined">
            <Badge tone="wait">{counted(held, "definition")} quarantined</Badge>
          </Link>
        </p>
      )}
    </section>
  );
}

/** What is in the audit log without anything being another afterwards. */
const NO_CHANGE = /^(call|login)\./;
/** Where what was changed is. */
const PLACES: Record<string, (name: string) => string> = {
  source: (name) => `/sources/${encodeURIComponent(name)}`,
  key: (name) => `/access/keys/${encodeURIComponent(name)}`,
  group: (name) => `/access/groups/${encodeURIComponent(name)}`,
  model: (name) => `/settings/models/${encodeURIComponent(name)}`,
  tool: (name) => `/tools/${encodeURIComponent(name)}`,
  definition: (name) => `/tools/${encodeURIComponent(name)}`,
  config: () => "/settings/config",
  user: () => "/access/people",
};

/** The last changes that the audit log has, for administrators. */
function Changed(): ReactNode {
  const isAdmin = useMay("admin");
  const { data, error } = useData<{ audit: AuditEntry[] }>(isAdmin ? "/api/v1/audit?limit=100" : null, { every: REFRESH_MS });
  if (!isAdmin) return null;
  const changes = (data?.audit ?? []).filter(({ action }) => !NO_CHANGE.test(action)).slice(0, 10);
  return (
    <section aria-labelledby="changed-title">
      <h2 id="changed-title">
        Changed{" "}
        <Link className="aside" href="/access/audit">
          Audit log
        </Link>
      </h2>
      {error !== undefined && data === undefined && <p className="fault">{error.message}</p>}
      <ul className="list">
        {changes.map((entry) => (
          <li key={entry.id} className="run-line changed-line">
            <span className="one-line">
              {entry.action.replace(/[._]/g, " ")} <Subject entry={entry} /> <span className="quiet">by {inOneLine(entry.actor, 60)}</span>
            </span>
            <Moment at={entry.at} isAgo />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Subject({ entry: { action, subject } }: { entry: AuditEntry }): ReactNode {
  const place = PLACES[action.split(".", 1)[0]!];
  return place === undefined ? <strong>{inOneLine(subject, 60)}</strong> : <Link href={place(subject)}>{inOneLine(subject, 60)}</Link>;
}

function time(milliseconds: number | null): string {
  return milliseconds === null ? "–" : took(milliseconds);
}

const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

function short(number: number): string {
  return SHORT.format(number);
}
