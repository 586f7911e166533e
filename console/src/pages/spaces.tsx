import { lazy, Suspense, useCallback, useEffect, useLayoutEffect, useRef, useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { VList, type VListHandle } from "virtua";
import { toolCallOf, useSpace, type InFlight, type SpaceMessage } from "@jackfield/react";
import { client, useData, type SpaceRecord } from "../data";
import { may, type Known } from "../identity";
import { CallCard, type ShownCall } from "../parts/call-card";
import { Empty, Fault, Loading } from "../parts/states";
import { Tree } from "../parts/tree";
import { safeText } from "../safe-text";
import { clock } from "../time";
import { useWaiting } from "../waiting-list";

const Markdown = lazy(() => import("../parts/markdown"));

export function SpacesPage(): ReactNode {
  const { data, error, mutate } = useData<{ spaces: SpaceRecord[] }>("/api/spaces", { every: 10_000 });
  if (error !== undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="spaces" />;
  return (
    <div className="page">
      <h1>Spaces</h1>
      {data.spaces.length === 0 && (
        <Empty title="No space yet">
          Give an agent one in the config, <code>spaces = ["lobby"]</code>, or make one here.
        </Empty>
      )}
      <ul className="list">
        {data.spaces.map((space) => (
          <li key={space.id}>
            <Link href={`/spaces/${encodeURIComponent(space.id)}`}>
              <strong>{safeText(space.name, 100)}</strong>
              <span className="quiet">{safeText(space.description, 200) || space.id}</span>
            </Link>
          </li>
        ))}
      </ul>
      <NewSpace onMade={() => void mutate()} />
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
      <button type="submit">Make it</button>
      {fault !== null && <Fault error={fault} />}
    </form>
  );
}

export function SpacePage({ id, identity }: { id: string; identity: Known }): ReactNode {
  const space = useSpace(id);
  const { data } = useData<{ space: SpaceRecord }>(`/api/spaces/${encodeURIComponent(id)}`);
  const { data: members } = useData<{ members: { entityId: string; name: string; kind: string }[] }>(`/api/spaces/${encodeURIComponent(id)}/members`, { every: 15_000 });
  const waiting = useWaiting();
  const canAnswer = may(identity, "answer");
  const needing = new Map(waiting.calls.map((call) => [call.id, call]));
  const shown = useCallback(
    (message: SpaceMessage): ShownCall | null => {
      const call = toolCallOf(message);
      if (call === null) return null;
      const record = needing.get(call.toolCallId);
      return { ...call, needsApproval: record?.status === "pending_approval", until: record?.deadline ?? record?.expires_at ?? null };
    },
    [waiting.calls],
  );
  if (space.stream.is === "refused") return <Fault error={space.stream.error} />;
  const thinking = space.active.map((agent) => agent.agentName);
  return (
    <div className="space">
      <header className="space-head">
        <h1>{safeText(data?.space.name ?? id, 100)}</h1>
        <p aria-live="polite" className="thinking">
          {thinking.length > 0 && <>{thinking.map((name) => safeText(name, 60)).join(", ")} thinking …</>}
        </p>
        <details className="members">
          <summary>{members?.members.length ?? 0} members</summary>
          <ul>
            {members?.members.map((member) => (
              <li key={member.entityId}>
                {safeText(member.name, 80)} <span className="quiet">{member.kind}</span>
              </li>
            ))}
          </ul>
        </details>
      </header>
      {space.stream.is === "waiting" && (
        <p className="banner" role="status">
          {space.stream.error} Trying again …
        </p>
      )}
      <Messages space={space} shown={shown} canAnswer={canAnswer} />
      {may(identity, "call") && <Composer onSend={space.send} />}
    </div>
  );
}

type Row = { key: string; message: SpaceMessage } | { key: string; flying: InFlight };

function Messages({ space, shown, canAnswer }: { space: ReturnType<typeof useSpace>; shown: (message: SpaceMessage) => ShownCall | null; canAnswer: boolean }): ReactNode {
  const list = useRef<VListHandle>(null);
  const isAtEnd = useRef(true);
  const known = new Set(space.messages.map((message) => message.id));
  const rows: Row[] = [
    ...space.messages.map((message) => ({ key: message.id, message })),
    ...space.inFlight.filter((one) => one.kind === "message" || !known.has(`msg_${one.streamId}`)).map((flying) => ({ key: flying.streamId, flying })),
  ];
  const length = rows.length;
  const growing = space.inFlight.reduce((sum, one) => sum + one.text.length, 0);
  useLayoutEffect(() => {
    if (isAtEnd.current && length > 0) list.current?.scrollToIndex(length - 1, { align: "end" });
  }, [length, growing]);
  const onScroll = (offset: number): void => {
    const at = list.current;
    if (at !== null) isAtEnd.current = offset + at.viewportSize >= at.scrollSize - 40;
  };
  if (space.stream.is === "live" && length === 0) {
    return (
      <div className="messages">
        <Empty title="Nothing was said here yet">Write something below. Agents that are members wake up and answer.</Empty>
      </div>
    );
  }
  return (
    <div className="messages" role="log" aria-label="Messages">
      {space.hasEarlier && (
        <button type="button" className="plain earlier" onClick={() => void space.loadEarlier()}>
          Earlier messages
        </button>
      )}
      <VList ref={list} onScroll={onScroll} className="vlist">
        {rows.map((row) => ("message" in row ? <MessageRow key={row.key} message={row.message} call={shown(row.message)} canAnswer={canAnswer} /> : <FlyingRow key={row.key} flying={row.flying} />))}
      </VList>
    </div>
  );
}

function MessageRow({ message, call, canAnswer }: { message: SpaceMessage; call: ShownCall | null; canAnswer: boolean }): ReactNode {
  return (
    <div className={`message ${message.senderType}`} data-seq={message.seq}>
      <div className="message-head">
        <strong>{safeText(message.senderName, 80)}</strong>
        <time dateTime={message.createdAt}>{clock(message.createdAt)}</time>
      </div>
      {call === null ? (
        <Suspense fallback={<p className="text">{safeText(message.content)}</p>}>
          <Markdown text={message.content} />
        </Suspense>
      ) : (
        <CallCard call={call} canAnswer={canAnswer} />
      )}
    </div>
  );
}

function FlyingRow({ flying }: { flying: InFlight }): ReactNode {
  return (
    <div className="message agent flying">
      <div className="message-head">
        <strong>{safeText(flying.agentEntityId, 80)}</strong>
      </div>
      {flying.kind === "message" ? (
        <p className="text">
          {safeText(flying.text)}
          <span className="caret" aria-hidden="true" />
        </p>
      ) : (
        <article className="card running" aria-label={`${flying.toolName ?? ""}: being written`}>
          <header>
            <span>{safeText(flying.toolName ?? "", 80)}</span>
            <span className="state-word running">being written</span>
          </header>
          <div className="card-body">
            <Tree value={flying.partialArgs ?? {}} />
          </div>
        </article>
      )}
    </div>
  );
}

function Composer({ onSend }: { onSend: (text: string) => Promise<void> }): ReactNode {
  const [text, setText] = useState("");
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const area = field.current;
    if (area === null) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, 200)}px`;
  }, [text]);
  const send = async (event?: FormEvent): Promise<void> => {
    event?.preventDefault();
    if (text.trim() === "" || isBusy) return;
    setIsBusy(true);
    try {
      await onSend(text);
      setText("");
      setFault(null);
    } catch (refusal) {
      setFault(refusal as Error);
    } finally {
      setIsBusy(false);
      field.current?.focus();
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void send();
    }
  };
  return (
    <form className="composer" onSubmit={(event) => void send(event)}>
      {fault !== null && <Fault error={fault} />}
      <label className="hidden" htmlFor="composer">
        Message
      </label>
      <textarea id="composer" ref={field} rows={1} value={text} placeholder="Message …" onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
      <button type="submit" className="primary" disabled={isBusy || text.trim() === ""}>
        Send
      </button>
    </form>
  );
}
