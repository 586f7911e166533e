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
