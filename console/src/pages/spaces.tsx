import { useEffect, useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { useSpace, type ActiveAgent } from "@jackfield/react";
import { SpaceVoice } from "../apps/known";
import { connection, useConnection } from "../connection";
import { client, useData, type ListedSpace, type SpaceRecord } from "../data";
import { useMay } from "../identity";
import { Composer } from "../parts/composer";
import { Messages } from "../parts/messages";
import { Moment } from "../parts/moment";
import { Empty, Fault } from "../parts/states";
import { DataTable, type Column } from "../parts/table";
import { toast } from "../parts/toast";
import { counted, inOneLine, safeText } from "../safe-text";
import "../style/fields.css";
import "../style/spaces.css";

/** All spaces, or one with its messages. */
export default function SpacesPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <SpacePage key={id} id={id} />;
}

const COLUMNS: Column<ListedSpace>[] = [
  {
    id: "name",
    name: "Space",
    width: "minmax(140px, 1fr)",
    sortBy: ({ name }) => name,
    cell: (space) => {
      const { id, name, description } = space;
      return (
        <span className="name-and-says">
          <strong className="one-line">{safeText(name, 100)}</strong>
          {(description !== "" || id !== name) && <span className="quiet one-line">{inOneLine(description, 200) || inOneLine(id, 80)}</span>}
          <span className="quiet one-line narrow-only">{saidLast(space)}</span>
        </span>
      );
    },
  },
  {
    id: "said",
    name: "Last message",
    width: "minmax(120px, 3fr)",
    isWide: true,
    cell: (space) => <span className="quiet one-line">{saidLast(space)}</span>,
  },
  { id: "members", name: "Members", width: "80px", isNumber: true, isWide: true, sortBy: ({ members }) => members, cell: ({ members }) => members.toLocaleString() },
  { id: "at", name: "Last activity", width: "112px", isNumber: true, sortBy: activityOf, cell: (space) => <Moment at={activityOf(space)} /> },
];

function saidLast({ lastMessage }: ListedSpace): string {
  return lastMessage === null ? "no messages yet" : `${inOneLine(lastMessage.senderName, 60)}: ${lastMessage.toolName === null ? inOneLine(lastMessage.content, 200) : `called ${inOneLine(lastMessage.toolName, 80)}`}`;
}

function activityOf({ lastMessage, updatedAt }: ListedSpace): string {
  return lastMessage?.createdAt ?? updatedAt;
}

function All(): ReactNode {
  const { data, error, mutate } = useData<{ spaces: ListedSpace[] }>("/api/spaces", { every: 10_000 });
  const canMake = useMay("admin");
  return (
    <div className="page">
      <h1>Spaces</h1>
      <DataTable
        label="Spaces"
        columns={COLUMNS}
        rows={data?.spaces}
        rowKey={({ id }) => id}
        hrefOf={({ id }) => `/spaces/${encodeURIComponent(id)}`}
        sort="-at"
        error={error}
        onRetry={() => void mutate()}
        empty={
          <Empty title="No spaces yet">
            Add one to an agent in the config, <code>spaces = ["lobby"]</code>
            {canMake && ", or create one here"}.
          </Empty>
        }
      />
      {canMake && <NewSpace onMade={() => void mutate()} />}
    </div>
  );
}

function NewSpace({ onMade }: { onMade: () => void }): ReactNode {
  const [name, setName] = useState("");
  const [fault, setFault] = useState<Error | null>(null);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      await client.post("/api/spaces", { name });
      setName("");
      setFault(null);
      onMade();
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  return (
    <form className="inline-form" onSubmit={(event) => void send(event)}>
      <label htmlFor="space-name">New space</label>
      <input id="space-name" value={name} placeholder="Name" onChange={(event) => setName(event.target.value)} required />
      <button type="submit">Create</button>
      {fault !== null && <Fault error={fault} />}
    </form>
  );
}

