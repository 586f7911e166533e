import { useMemo } from "react";
import useSWR, { mutate, type SWRConfiguration, type SWRResponse } from "swr";
import { Client, GatewayError } from "@jackfield/react";
import { connection } from "./connection";

export const client = new Client();

/** Who asks for the same within this shares an answer. Longer, and a list would still show what has just been removed. */
const TOGETHER_MS = 50;

/** GETs a path, with a cache: shows the last known data at once and revalidates in the background. */
export function useData<T>(path: string | null, options: { every?: number; once?: boolean } = {}): SWRResponse<T, GatewayError> {
  const again = options.once !== true;
  return useSWR<T, GatewayError>(path, (where: string) => client.get<T>(where), {
    revalidateOnFocus: again,
    revalidateOnReconnect: again,
    revalidateIfStale: again,
    refreshInterval: options.every ?? 0,
    keepPreviousData: true,
    dedupingInterval: TOGETHER_MS,
    shouldRetryOnError: (fault: GatewayError) => fault.status >= 500,
  });
}

/** While the gateway is away nothing is asked: what is shown stays, and the page says as of when it is. */
export const AWAY: Pick<SWRConfiguration, "isPaused"> = { isPaused: () => connection.now().isAway };
connection.onReturn(() => void mutate(() => true));

export interface CallRecord {
  id: string;
  run_id: string;
  tool: string;
  source: string;
  arguments: Record<string, unknown>;
  /** The requested arguments; an approver may have edited them. */
  asked_arguments?: Record<string, unknown>;
  principal: string;
  agent: string | null;
  space_id: string | null;
  status: string;
  result: unknown;
  error: { code: string; message: string } | null;
  created_at: string;
  finished_at: string | null;
  deadline: string | null;
  expires_at: string | null;
  execution_time_ms: number | null;
  callback_url: string | null;
  approval_url: string | null;
  answer_schema?: Record<string, unknown> | null;
  decision?: "approved" | "rejected" | "expired" | null;
  decided_by?: string | null;
  decided_at?: string | null;
  answered_by?: string | null;
  /** How its outcome gets to whoever asked: with the response, to an agent's inbox, … */
  delivery?: string | null;
  verified_by?: string | null;
  /** Of a refused call: how often it was refused within a minute. */
  count?: number;
  waits_for?: "question" | null;
  /** While the call is pending_login: the login that it waits for. */
  login?: { source: string; principal: string | null; scopes: string[] } | null;
  /** Where to make that login; only for users who may. */
  login_url?: string | null;
  /** Traceback of a tool file; only in the record of a single call, for administrators. */
  trace?: string | null;
  kind?: "tool" | "resource" | "prompt";
  tool_version?: string;
  attempt?: number;
  trace_id?: string | null;
  /** The call that was made again with this one. */
  replay_of?: string | null;
  hooks?: { name: string; on: string; decision: string; reason: string | null; ms: number }[];
  /** In brief lists: which of the arguments and the result are too long for them. */
  left_out?: string[];
  /** Only in the record of a single call: what happened to it, in its order. */
  timeline?: { step: string; at: string | null; by: string | null; note: string | null }[];
}

export interface SourceStatus {
  name: string;
  kind: string;
  status: string;
  error: string | null;
  tools: number;
  resources: number;
  templates: number;
  prompts: number;
  faults?: string[];
  /** Quarantined: what waits for a person to accept its new definition. */
  held?: string[];
  doing?: string;
  stderr?: string[];
}

/** What `/readyz` says; `useConnection().ready` has the last answer, at most a few seconds old. */
export interface Readiness {
  status: string;
  store: string;
  version?: string;
  /** Not included for session keys. */
  sources?: SourceStatus[];
}

export interface ToolDefinition {
  name: string;
  description: string;
  category: string | null;
  source: string;
  version: string;
  parameters: Record<string, unknown>;
  metadata: Record<string, unknown>;
}

export interface SpaceRecord {
  id: string;
  name: string;
  description: string;
  lastSeq: number;
  updatedAt: string;
}

/** A space in the list of all. */
export interface ListedSpace extends SpaceRecord {
  members: number;
  lastMessage: { senderName: string; content: string; toolName: string | null; createdAt: string } | null;
}

export interface AgentRecord {
  id: string;
  name: string;
  description: string;
  [field: string]: unknown;
}

/** Names of the tools found by the gateway's search; empty while loading and for an empty query. */
export function useFoundTools(words: string): ReadonlySet<string> {
  const wanted = words.trim().slice(0, 1000);
  const { data } = useData<{ tools: ToolDefinition[] }>(wanted === "" ? null : `/api/v1/tools/search?q=${encodeURIComponent(wanted)}&limit=100`);
  return useMemo(() => new Set(data?.tools.map((tool) => tool.name)), [data]);
}
