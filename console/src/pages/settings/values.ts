/** What `GET /api/v1/config` answers: every value in force by its key. Pure. */

export interface ConfigValue {
  key: string;
  value: unknown;
  origin: "file" | "default" | "environment" | "command_line" | "api";
  given_by: string | null;
}

export interface ConfigRecord {
  path: string | null;
  read_at: string;
  error: string | null;
  restart_needed: string[];
  differs: Record<string, string[]>;
  values: ConfigValue[];
}

const UNITS: readonly (readonly [RegExp, string])[] = [
  [/^hooks\[\d+\]\.timeout$|^tools\[\d+\]\.timeout$|\.tools\.[^.]+\.timeout$/, "ms"],
  [/(^|\.)(timeout|[a-z]+_timeout|give_up_after|grace|patience|retry_delay|max_retry_delay|breaker_seconds|cpu)$/, "s"],
  [/^(store|audit)\.keep$/, "days"],
  [/(^|\.)(max_body|large_result|file_size|memory)$/, "bytes"],
  [/(^|\.)memory_mb$/, "MB"],
  [/_tokens$/, "tokens"],
  [/rate_limit_per_minute$/, "a minute"],
  [/(^|\.)budget$/, "cost points an hour"],
];

/** What a number under this key counts; "" where it is a plain number. */
export function unitOf(key: string): string {
  return UNITS.find(([keys]) => keys.test(key))?.[1] ?? "";
}

/** The tables below a key, such as `auth.roles`, by name; a field is what follows the last dot. */
export function tablesIn(values: readonly ConfigValue[], prefix: string): { name: string; fields: Record<string, unknown> }[] {
  const tables = new Map<string, Record<string, unknown>>();
  for (const { key, value } of values) {
    if (!key.startsWith(`${prefix}.`)) continue;
    const rest = key.slice(prefix.length + 1);
    const end = rest.lastIndexOf(".");
    if (end < 0) continue;
    const name = rest.slice(0, end);
    tables.set(name, { ...tables.get(name), [rest.slice(end + 1)]: value });
  }
  return [...tables].map(([name, fields]) => ({ name, fields }));
}
