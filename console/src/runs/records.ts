/** Runs as the gateway shows them, and what pages say about them. */
import type { CallRecord } from "../data";
import { took } from "../time";
import type { Tone } from "../parts/badge";

export interface RunRecord {
  id: string;
  kind: string;
  agentEntityId: string | null;
  principal: string | null;
  status: string;
  cycleNumber: number | null;
  summary: string | null;
  /** The beginning of what a response was asked, or of a program. */
  asked: string | null;
  reason: string | null;
  model: string | null;
  stepsTaken: number;
  inputTokens: number | null;
  outputTokens: number | null;
  cachedTokens: number | null;
  cost: number | null;
  modelMs: number | null;
  parked_since: string | null;
  owner: string | null;
  tries: number | null;
  createdAt: string;
  finishedAt: string | null;
}

export interface RunCall extends CallRecord {
  started_at: string | null;
  step: number | null;
  child_run: string | null;
}

export type Item = { type: string; [field: string]: unknown };

export interface StepMessages {
  kept: number;
  sent: Item[];
  instructions: string | null;
  tools: string[] | null;
  toolChoice: string;
  options: Record<string, unknown>;
  leftOut: number;
}

export interface Step {
  n: number;
  items: Item[];
  model: string | null;
  askedAt: string | null;
  firstAt: string | null;
  answeredAt: string | null;
  recordedAt: string | null;
  modelMs: number | null;
  retries: number;
  finish: string | null;
  error: { code: string; message: string } | null;
  inputTokens: number | null;
  outputTokens: number | null;
  cachedTokens: number | null;
  cost: number | null;
  messages?: StepMessages;
  asks?: unknown[];
  log?: string;
  calls: RunCall[];
}

export interface InboxEvent {
  event_id?: string;
  eventId?: string;
  type: string;
  timestamp?: string;
  data: unknown;
}

export interface WholeRun extends RunRecord {
  actions: string[];
  input?: unknown;
  events?: InboxEvent[];
  steps: Step[];
  response?: Record<string, unknown>;
  result?: unknown;
  log?: string;
  error: { code: string; message: string } | null;
  waitsFor: { callId: string; tool: string; status: string; since: string; expiresAt: string | null }[];
  parent: { callId: string; runId: string } | null;
  children: { id: string; kind: string; callId: string; status: string }[];
  calls: RunCall[];
}

export const KINDS = ["cycle", "response", "program", "session"] as const;
export const STATES = ["queued", "running", "parked", "completed", "incomplete", "failed", "cancelled", "interrupted"] as const;

const TONES: Record<string, Tone> = { queued: "busy", running: "busy", parked: "wait", completed: "good", incomplete: "bad", failed: "bad", interrupted: "bad" };

export function toneOfRun(status: string): Tone {
  return TONES[status] ?? "none";
}

/** The word for it: a parked run waits for somebody. */
export function wordOfRun(status: string): string {
  return status === "parked" ? "waiting" : status;
}

export function titleOf(run: RunRecord): string {
  if (run.kind === "cycle") return `${run.agentEntityId ?? "?"}, cycle ${run.cycleNumber ?? "?"}`;
  return `${run.kind[0]!.toUpperCase()}${run.kind.slice(1)}`;
}

/** How long it took, or takes already; a parked run is not at work. */
export function lastedMs(run: RunRecord, now: number): number {
  return Math.max(0, (run.finishedAt === null ? now : Date.parse(run.finishedAt)) - Date.parse(run.createdAt));
}

export function tokensOf({ inputTokens, outputTokens, cachedTokens }: Pick<RunRecord, "inputTokens" | "outputTokens" | "cachedTokens">): string {
  if (inputTokens === null && outputTokens === null) return "";
  const cached = cachedTokens === null || cachedTokens === 0 ? "" : ` (${cachedTokens.toLocaleString()} cached)`;
  return `${(inputTokens ?? 0).toLocaleString()} in${cached}, ${(outputTokens ?? 0).toLocaleString()} out`;
}

/** Money in the unit of the model's `price`; small amounts keep two figures that mean something. */
export function costOf(cost: number | null): string {
  if (cost === null) return "";
  return cost >= 0.01 || cost === 0 ? cost.toFixed(2) : cost.toPrecision(2);
}

/** All calls of the run, those of its steps first. */
export function callsOf(run: WholeRun): RunCall[] {
  return [...run.steps.flatMap((step) => step.calls), ...run.calls];
}

const WAITING = ["pending", "pending_approval", "pending_login", "waiting"];

export function isWaiting(call: RunCall): boolean {
  return WAITING.includes(call.status);
}

export function lastedCall(call: RunCall, now: number): string {
  if (isWaiting(call)) return `waiting ${took(now - Date.parse(call.created_at))}`;
  if (call.execution_time_ms !== null) return took(call.execution_time_ms);
  return call.finished_at === null ? `${took(now - Date.parse(call.started_at ?? call.created_at))} so far` : "";
}

/** What a run was asked, as text; null where that is no text. */
export function promptOf(run: WholeRun): string | null {
  if (run.kind === "program") return typeof (run.input as { code?: unknown } | undefined)?.code === "string" ? (run.input as { code: string }).code : null;
  const texts = Array.isArray(run.input) ? run.input.filter((item) => isItem(item) && item["role"] !== "assistant").map((item) => textOf(item as Item)) : typeof run.input === "string" ? [run.input] : [];
  return texts.length > 0 ? texts.join("\n\n") : null;
}

/** What a run answered: the last that its model said. */
export function answerOf(run: WholeRun): string | null {
  const output = run.response?.["output"];
  const said = [...run.steps.flatMap((step) => step.items), ...(Array.isArray(output) ? (output as Item[]) : [])];
  const messages = said.filter((item) => isItem(item) && item.type === "message").map(textOf);
  return messages.filter((text) => text !== "").at(-1) ?? null;
}

function isItem(value: unknown): value is Item {
  return typeof value === "object" && value !== null;
}

/** The text of an item's parts. */
export function textOf(item: Item): string {
  const parts = item["content"] ?? item["summary"];
  if (typeof parts === "string") return parts;
  if (!Array.isArray(parts)) return typeof item["text"] === "string" ? item["text"] : "";
  return parts.map((part: { text?: unknown; refusal?: unknown; type?: unknown } | null) => String(part?.text ?? part?.refusal ?? `[${String(part?.type ?? "part")}]`)).join("\n");
}
