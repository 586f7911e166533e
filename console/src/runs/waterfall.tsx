/**
 * A run on one time axis: what its model took in each step, with the moment of the first token, and every call, with
 * the time that it waited for somebody apart from the time that its tool ran. Bars show true durations; gaps are the
 * gateway's own time.
 */
import { Fragment, type ReactNode } from "react";
import { counted, inOneLine } from "../safe-text";
import { took, useNow } from "../time";
import { callsOf, isWaiting, lastedCall, type RunCall, type Step, type WholeRun } from "./records";

interface Bar {
  tone: string;
  from: number;
  to: number;
  what: string;
}

interface Lane {
  key: string;
  target: string;
  name: string;
  isCall: boolean;
  bars: Bar[];
  mark?: number;
  lasted: string;
}

const MOST = 300;
const MOST_TICKS = 8;
const ROUND = [1, 2, 5];

export function Waterfall({ run }: { run: WholeRun }): ReactNode {
  const now = useNow(run.finishedAt === null);
  const lanes = lanesOf(run, now);
  if (lanes.length === 0) return null;
  const start = Math.min(Date.parse(run.createdAt), ...lanes.flatMap((lane) => lane.bars.map((bar) => bar.from)));
  const last = Math.max(run.finishedAt === null ? now : Date.parse(run.finishedAt), ...lanes.flatMap((lane) => lane.bars.map((bar) => bar.to)));
  const whole = Math.max(last - start, 1);
  const percent = (moment: number): string => `${Math.min(100, Math.max(0, ((moment - start) / whole) * 100))}%`;
  return (
    <figure className="waterfall timeline" aria-label={`Timeline of ${counted(callsOf(run).length, "call")} in ${took(whole)}`}>
      <div className="waterfall-axis" aria-hidden="true">
        {ticksOf(whole).map((tick) => (
          <span key={tick} className={tick / whole > 0.92 ? "at-end" : ""} style={{ insetInlineStart: `${(tick / whole) * 100}%` }}>
            {tickWords(tick)}
          </span>
        ))}
      </div>
      {lanes.slice(0, MOST).map((lane) => (
        <a key={lane.key} href={`#${lane.target}`} className={lane.isCall ? "call" : "step"} onClick={(event) => (event.preventDefault(), document.getElementById(lane.target)?.scrollIntoView({ block: "center" }))}>
          <span className="lane-name">{lane.name}</span>
          <span className="lane">
            {lane.bars.map((bar) => (
              <Fragment key={bar.what}>
                <span className={`bar ${bar.tone}`} title={`${bar.what}: ${took(bar.to - bar.from)}`} style={{ insetInlineStart: percent(bar.from), width: `max(3px, calc(${percent(bar.to)} - ${percent(bar.from)}))` }} />
              </Fragment>
            ))}
            {lane.mark !== undefined && <span className="first-token" title={`first token after ${took(lane.mark - lane.bars[0]!.from)}`} style={{ insetInlineStart: percent(lane.mark) }} />}
          </span>
          <span className="quiet">{lane.lasted}</span>
        </a>
      ))}
      {lanes.length > MOST && <p className="quiet">{(lanes.length - MOST).toLocaleString()} more are below.</p>}
      <figcaption className="quiet">
        <span className="key thinking-bar" /> model <span className="key complete" /> tool <span className="key requires_action" /> waiting for somebody
      </figcaption>
    </figure>
  );
}

/** Round moments, at most as many as have room: every 200 ms, every 5 s, every 10 min. */
export function ticksOf(whole: number): number[] {
  const seconds = [1, 10, 100, 1_000].flatMap((unit) => ROUND.map((times) => unit * times));
  const hours = [3_600_000, 36_000_000, 360_000_000, 3_600_000_000].flatMap((unit) => ROUND.map((times) => unit * times));
  const steps = [...seconds, ...[10, 15, 30, 60, 120, 300, 600, 900, 1_800].map((each) => each * 1000), ...hours];
  const step = steps.find((one) => whole / one < MOST_TICKS) ?? steps.at(-1)!;
  return Array.from({ length: Math.min(Math.floor(whole / step), MOST_TICKS) + 1 }, (_, place) => place * step);
}

function tickWords(milliseconds: number): string {
  if (milliseconds === 0) return "0";
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 60_000) return `${milliseconds / 1000} s`;
  if (milliseconds < 3_600_000) return milliseconds % 60_000 === 0 ? `${milliseconds / 60_000} min` : `${milliseconds / 1000} s`;
  return milliseconds % 3_600_000 === 0 ? `${milliseconds / 3_600_000} h` : `${milliseconds / 60_000} min`;
}

export function lanesOf(run: WholeRun, now: number): Lane[] {
  return [
    ...run.steps.flatMap((step) => [...stepLane(step, now), ...step.calls.map((call) => callLane(call, now))]),
    ...run.calls.map((call) => callLane(call, now)),
    ...askedLane(run, now),
  ];
}

/** The step whose model is being asked: it is put on record when it has answered, so until then it is what runs after all that is. */
function askedLane(run: WholeRun, now: number): Lane[] {
  const calls = callsOf(run);
  const isAsked = run.status === "running" && run.finishedAt === null && (run.kind === "cycle" || run.kind === "response");
  if (!isAsked || calls.some((call) => call.finished_at === null && call.delivery !== "inbox")) return [];
  const ends = [run.createdAt, ...run.steps.flatMap(({ answeredAt, recordedAt }) => [answeredAt, recordedAt]), ...calls.map((call) => call.finished_at)];
  const from = Math.max(...ends.filter((end) => end != null).map((end) => Date.parse(end)));
  const n = Math.max(0, ...run.steps.map((step) => step.n)) + 1;
  return [{ key: "asked", target: "step-now", name: `step ${n}`, isCall: false, bars: [{ tone: "thinking-bar now", from, to: Math.max(now, from), what: "model, so far" }], lasted: `${took(now - from)} so far` }];
}

/** The time of the model, where it is known. */
function stepLane(step: Step, now: number): Lane[] {
  if (step.askedAt === null) return [];
  const from = Date.parse(step.askedAt);
  const to = step.answeredAt === null ? (step.modelMs === null ? now : from + step.modelMs) : Date.parse(step.answeredAt);
  const tone = step.error === null ? "thinking-bar" : "error";
  const lane: Lane = { key: `s${step.n}`, target: `step-${step.n}`, name: `step ${step.n}`, isCall: false, bars: [{ tone, from, to, what: "model" }], lasted: took(step.modelMs ?? to - from) };
  return [step.firstAt === null ? lane : { ...lane, mark: Date.parse(step.firstAt) }];
}

/** First how long it waited to be allowed or answered, then how long its tool ran. */
function callLane(call: RunCall, now: number): Lane {
  const made = Date.parse(call.created_at);
  const started = call.started_at === null ? null : Date.parse(call.started_at);
  const end = call.finished_at === null ? now : Date.parse(call.finished_at);
  const bars: Bar[] = [];
  const asked = call.decision != null || isWaiting(call) || (started === null && call.answered_by != null);
  const waited = started ?? end;
  if (asked && waited > made) bars.push({ tone: "requires_action", from: made, to: waited, what: "waiting" });
  if (started !== null || !asked) bars.push({ tone: call.finished_at === null ? "running" : call.status === "completed" ? "complete" : "error", from: started ?? made, to: end, what: "tool" });
  return { key: call.id, target: call.id, name: inOneLine(call.tool, 40), isCall: true, bars, lasted: lastedCall(call, now) };
}
