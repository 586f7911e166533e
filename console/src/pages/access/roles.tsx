import { useMemo, type ReactNode } from "react";
import { useData } from "../../data";
import { Empty } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { inOneLine } from "../../safe-text";
import { tablesIn, type ConfigRecord } from "../settings/values";

interface Role {
  name: string;
  fields: Record<string, unknown>;
}

function words(value: unknown, none: string): string {
  return Array.isArray(value) ? inOneLine(value.join(", ") || "none", 300) : none;
}

function whoHas({ groups, emails }: Record<string, unknown>): string {
  return [groups, emails]
    .flatMap((names) => (Array.isArray(names) ? (names as unknown[]).map(String) : []))
    .map((name) => (name === "*" ? "everybody who signed in" : name))
    .join(", ");
}

const COLUMNS: Column<Role>[] = [
  { id: "name", name: "Role", width: "minmax(100px, 1fr)", sortBy: ({ name }) => name, cell: ({ name }) => <strong className="one-line">{inOneLine(name, 64)}</strong> },
  { id: "who", name: "Who has it", width: "minmax(120px, 2fr)", cell: ({ fields }) => <span className="text">{inOneLine(whoHas(fields), 400)}</span> },
  { id: "may", name: "May", width: "minmax(80px, 1fr)", cell: ({ fields }) => words(fields["scopes"], "call") },
  { id: "tools", name: "Tools", isWide: true, cell: ({ fields }) => words(fields["tools"], "all") },
  { id: "groups", name: "Groups of tools", isWide: true, cell: ({ fields }) => words(fields["groups_of_tools"], "all") },
  { id: "agents", name: "Agents", isWide: true, cell: ({ fields }) => words(fields["agents"], "all") },
  { id: "spaces", name: "Spaces", isWide: true, cell: ({ fields }) => words(fields["spaces"], "all") },
];

/** The roles of the config: who has each, and what it allows. */
export function Roles(): ReactNode {
  const { data, error, mutate } = useData<ConfigRecord>("/api/v1/config");
  const roles = useMemo(() => (data === undefined ? undefined : tablesIn(data.values, "auth.roles")), [data]);
  return (
    <DataTable
      label="Roles"
      columns={COLUMNS}
      rows={roles}
      rowKey={({ name }) => name}
      error={error}
      onRetry={() => void mutate()}
      empty={
        <Empty title="No roles">
          Write <code>[auth.roles.NAME]</code> with <code>groups</code> or <code>emails</code> and <code>scopes</code> into the config file.
        </Empty>
      }
    />
  );
}
