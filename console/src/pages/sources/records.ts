/** What `/api/v1/sources` and its neighbours answer. */

export interface SourceRecord {
  name: string;
  kind: string;
  origin: "config" | "api" | "builtin";
  status: string;
  error: string | null;
  doing: string | null;
  stderr: string[];
  faults: string[];
  tools: string[];
  prompts: string[];
  resources: number;
  templates: number;
  calls: number;
  since: string | null;
  checked_at: string | null;
  listed_at: string | null;
  reconnects: number;
  settings: Record<string, unknown> | null;
}

export interface SourceTest {
  ok: boolean;
  error: string | null;
  tools: { name: string; description: string }[];
  resources: number;
  prompts: number;
  faults: string[];
  stderr: string[];
}

/** What would come of a tool, if it was kept. */
export interface ToolTest {
  ok: boolean;
  name: string;
  notices: string[];
  server: string | null;
  error: string | null;
}

export interface Change {
  name: string;
  kind: "tool" | "prompt" | "template";
  key: string;
  source: string;
  held: boolean;
  digest: string;
  pinned: unknown;
  offered: unknown;
  diff: string;
  refused_by: string | null;
  refused_at: string | null;
}

export interface SwitchRecord {
  kind: "tool" | "source" | "key";
  name: string;
  enabled: boolean;
  reason?: string;
  by?: string;
  at?: string;
}

export const ORIGINS: Record<string, string> = { config: "config file", api: "made here", builtin: "built in" };

export function sourcePath(name: string): string {
  return `/api/v1/sources/${encodeURIComponent(name)}`;
}