function SpacePage({ id }: { id: string }): ReactNode {
  const space = useSpace(id);
  const path = `/api/spaces/${encodeURIComponent(id)}`;
  const { data } = useData<{ space: SpaceRecord }>(path);
  const canSpeak = useMay("call");
  const { isAway } = useConnection();
  const isCut = space.stream.is === "waiting";
  useEffect(() => void (isCut && connection.suspect()), [isCut]);
  if (space.stream.is === "refused") return <Fault error={space.stream.error} />;
  const thinking = space.active.map((agent) => safeText(agent.agentName, 60));
  return (
    <div className="space">
      <header className="space-head">
        <nav aria-label="Breadcrumb">
          <Link href="/spaces">Spaces</Link>
        </nav>
        <h1 className="one-line">{safeText(data?.space.name ?? id, 100)}</h1>
        <p aria-live="polite" className="thinking one-line">
          {thinking.length > 0 && `${thinking.join(", ")} ${thinking.length === 1 ? "is" : "are"} thinking …`}
        </p>
        {canSpeak && space.active.map((agent) => <Stop key={agent.runId} agent={agent} />)}
        <Members path={path} />
      </header>
      {space.stream.is === "waiting" && !isAway && (
        <p className="banner" role="status">
          {space.stream.error} Reconnecting …
        </p>
      )}
      <SpaceVoice value={canSpeak ? space.send : null}>
        <Messages space={space} />
      </SpaceVoice>
      {canSpeak && <Composer onSend={space.send} />}
    </div>
  );
}

/** Ends what an agent is doing. */
function Stop({ agent }: { agent: ActiveAgent }): ReactNode {
  const [isBusy, setIsBusy] = useState(false);
  const stop = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await client.post(`/api/runs/${encodeURIComponent(agent.runId)}/cancel`, {});
      toast(`${safeText(agent.agentName, 60)} is stopped.`);
    } catch (fault) {
      toast((fault as Error).message, { isFault: true });
      setIsBusy(false);
    }
  };
  return (
    <button type="button" className="small" disabled={isBusy} onClick={() => void stop()}>
      Stop {safeText(agent.agentName, 40)}
    </button>
  );
}

interface Member {
  entityId: string;
  name: string;
  kind: string;
}

/** Who is in the space; an administrator adds and removes members here. */
function Members({ path }: { path: string }): ReactNode {
  const { data, mutate } = useData<{ members: Member[] }>(`${path}/members`, { every: 15_000 });
  const isAdmin = useMay("admin");
  const members = data?.members ?? [];
  const act = async (what: () => Promise<unknown>): Promise<void> => {
    try {
      await what();
    } catch (fault) {
      toast((fault as Error).message, { isFault: true });
    }
    await mutate();
  };
  return (
    <details className="members">
      <summary>{counted(members.length, "member")}</summary>
      <ul>
        {members.map((member) => (
          <li key={member.entityId}>
            {member.kind === "agent" ? <Link href={`/agents/${encodeURIComponent(member.entityId)}`}>{safeText(member.name, 80)}</Link> : safeText(member.name, 80)} <span className="quiet">{member.kind}</span>
            {isAdmin && (
              <button type="button" className="plain" aria-label={`Remove ${safeText(member.name, 80)}`} onClick={() => void act(() => client.delete(`${path}/members/${encodeURIComponent(member.entityId)}`))}>
                Remove
              </button>
            )}
          </li>
        ))}
        {isAdmin && (
          <li>
            <AddMember onAdd={(entityId) => act(() => client.post(`${path}/members`, { entityId }))} />
          </li>
        )}
      </ul>
    </details>
  );
}

function AddMember({ onAdd }: { onAdd: (entityId: string) => Promise<void> }): ReactNode {
  const [name, setName] = useState("");
  const { data } = useData<{ agents: { id: string }[] }>("/api/agents");
  const add = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    await onAdd(name.trim());
    setName("");
  };
  return (
    <form className="add-member" onSubmit={(event) => void add(event)}>
      <input aria-label="New member" placeholder="Agent or person" list="known-agents" value={name} onChange={(event) => setName(event.target.value)} required />
      <datalist id="known-agents">
        {data?.agents.map((agent) => (
          <option key={agent.id} value={agent.id} />
        ))}
      </datalist>
      <button type="submit" className="small">
        Add
      </button>
    </form>
  );
}
