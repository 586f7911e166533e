import type { ReactNode } from "react";
import { Bar, BarChart, CartesianGrid, Cell, Legend, Line, LineChart, Pie, PieChart, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import type { ToolProps } from "@jackfield/react";
import { Tree } from "../parts/tree";
import { safeText } from "../safe-text";
import { Table } from "./table";

const COLOURS = ["var(--chart-1)", "var(--chart-2)", "var(--chart-3)", "var(--chart-4)", "var(--chart-5)"];
const MOST_POINTS = 2_000;

interface Drawing {
  kind: "line" | "bar" | "pie";
  title: string;
  rows: Record<string, string | number>[];
  label: string;
  series: string[];
}

/** Argument names for the data; otherwise the first list is used. */
const NAMES = ["data", "values", "points", "bars", "lines", "slices", "series"];

/** `displayChart`: line, bar or pie, from plain data. */
export default function Chart({ call }: ToolProps): ReactNode {
  const drawing = drawingOf(call.args);
  if (drawing === null) return <Tree value={call.args} />;
  return (
    <figure className="chart">
      {drawing.title !== "" && <figcaption>{drawing.title}</figcaption>}
      <ResponsiveContainer width="100%" height={240}>
        {drawn(drawing)}
      </ResponsiveContainer>
      <details>
        <summary>Show as table</summary>
        <Table columns={[drawing.label, ...drawing.series]} rows={drawing.rows.map((row) => [row[drawing.label], ...drawing.series.map((name) => row[name])])} />
      </details>
    </figure>
  );
}

function drawn({ kind, rows, label, series }: Drawing): ReactNode & object {
  if (kind === "pie") {
    return (
      <PieChart>
        <Pie data={rows} dataKey={series[0] ?? "value"} nameKey={label} isAnimationActive={false} label>
          {rows.map((_, place) => (
            <Cell key={place} fill={COLOURS[place % COLOURS.length]!} />
          ))}
        </Pie>
        <Tooltip />
        <Legend />
      </PieChart>
    );
  }
  const Frame = kind === "bar" ? BarChart : LineChart;
  return (
    <Frame data={rows}>
      <CartesianGrid stroke="var(--line)" vertical={false} />
      <XAxis dataKey={label} stroke="var(--quiet)" fontSize={13} {...(rows.length <= 6 ? { interval: 0, tickFormatter: short } : {})} />
      <YAxis stroke="var(--quiet)" fontSize={13} width={56} />
      <Tooltip />
      {series.length > 1 && <Legend />}
      {series.map((name, place) =>
        kind === "bar" ? (
          <Bar key={name} maxBarSize={72} dataKey={name} fill={COLOURS[place % COLOURS.length]!} isAnimationActive={false} />
        ) : (
          <Line key={name} dataKey={name} stroke={COLOURS[place % COLOURS.length]!} isAnimationActive={false} dot={rows.length < 50} />
        ),
      )}
    </Frame>
  );
}

function short(label: unknown): string {
  const text = String(label);
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}

/** What the arguments ask for: rows of objects, plain numbers, pairs, or `labels` beside `values`. */
export function drawingOf(args: unknown): Drawing | null {
  const given = (args ?? {}) as Record<string, unknown>;
  const data = NAMES.map((name) => given[name]).find((value) => value !== undefined) ?? Object.values(given).find(Array.isArray);
  const rows = rowsOf(data, given["labels"]);
  if (rows === null || rows.length === 0) return null;
  const keys = Object.keys(rows[0] ?? {});
  const series = keys.filter((key) => rows.every((row) => row[key] === undefined || typeof row[key] === "number"));
  const label = keys.find((key) => !series.includes(key)) ?? keys[0] ?? "label";
  const values = series.filter((key) => key !== label).slice(0, 8);
  if (values.length === 0) return null;
  const asked = String(given["type"] ?? given["chartType"] ?? given["kind"] ?? "bar");
  const kind = asked === "line" || asked === "pie" ? asked : "bar";
  return { kind, title: safeText(String(given["title"] ?? ""), 200), rows, label, series: values };
}

function rowsOf(data: unknown, labels: unknown): Record<string, string | number>[] | null {
  if (data !== null && typeof data === "object" && !Array.isArray(data)) {
    const inner = data as Record<string, unknown>;
    if (Array.isArray(inner["values"])) return rowsOf(inner["values"], inner["labels"] ?? labels);
    return rowsOf(Object.entries(inner).map(([label, value]) => ({ label, value })), labels);
  }
  if (!Array.isArray(data)) return null;
  const names = Array.isArray(labels) ? labels : [];
  return data.slice(0, MOST_POINTS).map((item: unknown, place) => {
    if (typeof item === "number") return { label: cell(names[place] ?? place + 1), value: item };
    if (Array.isArray(item)) return { label: cell(item[0]), value: Number(item[1]) };
    const row: Record<string, string | number> = {};
    for (const [key, value] of Object.entries((item ?? {}) as object)) row[safeText(key, 60)] = cell(value);
    return row;
  });
}

function cell(value: unknown): string | number {
  return typeof value === "number" ? value : safeText(String(value ?? ""), 80);
}
