/** Two runs side by side: `#/runs/compare?one=ID&other=ID`. What differs is marked. */
import { type ReactNode } from "react";
import { Link } from "wouter";
import { useFilters } from "../address";
import { useData } from "../data";
import { Badge } from "../parts/badge";
import { Moment } from "../parts/moment";
import { Fault, Loading } from "../parts/states";
import { LongText } from "../parts/tree";
import { inOneLine, safeText } from "../safe-text";
import { took, useNow } from "../time";
import { answerOf, callsOf, costOf, lastedCall, lastedMs, promptOf, titleOf, tokensOf, toneOfRun, wordOfRun, type RunCall, type WholeRun } from "./records";

const pathOf = (id: string): string | null => (id === "" ? null : `/api/runs/${encodeURIComponent(id)}`);

export function Compare(): ReactNode {
  const { values } = useFilters(["one", "other"]);
  const one = useData<{ run: WholeRun }>(pathOf(values.one));
  const other = useData<{ run: WholeRun }>(pathOf(values.other));
  const fault = one.error ?? other.error;
  if (fault !== undefined) return <Fault error={fault} onRetry={() => (void one.mutate(), void other.mutate())} />;
  if (one.data === undefined || other.data === undefined) return <Loading what="both runs" />;
  return <Both one={one.data.run} other={other.data.run} />;
}

function Both({ one, other }: { one: WholeRun; other: WholeRun }): ReactNode {
  const now = useNow(one.finishedAt === null || other.finishedAt === null);
  const rows: [string, (run: WholeRun) => ReactNode, (run: WholeRun) => unknown][] = [
    ["Status", (run) => <Badge tone={toneOfRun(run.status)}>{wordOfRun(run.status)}</Badge>, (run) => run.status],
    ["Began", (run) => <Moment at={run.createdAt} isExact />, () => null],
    ["Took", (run) => took(lastedMs(run, now)), () => null],
    ["Model", (run) => safeText(run.model ?? "–", 80), (run) => run.model],
    ["Model time", (run) => (run.modelMs === null ? "–" : took(run.modelMs)), () => null],
    ["Steps", (run) => run.steps.length, (run) => run.steps.length],
    ["Calls", (run) => callsOf(run).length, (run) => callsOf(run).length],
    ["Tokens", (run) => tokensOf(run) || "–", tokensOf],
    ["Cost", (run) => costOf(run.cost) || "–", (run) => run.cost],
    ["Asked", (run) => <Said text={promptOf(run)} />, promptOf],
    ["Answered", (run) => <Said text={answerOf(run) ?? run.summary ?? run.reason} />, answerOf],
  ];
  const most = Math.max(callsOf(one).length, callsOf(other).length);
  const columns = [one, other];
  return (
    <div className="page">
      <nav aria-label="Breadcrumb">
        <Link href="/runs">Runs</Link>
      </nav>
      <h1>Two runs</h1>
      <table className="compare">
        <thead>
          <tr>
            <td />
            {columns.map((run, place) => (
              <th key={place} scope="col">
                <Link href={`/runs/${encodeURIComponent(run.id)}`}>{inOneLine(titleOf(run), 80)}</Link>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, show, key]) => (
            <tr key={name} className={JSON.stringify(key(one)) === JSON.stringify(key(other)) ? "" : "differs"}>
              <th scope="row">{name}</th>
              {columns.map((run, place) => (
                <td key={place}>{show(run)}</td>
              ))}
            </tr>
          ))}
          {Array.from({ length: Math.min(most, 200) }, (_, place) => {
            const [left, right] = columns.map((run) => callsOf(run)[place]);
            return (
              <tr key={`call-${place}`} className={keyOf(left) === keyOf(right) ? "" : "differs"}>
                <th scope="row">Call {place + 1}</th>
                <td>{left !== undefined && <CallLine call={left} now={now} />}</td>
                <td>{right !== undefined && <CallLine call={right} now={now} />}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function keyOf(call: RunCall | undefined): string {
  return call === undefined ? "" : JSON.stringify([call.tool, call.arguments, call.status, call.result, call.error?.message]);
}

function CallLine({ call, now }: { call: RunCall; now: number }): ReactNode {
  return (
    <>
      <Link href={`/calls/${encodeURIComponent(call.id)}`}>{inOneLine(call.tool, 60)}</Link> {call.status.replaceAll("_", " ")} <span className="quiet">{lastedCall(call, now)}</span>
      <div className="quiet">{inOneLine(call.arguments, 200)}</div>
      <div>{inOneLine(call.error?.message ?? call.result ?? "", 200)}</div>
    </>
  );
}

function Said({ text }: { text: string | null }): ReactNode {
  return text === null ? <span className="quiet">–</span> : <LongText text={text} most={600} />;
}
