import { useEffect, useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { useSpace, type ActiveAgent } from "@jackfield/react";
import { SpaceVoice } from "../apps/known";
import { connection, useConnection } from "../connection";
import { client, useData, type SpaceRecord } from "../data";
import { useMay } from "../identity";
import { Composer } from "../parts/composer";
import { Messages } from "../parts/messages";
import { Empty, Fault, Loading } from "../parts/states";
import { toast } from "../parts/toast";
import { counted, safeText } from "../safe-text";
import { clock } from "../time";
import "../style/spaces.css";

/** All spaces, or one with its messages. */
export default function SpacesPage({ id }: { id?: string | undefined }): ReactNode {
  return id === undefined ? <All /> : <SpacePage key={id} id={id} />;
}

function All(): ReactNode {
  const { data, error, mutate } = useData<{ spaces: SpaceRecord[] }>("/api/spaces", { every: 10_000 });
  const canMake = useMay("admin");
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="spaces" />;
  return (
    <div className="page">
      <h1>Spaces</h1>
      {data.spaces.length === 0 && (
        <Empty title="No spaces yet">
          Add one to an agent in the config, <code>spaces = ["lobby"]</code>
          {canMake && ", or create one here"}.
        </Empty>
      )}
      <ul className="list">
        {data.spaces.map((space) => (
          <li key={space.id}>
            <Link href={`/spaces/${encodeURIComponent(space.id)}`}>
              <span className="run-line">
                <strong className="one-line">{safeText(space.name, 100)}</strong>
                <time className="quiet" dateTime={space.updatedAt}>
                  {clock(space.updatedAt)}
                </time>
              </span>
              <span className="quiet one-line">{safeText(space.description, 200) || subtitle(space)}</span>
            </Link>
          </li>
        ))}
      </ul>
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

function subtitle(space: SpaceRecord): string {
  if (space.lastSeq === 0) return "no messages yet";
  return space.id === space.name ? "" : space.id;
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
