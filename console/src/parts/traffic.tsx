/**
 * What the calls of one source, tool, key or agent came to in the last 24 hours: `<Traffic of="source" name="github" />`.
 * For administrators, who see the figures of everybody; each number leads to the calls behind it.
 */
import { type ReactNode } from "react";
import { Link } from "wouter";
import { go, linkTo } from "../address";
import { useData } from "../data";
import { useMay } from "../identity";
import { counted } from "../safe-text";
import { took } from "../time";
import { StackChart } from "./charts";
import { Section } from "./states";
import { BANDS, percent, type Figures } from "./figures";
import "../style/overview.css";

const MINUTES = 1440;
const REFRESH_MS = 15_000;

export function Traffic({ of, name }: { of: "source" | "tool" | "principal" | "agent"; name: string }): ReactNode {
  const isAdmin = useMay("admin");
  const { data } = useData<Figures>(isAdmin ? linkTo("/api/v1/overview", { minutes: MINUTES, [of]: name }) : null, { every: REFRESH_MS });
  if (data === undefined) return null;
  const { total, series } = data;
  const to = (more: Record<string, string>): string => linkTo("/calls", { [of]: name, range: MINUTES, ...more });
  const bands = BANDS.filter((band) => (total.outcomes[band.name] ?? 0) > 0);
  const perMinute = data.step_seconds / 60;
  const pick = (place: number): void => {
    const since = Date.parse(series[place]!.at);
    go(linkTo("/calls", { [of]: name, since: new Date(since).toISOString(), until: new Date(since + data.step_seconds * 1000).toISOString() }));
  };
  return (
    <Section title="Last 24 hours" count={total.calls === 0 ? 0 : undefined} nothing="No calls ended.">
      <div className="traffic">
        <p>
          <Link href={to({})}>{counted(total.calls, "call")}</Link>
          <Link className={(total.error_rate ?? 0) > 0 ? "fault" : "quiet"} href={to({ status: "failed" })}>
            {percent(total.error_rate)} failed
          </Link>
          {total.p50_ms !== null && total.p95_ms !== null && (
            <span className="quiet">
              {took(total.p50_ms)} p50, {took(total.p95_ms)} p95
            </span>
          )}
        </p>
        <StackChart
          onPick={pick}
          times={series.map(({ at }) => at)}
          bands={bands.map((band) => ({ ...band, values: series.map(({ outcomes }) => (outcomes[band.name] ?? 0) / perMinute) }))}
          label={`Calls a minute in the last 24 hours: ${bands.map((band) => `${total.outcomes[band.name]} ${band.name}`).join(", ")}`}
        />
      </div>
    </Section>
  );
}
