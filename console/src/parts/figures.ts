/** What `GET /api/v1/overview` answers, and how its figures are shown. Pure. */
import type { Band } from "./charts";

export interface Tally {
  calls: number;
  outcomes: Record<string, number>;
  error_rate: number | null;
  p50_ms: number | null;
  p95_ms: number | null;
  input_tokens: number;
  output_tokens: number;
}

export interface Named extends Tally {
  name: string;
  source: string | null;
}

export interface Figures {
  as_of: string;
  since: string;
  step_seconds: number;
  complete: boolean;
  of: string | null;
  total: Tally;
  series: (Tally & { at: string })[];
  tools: Named[];
  sources: Named[];
  principals: Named[];
  agents: Named[];
}

/** The outcomes of calls, in the order in which they are drawn. */
export const BANDS: readonly Band[] = [
  { name: "completed", color: "var(--chart-3)" },
  { name: "failed", color: "var(--chart-5)" },
  { name: "refused", color: "var(--chart-2)" },
  { name: "rejected", color: "var(--chart-4)" },
  { name: "expired", color: "var(--quiet)" },
  { name: "cancelled", color: "var(--line-strong)" },
];

export function percent(share: number | null): string {
  if (share === null) return "–";
  return `${(share * 100).toLocaleString(undefined, { maximumFractionDigits: share < 0.1 ? 1 : 0 })} %`;
}
