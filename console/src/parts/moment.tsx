/**
 * A moment and a duration. `<Moment at={call.created_at} />` shows date and time, the full time with its zone on hover;
 * `<Moment at={…} isAgo />` shows how long ago, and keeps it right; `isExact` adds the seconds. `<Duration ms={call.execution_time_ms} />` is "–"
 * where nothing is known. `<AsOf at={…} />` says as of when figures are. Formats are in `time.ts`; numbers in tables get
 * figures of one width.
 */
import { type ReactNode } from "react";
import { ago, clock, clockSeconds, took, useNow } from "../time";

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export function fullTime(iso: string): string {
  const moment = new Date(iso);
  return Number.isNaN(moment.getTime()) ? iso : FULL.format(moment);
}

export function Moment({ at, isAgo = false, isExact = false }: { at: string | null | undefined; isAgo?: boolean; isExact?: boolean }): ReactNode {
  const now = useNow(isAgo && at != null);
  if (at == null) return <span className="quiet">–</span>;
  return (
    <time className="moment" dateTime={at} title={fullTime(at)}>
      {isAgo ? ago(at, now) : isExact ? clockSeconds(at) : clock(at)}
    </time>
  );
}

export function Duration({ ms }: { ms: number | null | undefined }): ReactNode {
  if (ms == null) return <span className="quiet">–</span>;
  return (
    <span className="duration" title={`${ms.toLocaleString()} ms`}>
      {took(ms)}
    </span>
  );
}

export function AsOf({ at }: { at: string }): ReactNode {
  return (
    <span className="quiet as-of">
      as of <Moment at={at} />
    </span>
  );
}
