import { lazy, Suspense, useState, type ReactNode } from "react";
import { Link } from "wouter";
import useSWR from "swr";
import { parsed, type GatewayError } from "@jackfield/react";
import { linkTo } from "../address";
import { asCurl, asPython, memberText } from "../call-code";
import { client, type CallRecord } from "../data";
import { useMay } from "../identity";
import { CallStatus } from "../parts/badge";
import { CallCard, shownRecord } from "../parts/call-card";
import { Code, Json } from "../parts/code";
import { Confirm } from "../parts/dialog";
import { Facts } from "../parts/facts";
import { Icon } from "../parts/icon";
import { Duration, Moment } from "../parts/moment";
import { Fault, Loading } from "../parts/states";
import { HookNotes, Timeline } from "../parts/timeline";
import { inOneLine, safeText } from "../safe-text";
import "../style/calls.css";

const Replay = lazy(() => import("../parts/replay"));
const REFRESH_MS = 2000;
/** Their card shows the arguments whole. */
const ASKS = new Set(["pending_approval", "pending_login"]);
const OPEN = new Set(["running", "waiting", "pending", "pending_approval", "pending_login"]);

/** One call: what was asked, what came of it, its history, and the same again. */
export default function CallPage({ id }: { id: string }): ReactNode {
  const path = `/api/v1/calls/${encodeURIComponent(id)}`;
  const { data, error, mutate } = useSWR<Read, GatewayError>(`call ${id}`, () => read(path), {
    refreshInterval: (last) => (last === undefined || OPEN.has(last.call.status) ? REFRESH_MS : 0),
    shouldRetryOnError: (fault: GatewayError) => fault.status >= 500,
  });
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the call" />;
  return <Shown {...data} onChanged={() => void mutate()} />;
}

interface Read {
  call: CallRecord;
  /** The arguments as the gateway wrote them. */
  argumentsText: string;
}

async function read(path: string): Promise<Read> {
  const text = await client.text("GET", path);
  const { call } = parsed(text) as { call: CallRecord };
  return { call, argumentsText: memberText(text, ["call", "arguments"]) ?? "{}" };
}

function Shown({ call, argumentsText, onChanged }: Read & { onChanged: () => void }): ReactNode {
  const [below, setBelow] = useState<"replay" | "curl" | "python" | null>(null);
  const mayCall = useMay("call") && (call.kind ?? "tool") === "tool";
  const toggle = (part: "replay" | "curl" | "python"): void => setBelow(below === part ? null : part);
  const isEdited = call.asked_arguments !== undefined && JSON.stringify(call.asked_arguments) !== JSON.stringify(call.arguments);
  return (
    <div className="page">
      <header>
        <nav aria-label="Breadcrumb">
          <Link href="/calls">Calls</Link>
        </nav>
        <div className="page-head">
          <h1 className="tool-name">{safeText(call.tool, 120)}</h1>
          <CallStatus status={call.status} count={call.count} />
          <span className="actions push">
            {mayCall && (
              <>
                <button type="button" className="small" aria-expanded={below === "replay"} onClick={() => toggle("replay")}>
                  <Icon name="refresh" /> Replay
                </button>
                <button type="button" className="small" aria-expanded={below === "curl"} onClick={() => toggle("curl")}>
                  curl
                </button>
                <button type="button" className="small" aria-expanded={below === "python"} onClick={() => toggle("python")}>
                  Python
                </button>
              </>
            )}
            {OPEN.has(call.status) && <Cancel call={call} onCancelled={onChanged} />}
          </span>
        </div>
      </header>
      <div className="call-page">
        <div>
          {below === "curl" && <Code label="curl" text={asCurl(call.tool, argumentsText, location.origin)} />}
          {below === "python" && <Code label="Python" text={asPython(call.tool, argumentsText, location.origin)} />}
          {below === "replay" && (
            <section aria-labelledby="replay-title">
              <h2 id="replay-title">Replay</h2>
              <Suspense fallback={<Loading what="the form" />}>
                <Replay call={call} argumentsText={argumentsText} />
              </Suspense>
            </section>
          )}
          <CallCard call={shownRecord(call)} />
          <Advice call={call} />
          {!ASKS.has(call.status) && <Json label="Arguments" value={call.arguments} />}
          {isEdited && <Json label="Arguments that were asked for" value={call.asked_arguments} />}
          {call.result !== null && <Result call={call} />}
          <HookNotes call={call} />
        </div>
        <aside aria-label="About the call">
          <section aria-labelledby="timeline-title">
            <h2 id="timeline-title">History</h2>
            <Timeline call={call} />
          </section>
          <About call={call} />
        </aside>
      </div>
    </div>
  );
}

function Cancel({ call, onCancelled }: { call: CallRecord; onCancelled: () => void }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  if (!useMay("call")) return null;
  return (
    <>
      <button type="button" className="small danger" onClick={() => setIsOpen(true)}>
        <Icon name="stop" /> Cancel call
      </button>
      <Confirm
        title="Cancel this call?"
        verb="Cancel call"
        isDanger
        isOpen={isOpen}
        onConfirm={async () => {
          await client.post(`/api/v1/calls/${encodeURIComponent(call.id)}/cancel`);
          onCancelled();
        }}
        onClose={() => setIsOpen(false)}
      >
        <p>Whoever made it is told that it was cancelled. What the tool has done so far stays done.</p>
      </Confirm>
    </>
  );
}

