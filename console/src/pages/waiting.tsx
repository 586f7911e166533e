import { type ReactNode } from "react";
import { Link } from "wouter";
import { useData, type CallRecord } from "../data";
import { CallCard, shownRecord } from "../parts/call-card";
import { Phone } from "../parts/phone";
import { Empty, Fault, Loading } from "../parts/states";
import { safeText } from "../safe-text";
import { isMine, useWaiting } from "../waiting-list";

/** Calls that need an answer, an approval or a login, nearest deadline first. */
export default function WaitingPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <One id={id} />;
}

function All(): ReactNode {
  const { calls, isKnown, error } = useWaiting();
  if (!isKnown) return <Loading what="pending calls" />;
  return (
    <div className="page">
      <h1>Waiting</h1>
      {error !== null && <Fault error={new Error(error)} />}
      {calls.length === 0 && <Empty title="Nothing to answer">Calls that need an answer, an approval or a login appear here, nearest deadline first.</Empty>}
      <ol className="cards" aria-label="Pending calls">
        {calls.map((call) => (
          <li key={call.id}>
            <Waiting call={call} />
          </li>
        ))}
      </ol>
    </div>
  );
}

function One({ id }: { id: string }): ReactNode {
  const { data, error, mutate } = useData<{ call: CallRecord }>(`/api/v1/calls/${encodeURIComponent(id)}`, { every: 2000 });
  if (error !== undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the call" />;
  return (
    <div className="page">
      <h1>{safeText(data.call.tool, 80)}</h1>
      <Waiting call={data.call} />
    </div>
  );
}

function Waiting({ call }: { call: CallRecord }): ReactNode {
  return (
    <>
      <p className="quiet asked-by">
        Requested by {safeText(call.agent ?? call.principal, 80)}
        {call.space_id !== null && (
          <>
            {" in "}
            <Link href={`/spaces/${encodeURIComponent(call.space_id)}`}>{safeText(call.space_id, 80)}</Link>
          </>
        )}
        {" · "}
        <Link href={`/runs/${encodeURIComponent(call.run_id)}`}>view run</Link>
      </p>
      <CallCard call={shownRecord(call)} />
      {isMine(call) && call.status !== "pending_login" && <Phone call={call} />}
    </>
  );
}
