import { useState, type ReactNode } from "react";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Diff } from "../../parts/code";
import { Confirm } from "../../parts/dialog";
import { Moment } from "../../parts/moment";
import { Fault, Section } from "../../parts/states";
import { toast } from "../../parts/toast";
import { counted, inOneLine, safeText } from "../../safe-text";
import { sourcePath, type Change } from "./records";
import { sideBySide } from "./side-by-side";

/** Below that there is no room for two columns. */
const WIDE_PX = 800;

type Verdict = "accept" | "refuse";

/** Definitions that changed and are quarantined: each with its difference, to be accepted or refused. `only`: one of them. */
export function Changes({ source, only, onChanged }: { source: string; only?: string; onChanged: () => void }): ReactNode {
  const { data, error, mutate } = useData<{ tools: Change[] }>(`${sourcePath(source)}/diff`, { every: 5000 });
  const [isBeside, setIsBeside] = useState(() => innerWidth >= WIDE_PX);
  const [asked, setAsked] = useState<Verdict | null>(null);
  const decide = useAction();
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  const changes = (data?.tools ?? []).filter(({ name }) => only === undefined || name === only);
  const open = changes.filter(({ refused_by }) => refused_by === null);
  if (changes.length === 0) return null;
  // Only what was seen is meant: what changes again meanwhile stays quarantined.
  const send = async (verdict: Verdict, those: readonly Change[]): Promise<void> => {
    await client.post(`${sourcePath(source)}/${verdict}`, { digests: Object.fromEntries(those.map(({ key, digest }) => [key, digest])) });
    toast(`${counted(those.length, "definition")} of ${source} ${verdict === "accept" ? "accepted" : "refused"}`);
    await mutate();
    onChanged();
  };
  return (
    <Section
      title="Quarantined"
      count={changes.length}
      actions={
        <div className="actions">
          <button type="button" className="plain" aria-pressed={isBeside} onClick={() => setIsBeside(!isBeside)}>
            {isBeside ? "Show as one text" : "Show side by side"}
          </button>
          {open.length > 1 && (
            <>
              <button type="button" onClick={() => setAsked("accept")}>
                Accept all
              </button>
              <button type="button" onClick={() => setAsked("refuse")}>
                Refuse all
              </button>
            </>
          )}
        </div>
      }
    >
      <p className="quiet">
        These definitions are not the ones that were accepted, so nobody is offered them. Read what the server says now: a description is what a model acts on. A refused one stays away until the
        server offers another, or somebody accepts it after all.
      </p>
      {decide.fault !== null && <Fault error={decide.fault} />}
      {changes.map((change) => (
        <OneChange key={change.key} change={change} isBeside={isBeside} isBusy={decide.isBusy} onVerdict={(verdict) => void decide.run(() => send(verdict, [change]))} />
      ))}
      <Confirm
        title={`${asked === "accept" ? "Accept" : "Refuse"} all ${open.length} definitions?`}
        verb={asked === "accept" ? "Accept all" : "Refuse all"}
        isOpen={asked !== null}
        onClose={() => setAsked(null)}
        onConfirm={() => send(asked ?? "refuse", open)}
      >
        <ul className="names">
          {open.map(({ key, name }) => (
            <li key={key}>
              <code>{inOneLine(name, 80)}</code>
            </li>
          ))}
        </ul>
        <p>{asked === "accept" ? "They are offered again, as the server defines them now." : "They stay away until the server offers other definitions, or you accept them after all."}</p>
      </Confirm>
    </Section>
  );
}

interface GivenChange {
  change: Change;
  isBeside: boolean;
  isBusy: boolean;
  onVerdict: (verdict: Verdict) => void;
}

function OneChange({ change, isBeside, isBusy, onVerdict }: GivenChange): ReactNode {
  const { name, kind, pinned, refused_by: refusedBy } = change;
  return (
    <article className="card requires_action" aria-label={`Change of ${inOneLine(name, 80)}`}>
      <header>
        <h3 className="with-marks">
          <code>{inOneLine(name, 80)}</code> <Badge tone="wait">{pinned === null || pinned === undefined ? `new ${kind}` : `changed ${kind}`}</Badge>
          {refusedBy !== null && (
            <Badge tone="none">
              refused by {inOneLine(refusedBy, 80)}, <Moment at={change.refused_at} />
            </Badge>
          )}
        </h3>
      </header>
      <div className="card-body">
        {isBeside ? <Beside change={change} /> : <Diff lines={change.diff.split("\n")} />}
        <div className="actions">
          <button type="button" className="primary" disabled={isBusy} onClick={() => onVerdict("accept")}>
            Accept
          </button>
          {refusedBy === null && (
            <button type="button" disabled={isBusy} onClick={() => onVerdict("refuse")}>
              Refuse
            </button>
          )}
        </div>
      </div>
    </article>
  );
}

/** The accepted definition and the offered one, line beside line. */
function Beside({ change }: { change: Change }): ReactNode {
  const pairs = sideBySide(linesOf(change.pinned), linesOf(change.offered));
  return (
    <div className="beside" tabIndex={0} role="region" aria-label={`Difference of ${inOneLine(change.name, 80)}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Accepted</th>
            <th scope="col">Offered now</th>
          </tr>
        </thead>
        <tbody>
          {pairs.map(({ before, after }, place) => (
            <tr key={place} className={before === after ? "" : "different"}>
              <td className={before === after ? "" : before === null ? "none" : "removed"}>{before !== null && <Line mark={before === after ? "" : "−"} text={before} />}</td>
              <td className={before === after ? "" : after === null ? "none" : "added"}>{after !== null && <Line mark={before === after ? "" : "+"} text={after} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Line({ mark, text }: { mark: string; text: string }): ReactNode {
  return (
    <>
      <span className="diff-mark">{mark}</span>
      <code className="text">{safeText(text, 10_000)}</code>
    </>
  );
}

function linesOf(value: unknown): string[] {
  return value === null || value === undefined ? [] : JSON.stringify(value, null, 2).split("\n");
}
