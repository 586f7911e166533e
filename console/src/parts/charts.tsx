/**
 * Small charts over time, without a library: `<StackChart times bands label />` for counts by kind, `<LineChart times
 * lines unit label />` for what is measured. Both have a scale, times below, and say the values under the pointer;
 * `onPick(place)` makes each step a link to what is behind it. `label` says in words what is seen. The last step is
 * still growing, and paler. `tools/chart.tsx` is the chart that agents draw.
 */
import { useState, type PointerEvent, type ReactNode } from "react";
import { clock } from "../time";

export interface Band {
  name: string;
  color: string;
}

interface Series extends Band {
  values: (number | null)[];
}

const WIDTH = 600;
const HEIGHT = 120;
const MOST_TIMES = 5;
const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

interface Common {
  times: string[];
  /** What the chart shows, for who does not see it. */
  label: string;
  onPick?: ((place: number) => void) | undefined;
}

/** Bars of several bands on top of each other. The last one is still growing, and paler. */
export function StackChart({ bands, ...common }: Common & { bands: (Band & { values: number[] })[] }): ReactNode {
  const sums = common.times.map((_, place) => bands.reduce((sum, { values }) => sum + (values[place] ?? 0), 0));
  const most = nice(Math.max(...sums, 0));
  const width = WIDTH / Math.max(common.times.length, 1);
  return (
    <Chart {...common} most={most} unit="" series={bands}>
      {common.times.map((at, place) => {
        let below = 0;
        return bands.map(({ name, color, values }) => {
          const height = ((values[place] ?? 0) / most) * HEIGHT;
          below += height;
          if (height === 0) return null;
          return <rect key={`${at} ${name}`} x={place * width + width * 0.1} y={HEIGHT - below} width={width * 0.8} height={height} fill={color} opacity={place === common.times.length - 1 ? 0.5 : 1} />;
        });
      })}
    </Chart>
  );
}

/** Lines; a gap where nothing is known. */
export function LineChart({ lines, unit, ...common }: Common & { lines: Series[]; unit: string }): ReactNode {
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const most = nice(Math.max(...known, 0));
  const width = WIDTH / Math.max(common.times.length, 1);
  return (
    <Chart {...common} most={most} unit={unit} series={lines}>
      {lines.map(({ name, color, values }) => (
        <g key={name} stroke={color} fill="none" strokeLinejoin="round" strokeLinecap="round">
          <path d={pathOf(values, width, most)} strokeWidth="1.75" vectorEffect="non-scaling-stroke" />
          <path d={lonePoints(values, width, most)} strokeWidth="5" vectorEffect="non-scaling-stroke" />
        </g>
      ))}
    </Chart>
  );
}

/** The frame of a chart: its scale, its times, and the values under the pointer. */
function Chart({ times, label, most, unit, series, children, onPick }: Common & { most: number; unit: string; series: Series[]; children: ReactNode }): ReactNode {
  const [place, setPlace] = useState<number | null>(null);
  const point = (event: PointerEvent<SVGSVGElement>): void => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    setPlace(Math.max(0, Math.min(times.length - 1, Math.floor(((event.clientX - left) / width) * times.length))));
  };
  const shown = place === null ? undefined : times[place];
  return (
    <figure className={onPick === undefined ? "plot" : "plot to"}>
      <div className="scale" aria-hidden="true">
        {[most, most / 2, 0].map((value) => (
          <span key={value}>{withUnit(value, unit)}</span>
        ))}
      </div>
      <div className="drawing">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label} onPointerMove={point} onPointerLeave={() => setPlace(null)} onClick={() => place !== null && onPick?.(place)}>
          {[0, 0.5, 1].map((part) => (
            <line key={part} x1="0" x2={WIDTH} y1={HEIGHT * part} y2={HEIGHT * part} className="grid" />
          ))}
          {place !== null && <rect x={(place * WIDTH) / times.length} width={WIDTH / times.length} height={HEIGHT} className="pointed" />}
          {children}
        </svg>
        {place !== null && shown !== undefined && (
          <div className="tip" style={place < times.length / 2 ? { left: `${((place + 1) / times.length) * 100}%` } : { right: `${(1 - place / times.length) * 100}%` }}>
            <strong>
              {clock(shown)}
              {place === times.length - 1 && " so far"}
            </strong>
            {series.map(({ name, color, values }) => (
              <span key={name}>
                <Swatch color={color} /> {name} <b>{values[place] == null ? "–" : withUnit(values[place], unit)}</b>
              </span>
            ))}
          </div>
        )}
      </div>
      <figcaption className="axis" aria-hidden="true">
        {shownTimes(times).map((at) => (
          <span key={at}>{clock(at)}</span>
        ))}
      </figcaption>
    </figure>
  );
}

export function Swatch({ color }: { color: string }): ReactNode {
  return (
    <svg className="swatch" width="8" height="8" aria-hidden="true">
      <rect width="8" height="8" rx="2" fill={color} />
    </svg>
  );
}

function withUnit(value: number, unit: string): string {
  if (unit === "ms" && value >= 1000) return `${COMPACT.format(value / 1000)} s`;
  const words = value < 1 ? String(Number(value.toPrecision(2))) : COMPACT.format(value);
  return unit === "" ? words : `${words} ${unit}`;
}

/** The first, the last and some between, at the same distance. */
function shownTimes(times: string[]): string[] {
  const count = Math.min(MOST_TIMES, times.length);
  return count < 2 ? times : Array.from({ length: count }, (_, place) => times[Math.round((place * (times.length - 1)) / (count - 1))]!);
}

function pathOf(values: (number | null)[], width: number, most: number): string {
  return values.map((value, place) => (value === null ? "" : `${values[place - 1] == null ? "M" : "L"}${pointAt(value, place, width, most)}`)).join("");
}

/** Points between two gaps, where there is no line. */
function lonePoints(values: (number | null)[], width: number, most: number): string {
  return values.map((value, place) => (value === null || values[place - 1] != null || values[place + 1] != null ? "" : `M${pointAt(value, place, width, most)}h0.01`)).join("");
}

function pointAt(value: number, place: number, width: number, most: number): string {
  return `${((place + 0.5) * width).toFixed(1)} ${(HEIGHT - (value / most) * HEIGHT).toFixed(1)}`;
}

/** A round number that is not less. */
function nice(value: number): number {
  if (value <= 0) return 1;
  const decade = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * decade).find((step) => step >= value) ?? value;
}
