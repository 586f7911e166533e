import { useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { useSpace } from "@jackfield/react";
import { client, useData, type SpaceRecord } from "../data";
import { useMay } from "../identity";
import { Composer } from "../parts/composer";
import { Messages } from "../parts/messages";
import { Empty, Fault, Loading } from "../parts/states";
import { counted, safeText } from "../safe-text";
import { clock } from "../time";

export function SpacesPage(): ReactNode {
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

export function SpacePage({ id }: { id: string }): ReactNode {
  const space = useSpace(id);
  const path = `/api/spaces/${encodeURIComponent(id)}`;
  const { data } = useData<{ space: SpaceRecord }>(path);
  const canSpeak = useMay("call");
  if (space.stream.is === "refused") return <Fault error={space.stream.error} />;
  const thinking = space.active.map((agent) => safeText(agent.agentName, 60));
  return (
    <div className="space">
      <header className="space-head">
        <h1 className="one-line">{safeText(data?.space.name ?? id, 100)}</h1>
        <p aria-live="polite" className="thinking one-line">
          {thinking.length > 0 && `${thinking.join(", ")} ${thinking.length === 1 ? "is" : "are"} thinking …`}
        </p>
        <Members path={path} />
      </header>
      {space.stream.is === "waiting" && (
        <p className="banner" role="status">
          {space.stream.error} Reconnecting …
        </p>
      )}
      <Messages space={space} />
      {canSpeak && <Composer onSend={space.send} />}
    </div>
  );
}

function Members({ path }: { path: string }): ReactNode {
  const { data } = useData<{ members: { entityId: string; name: string; kind: string }[] }>(`${path}/members`, { every: 15_000 });
  const members = data?.members ?? [];
  return (
    <details className="members">
      <summary>{counted(members.length, "member")}</summary>
      <ul>
        {members.map((member) => (
          <li key={member.entityId}>
            {safeText(member.name, 80)} <span className="quiet">{member.kind}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
