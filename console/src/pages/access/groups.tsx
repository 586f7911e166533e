import { useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { go } from "../../address";
import { client, useData, type ToolDefinition } from "../../data";
import { useMay } from "../../identity";
import { useAction } from "../../parts/action";
import { Code } from "../../parts/code";
import { Confirm, Dialog } from "../../parts/dialog";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Empty, Fault, Loading, Section } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { toast } from "../../parts/toast";
import { counted, inOneLine, safeText } from "../../safe-text";
import { namesIn } from "./new-key";

interface GroupRecord {
  name: string;
  description: string;
  instructions: string;
  tools?: string[];
  tool_count: number;
  origin: "config" | "api";
  url: string;
}

const MOST = 100;
const COLUMNS: Column<GroupRecord>[] = [
  { id: "name", name: "Group", width: "minmax(100px, 1fr)", sortBy: ({ name }) => name, cell: ({ name }) => <strong className="one-line">{inOneLine(name, 64)}</strong> },
  { id: "about", name: "About", width: "minmax(120px, 2fr)", isWide: true, cell: ({ description }) => <span className="one-line">{inOneLine(description, 300)}</span> },
  { id: "tools", name: "Tools", width: "64px", isNumber: true, sortBy: ({ tool_count }) => tool_count, cell: ({ tool_count }) => tool_count.toLocaleString() },
  { id: "origin", name: "From", width: "96px", isWide: true, cell: ({ origin }) => (origin === "config" ? "config file" : "made here") },
  { id: "url", name: "Address", width: "minmax(120px, 2fr)", isWide: true, cell: ({ url }) => <code className="one-line">{inOneLine(url, 200)}</code> },
];

export function Groups(): ReactNode {
  const isAdmin = useMay("admin");
  const { data, error, mutate } = useData<{ groups: GroupRecord[] }>("/api/v1/groups", { every: 15_000 });
  const [isMaking, setIsMaking] = useState(false);
  return (
    <>
      {isAdmin && (
        <div className="actions start">
          <button type="button" className="primary" onClick={() => setIsMaking(true)}>
            <Icon name="plus" /> Create a group
          </button>
        </div>
      )}
      <DataTable
        label="Groups"
        columns={COLUMNS}
        rows={data?.groups}
        rowKey={({ name }) => name}
        hrefOf={({ name }) => `/access/groups/${encodeURIComponent(name)}`}
        error={error}
        onRetry={() => void mutate()}
        empty={<Empty title="No groups yet">A group is a named part of the catalog with an MCP address of its own, for clients that should see that part only.</Empty>}
      />
      <Dialog title="Create a group" isOpen={isMaking} onClose={() => setIsMaking(false)} isWide>
        <GroupForm
          onSaved={(name) => {
            toast(`Group ${name} made`);
            void mutate();
            go(`/access/groups/${encodeURIComponent(name)}`);
          }}
        />
      </Dialog>
    </>
  );
}

