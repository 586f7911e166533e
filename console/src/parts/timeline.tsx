/**
 * What happened to a call, in its order, as its record says it: who asked, who decided and what was changed, which tool
 * server it was offered to, when it started, was settled and delivered; with the time between two steps. `<HookNotes>`
 * says what each hook did.
 */
import type { ReactNode } from "react";
import type { CallRecord } from "../data";
import { inOneLine, safeText } from "../safe-text";
import { clockPrecise, took } from "../time";
import { fullTime } from "./moment";

const WORDS: Record<string, string> = {
  asked: "Asked",
  decided: "Decided",
  login: "Waited for a login",
  offered: "Offered",
  started: "Started",
  settled: "Settled",
  delivered: "Delivered",
  read: "Read",
};
/** What stands before the name of a step. */
const BY: Record<string, string> = { offered: "to", started: "at" };
const AT_LEAST_MS = 1;

export function Timeline({ call }: { call: CallRecord }): ReactNode {
  let before: number | null = null;
  return (
    <ol className="history" aria-label="History of the call">
      {(call.timeline ?? []).map(({ step, at, by, note }, place) => {
        const now = at === null ? null : Date.parse(at);
        const passed = now === null || before === null ? null : now - before;
        before = now ?? before;
        return (
          <li key={place} className={step === "settled" ? (call.status === "completed" ? "good" : "bad") : ""}>
            <div className="what">
              <strong>{WORDS[step] ?? inOneLine(step, 40)}</strong>
              {at !== null && (
                <time className="moment" dateTime={at} title={fullTime(at)}>
                  {clockPrecise(at)}
                </time>
              )}
            </div>
            {by !== null && <p>{`${BY[step] ?? "by"} ${safeText(by, 200)}`}</p>}
            {note !== null && <p className="quiet">{safeText(note, 300)}</p>}
            {passed !== null && passed >= AT_LEAST_MS && <p className="quiet">{took(passed)} later</p>}
          </li>
        );
      })}
    </ol>
  );
}

export function HookNotes({ call }: { call: CallRecord }): ReactNode {
  const notes = call.hooks ?? [];
  if (notes.length === 0) return null;
  return (
    <section aria-labelledby="hooks-title">
      <h2 id="hooks-title">Hooks</h2>
      <ul className="list">
        {notes.map((note, place) => (
          <li key={place} className="fact">
            <strong>{safeText(note.name, 80)}</strong> {note.on === "before_call" ? "before the call" : "after the call"}: {safeText(note.decision, 40)}
            <span className="quiet"> {took(note.ms)}</span>
            {note.reason !== null && <p className="quiet text">{safeText(note.reason, 1000)}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}
