/**
 * The time that a page is about, in the address: `range` (minutes until now) or `since` and `until`. `const time =
 * useTimeRange({ standard: 60 }); <TimeRange time={time} />` and then `time.since`, `time.until` for the API: ISO 8601,
 * "" for none, `since` of a range rounded down to the minute, so that a path made of it is not new at each render.
 * `standard: null` means all time until somebody chooses. A range of one's own is two fields, in the time of the reader.
 */
import { useState, type ReactNode } from "react";
import { useFilters } from "../address";
import { clock } from "../time";
import { Dialog } from "./dialog";

export const RANGES: readonly (readonly [number, string])[] = [
  [15, "Last 15 minutes"],
  [60, "Last hour"],
  [360, "Last 6 hours"],
  [1440, "Last 24 hours"],
  [10_080, "Last 7 days"],
];
const MINUTE_MS = 60_000;

export interface ChosenTime {
  /** Minutes until now; null with a range of one's own, and for all time. */
  minutes: number | null;
  since: string;
  until: string;
  standard: number | null;
  choose: (changes: { range?: string; since?: string; until?: string }) => void;
}

export function useTimeRange({ standard }: { standard: number | null }): ChosenTime {
  const { values, set } = useFilters(["range", "since", "until"]);
  const choose = (changes: { range?: string; since?: string; until?: string }): void => set({ range: "", since: "", until: "", ...changes });
  const own = { since: isoOf(values.since), until: isoOf(values.until) };
  if (own.since !== "" || own.until !== "") return { ...own, minutes: null, standard, choose };
  const asked = Number(values.range);
  const minutes = RANGES.some(([known]) => known === asked) ? asked : standard;
  const since = minutes === null ? "" : new Date(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS - minutes * MINUTE_MS).toISOString();
  return { minutes, since, until: "", standard, choose };
}

/** What somebody wrote into the address, if it is a time. */
function isoOf(text: string): string {
  const moment = new Date(text);
  return text === "" || Number.isNaN(moment.getTime()) ? "" : moment.toISOString();
}

export function TimeRange({ time, withOwn = true }: { time: ChosenTime; withOwn?: boolean }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  const isOwn = time.since !== "" && time.minutes === null;
  const value = isOwn || time.until !== "" ? "own" : String(time.minutes ?? "");
  return (
    <>
      <select
        aria-label="Time"
        className={value === String(time.standard ?? "") ? "" : "set"}
        value={value}
        onChange={({ target }) => (target.value === "own" ? setIsOpen(true) : time.choose({ range: target.value === String(time.standard) ? "" : target.value }))}
      >
        {time.standard === null && <option value="">All time</option>}
        {RANGES.map(([minutes, name]) => (
          <option key={minutes} value={minutes}>
            {name}
          </option>
        ))}
        {(withOwn || value === "own") && <option value="own">{value === "own" ? ownName(time) : "From … to …"}</option>}
      </select>
      <Dialog title="Time" isOpen={isOpen} onClose={() => setIsOpen(false)}>
        <Own time={time} onDone={() => setIsOpen(false)} />
      </Dialog>
    </>
  );
}

function ownName({ since, until }: ChosenTime): string {
  return `${since === "" ? "" : `from ${clock(since)} `}${until === "" ? "until now" : `to ${clock(until)}`}`;
}

function Own({ time, onDone }: { time: ChosenTime; onDone: () => void }): ReactNode {
  const [since, setSince] = useState(localOf(time.since));
  const [until, setUntil] = useState(localOf(time.until));
  return (
    <form
      className="stack-small"
      onSubmit={(event) => {
        event.preventDefault();
        time.choose({ since: isoOf(since), until: isoOf(until) });
        onDone();
      }}
    >
      <label>
        From
        <input type="datetime-local" value={since} onChange={(event) => setSince(event.target.value)} required />
      </label>
      <label>
        To <span className="quiet">(empty: until now)</span>
        <input type="datetime-local" value={until} min={since} onChange={(event) => setUntil(event.target.value)} />
      </label>
      <div className="actions">
        <button type="submit" className="primary">
          Show
        </button>
      </div>
    </form>
  );
}

/** For a field of this time zone. */
function localOf(iso: string): string {
  if (iso === "") return "";
  const moment = new Date(iso);
  return new Date(moment.getTime() - moment.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16);
}