interface LargeResult {
  large_result: true;
  size: number;
}

function isLarge(value: unknown): value is LargeResult {
  return typeof value === "object" && value !== null && (value as { large_result?: unknown }).large_result === true;
}

const PIECE = 1_000_000;
const MOST_SHOWN = 5_000_000;

/** The result; one that is kept apart because it is large is read when somebody wants it. */
function Result({ call }: { call: CallRecord }): ReactNode {
  const [whole, setWhole] = useState<string | null>(null);
  const [fault, setFault] = useState<Error | null>(null);
  const load = async (): Promise<void> => {
    try {
      let text = "";
      let offset: number | null = 0;
      while (offset !== null && text.length < MOST_SHOWN) {
        const page: { text: string; next_offset: number | null } = await client.get(linkTo(`/api/v1/calls/${encodeURIComponent(call.id)}/result`, { offset: String(offset), limit: PIECE }));
        text += page.text;
        offset = page.next_offset;
      }
      setWhole(text);
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  if (whole !== null) return <Code label="Result, whole" text={whole} />;
  return (
    <>
      <Json label="Result" value={call.result} />
      {isLarge(call.result) && (
        <div className="actions">
          <button type="button" onClick={() => void load()}>
            Show the whole result
          </button>
        </div>
      )}
      {fault !== null && <Fault error={fault} />}
    </>
  );
}

const ADVICE: Record<string, string> = {
  invalid_arguments: "The arguments do not fit the tool's schema. Replay shows its form.",
  timeout: "The tool did not end before its deadline. Give the tool or its source a longer timeout, or ask for less at a time.",
  interrupted: "The gateway that ran it stopped meanwhile. The tool may or may not have done its work: look there before you replay it.",
  login_needed: "Its source wants a login. Access, or the login's own card under Waiting, leads there.",
  too_many_requests: "The service that the tool asks wants fewer requests. Wait, or limit the source's rate.",
  worker_crashed: "The process of its tool file ended. The source's page has what it wrote last.",
  source_unavailable: "Its source was down. Sources says why, and how it is now.",
  rate_limited: "It was called more often than it may be. Wait, or raise the limit of the tool or the key.",
  forbidden: "The key may not do this. An administrator can give it the scope or the tool, under Access.",
  disabled: "The tool, its source or the key is switched off. The tool's page says who did that, and why.",
  definition_changed: "The tool has changed and is quarantined until an administrator has accepted its new definition, on the tool's page.",
  tool_not_found: "There is no such tool for this key. Compare the name with Tools.",
  denied_by_hook: "A hook of the operator denied it. The reason is below, under Hooks, if it gave one.",
  expired: "Nobody answered in time. Replay asks again.",
  bad_result: "The tool's result does not fit its own output schema. Its author has to mend one of them.",
};

/** What can be done about an error. */
function Advice({ call }: { call: CallRecord }): ReactNode {
  const text = ADVICE[call.error?.code ?? ""];
  return text === undefined ? null : <p className="advice">{text}</p>;
}

function About({ call }: { call: CallRecord }): ReactNode {
  const to = (place: string, text: string): ReactNode => <Link href={place}>{inOneLine(text, 80)}</Link>;
  const calls = (name: string, value: string): string => linkTo("/calls", { [name]: value });
  return (
    <Facts
      isNarrow
      facts={[
        ["Tool", call.kind === "tool" || call.kind === undefined ? to(`/tools/${encodeURIComponent(call.tool)}`, call.tool) : inOneLine(call.tool, 300)],
        ["Other calls", to(calls("tool", call.tool), "of this tool")],
        ["Source", call.source === "" ? null : to(`/sources/${encodeURIComponent(call.source)}`, call.source)],
        ["Key or person", to(calls("principal", call.principal), call.principal)],
        ["Agent", call.agent === null ? null : to(`/agents/${encodeURIComponent(call.agent)}`, call.agent)],
        ["Space", call.space_id === null ? null : to(`/spaces/${encodeURIComponent(call.space_id)}`, call.space_id)],
        ["Run", to(`/runs/${encodeURIComponent(call.run_id)}`, call.run_id)],
        ["Calls of the run", to(calls("run", call.run_id), "all")],
        ["Replay of", call.replay_of == null ? null : to(`/calls/${encodeURIComponent(call.replay_of)}`, call.replay_of)],
        ["Found out by", call.verified_by == null ? null : to(`/calls/${encodeURIComponent(call.verified_by)}`, call.verified_by)],
        ["Took", call.execution_time_ms === null ? null : <Duration key="took" ms={call.execution_time_ms} />],
        ["Deadline", OPEN.has(call.status) && call.deadline !== null ? <Moment key="deadline" at={call.deadline} /> : null],
        ["Expires", OPEN.has(call.status) && call.expires_at !== null ? <Moment key="expires" at={call.expires_at} /> : null],
        ["Trace id", call.trace_id == null ? null : <code key="trace">{inOneLine(call.trace_id, 64)}</code>],
        ["Version of the tool", call.tool_version === undefined || call.tool_version === "" ? null : <code key="version">{inOneLine(call.tool_version, 64)}</code>],
        ["Call", <code key="id">{inOneLine(call.id, 64)}</code>],
      ]}
    />
  );
}