export function GroupPage({ name }: { name: string }): ReactNode {
  const isAdmin = useMay("admin");
  const path = `/api/v1/groups/${encodeURIComponent(name)}`;
  const { data, error, mutate } = useData<{ group: GroupRecord }>(path, { every: 15_000 });
  // The manifest of a group may be a minute old in the browser's cache; a search is not.
  const members = useData<{ tools: ToolDefinition[] }>(data === undefined ? null : `/api/v1/tools/search?group=${encodeURIComponent(name)}&limit=${MOST}`, { every: 15_000 });
  const [open, setOpen] = useState<"edit" | "delete" | null>(null);
  if (data === undefined) {
    if (error?.status === 404) return <Empty title="There is no such group">{error.message}</Empty>;
    return error === undefined ? <Loading what="the group" /> : <Fault error={error} onRetry={() => void mutate()} />;
  }
  const { group } = data;
  const isOurs = isAdmin && group.origin === "api";
  return (
    <>
      <h2>{inOneLine(name, 64)}</h2>
      {group.description !== "" && <p className="text">{safeText(group.description, 2000)}</p>}
      <Facts
        facts={[
          ["From", group.origin === "config" ? "config file" : "made here"],
          ["Made of", group.tools === undefined ? null : <code className="text">{inOneLine(group.tools.join(", ") || "nothing", 2000)}</code>],
        ]}
      />
      <Code text={group.url} label="MCP address" />
      {group.instructions !== "" && <Code text={group.instructions} label="What its clients are told" />}
      {isOurs && (
        <div className="actions start">
          <button type="button" onClick={() => setOpen("edit")}>
            <Icon name="edit" /> Edit
          </button>
          <button type="button" className="danger" onClick={() => setOpen("delete")}>
            <Icon name="bin" /> Delete
          </button>
        </div>
      )}
      {isAdmin && !isOurs && <p className="quiet">It is in the config file: change it there, and reload under Settings, Config.</p>}
      <Section title="Tools in it" count={group.tool_count} nothing="No tool that you see is in it now.">
        <ul className="names">
          {members.data?.tools.map((tool) => (
            <li key={tool.name}>
              <Link href={`/tools/${encodeURIComponent(tool.name)}`}>
                <code>{inOneLine(tool.name, 80)}</code>
              </Link>
            </li>
          ))}
        </ul>
        {group.tool_count > MOST && <p className="quiet">and {counted(group.tool_count - MOST, "more tool")}.</p>}
      </Section>
      <Dialog title={`Edit ${inOneLine(name, 64)}`} isOpen={open === "edit"} onClose={() => setOpen(null)} isWide>
        <GroupForm
          group={group}
          onSaved={() => {
            setOpen(null);
            toast(`Group ${name} changed`);
            void mutate();
            void members.mutate();
          }}
        />
      </Dialog>
      <Confirm
        title={`Delete ${inOneLine(name, 64)}?`}
        verb="Delete"
        isDanger
        isOpen={open === "delete"}
        onClose={() => setOpen(null)}
        onConfirm={async () => {
          await client.delete(path);
          toast(`Group ${name} deleted`);
          go("/access/groups");
        }}
      >
        <p>Clients of its address get an error from now on, and keys that are limited to it see nothing of it. The tools stay.</p>
      </Confirm>
    </>
  );
}

function GroupForm({ group, onSaved }: { group?: GroupRecord; onSaved: (name: string) => void }): ReactNode {
  const [name, setName] = useState(group?.name ?? "");
  const [tools, setTools] = useState((group?.tools ?? []).join("\n"));
  const [description, setDescription] = useState(group?.description ?? "");
  const [instructions, setInstructions] = useState(group?.instructions ?? "");
  const save = useAction();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void save.run(async () => {
      await client.put(`/api/v1/groups/${encodeURIComponent(name.trim())}`, { tools: namesIn(tools), description, instructions });
      onSaved(name.trim());
    });
  };
  return (
    <form className="source-form" onSubmit={submit}>
      {group === undefined && (
        <Field label="Name" hint="1 to 64 letters, digits, _ or -. It is part of the address.">
          <input value={name} required maxLength={64} autoComplete="off" autoFocus onChange={(event) => setName(event.target.value)} />
        </Field>
      )}
      <Field label="Tools" hint="Names, globs and SOURCE:*, one a line, such as hotel_* or github:*.">
        <textarea className="code" rows={5} required value={tools} spellCheck={false} onChange={(event) => setTools(event.target.value)} />
      </Field>
      <Field label="Description">
        <input value={description} maxLength={2000} onChange={(event) => setDescription(event.target.value)} />
      </Field>
      <Field label="Instructions" hint="What clients of its address are told about using it.">
        <textarea rows={3} value={instructions} maxLength={20_000} onChange={(event) => setInstructions(event.target.value)} />
      </Field>
      {save.fault !== null && <Fault error={save.fault} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={save.isBusy}>
          Save group
        </button>
      </div>
    </form>
  );
}
