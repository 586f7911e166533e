import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { VList, type VListHandle } from "virtua";
import { toolCallOf, type InFlight, type Space, type SpaceMessage } from "@jackfield/react";
import { KeepInList } from "../apps/known";
import { CallCard } from "./call-card";
import { MessageText, MessageTools } from "./message-tools";
import { Empty } from "./states";
import { Tree } from "./tree";
import { inOneLine, safeText } from "../safe-text";
import { clock } from "../time";

type Row = { key: string; message: SpaceMessage; isNext: boolean } | { key: string; flying: InFlight; name: string };

const NEAR_END = 40;
const NEAR_START = 600;
const ONE_TURN_MS = 5 * 60_000;
/** Apps that go on while they are out of view, the last ones seen. */
const MOST_KEPT = 10;

/** The messages, newest at the bottom. The scroll position is kept when new ones arrive. */
export function Messages({ space }: { space: Space }): ReactNode {
  const rows = useRows(space);
  const list = useRef<VListHandle>(null);
  const frame = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const offset = useRef(0);
  const firstSeq = useRef(0);
  const [hasNew, setHasNew] = useState(false);

  const first = space.messages[0]?.seq ?? 0;
  const isLonger = first < firstSeq.current; // earlier messages were prepended: keep the position relative to the end
  const last = rows.at(-1)?.key;
  // Immediate: the list's smooth scrolling would fight with a user who scrolls up.
  const toEnd = (): void => {
    const box = frame.current?.querySelector(".vlist");
    if (box != null) box.scrollTop = box.scrollHeight;
  };
  useLayoutEffect(() => {
    firstSeq.current = first;
  }, [first]);
  useLayoutEffect(() => {
    if (isAtEnd.current) toEnd();
    else setHasNew(true);
  }, [last]);
  useStickyEnd(frame, isAtEnd, toEnd, rows.length > 0);
  const { keep, keptRows } = useKept(rows);

  const onScroll = (now: number): void => {
    const at = list.current;
    if (at === null) return;
    const below = at.scrollSize - at.viewportSize - now;
    if (below <= 2 || (below <= NEAR_END && now >= offset.current)) {
      isAtEnd.current = true;
      setHasNew(false);
    } else if (now < offset.current - 1) isAtEnd.current = false;
    offset.current = now;
    if (now < NEAR_START && space.hasEarlier) void space.loadEarlier().catch(() => undefined);
  };
  const goToEnd = (): void => {
    isAtEnd.current = true;
    setHasNew(false);
    toEnd();
  };

  if (rows.length === 0) {
    return (
      <div className="messages">
        {space.stream.is === "live" && <Empty title="No messages yet">Write something below. Agents that are members will answer.</Empty>}
        <Arrivals space={space} />
      </div>
    );
  }
  return (
    <KeepInList value={keep}>
      <div className="messages" ref={frame}>
        <VList ref={list} data={rows} keepMounted={keptRows} shift={isLonger} onScroll={onScroll} className="vlist" tabIndex={0} role="region" aria-label="Messages">
          {(row) => ("message" in row ? <MessageRow key={row.key} message={row.message} isNext={row.isNext} /> : <FlyingRow key={row.key} flying={row.flying} name={row.name} />)}
        </VList>
        {hasNew && (
          <button type="button" className="new-messages" onClick={goToEnd}>
            New messages ↓
          </button>
        )}
        <Arrivals space={space} />
      </div>
    </KeepInList>
  );
}

/** The rows whose apps are to stay, and how an app asks for it. */
function useKept(rows: readonly Row[]): { keep: (callId: string) => void; keptRows: number[] } {
  const [kept, setKept] = useState<readonly string[]>([]);
  const keep = useCallback((callId: string) => setKept((now) => (now.includes(callId) ? now : [...now, callId].slice(-MOST_KEPT))), []);
  const keptRows = useMemo(() => {
    if (kept.length === 0) return [];
    return rows.flatMap((row, place) => ("message" in row && kept.includes(toolCallOf(row.message)?.toolCallId ?? "") ? [place] : []));
  }, [rows, kept]);
  return { keep, keptRows };
}

function useRows({ messages, inFlight, active }: Space): Row[] {
  // A row that shows its sender keeps showing it when earlier messages are loaded; otherwise the rows below would move.
  const named = useRef(new Set<string>());
  const said = useMemo(
    () =>
      messages.map((message, place): Row => {
        const isNext = !named.current.has(message.id) && isSameTurn(messages[place - 1], message);
        if (!isNext) named.current.add(message.id);
        return { key: message.id, message, isNext };
      }),
    [messages],
  );
  return useMemo(() => {
    if (inFlight.length === 0) return said;
    const calls = new Set(messages.slice(-50).map((message) => toolCallOf(message)?.toolCallId));
    const flying = inFlight.filter((one) => one.kind === "message" || !calls.has(one.streamId));
    const nameOf = (id: string): string => active.find((agent) => agent.agentEntityId === id)?.agentName ?? id;
    return [...said, ...flying.map((one): Row => ({ key: one.streamId, flying: one, name: nameOf(one.agentEntityId) }))];
  }, [said, messages, inFlight, active]);
}

function isSameTurn(before: SpaceMessage | undefined, message: SpaceMessage): boolean {
  if (before === undefined || before.entityId !== message.entityId || message.senderType === "system") return false;
  return Date.parse(message.createdAt) - Date.parse(before.createdAt) < ONE_TURN_MS;
}

/** Keeps the end in view while content grows: streaming text, a chart that was loaded. */
function useStickyEnd(frame: { current: HTMLElement | null }, isAtEnd: { current: boolean }, toEnd: () => void, isThere: boolean): void {
  const act = useRef(toEnd);
  act.current = toEnd;
  useEffect(() => {
    const inner = frame.current?.querySelector(".vlist > *");
    if (inner == null) return;
    const watcher = new ResizeObserver(() => isAtEnd.current && act.current());
    watcher.observe(inner);
    return () => watcher.disconnect();
  }, [frame, isAtEnd, isThere]);
}

/** Announces new messages to screen readers. */
function Arrivals({ space: { messages, openedAt } }: { space: Space }): ReactNode {
  const last = messages.at(-1);
  const before = useRef(0);
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (last === undefined || openedAt === null || last.seq <= Math.max(before.current, openedAt)) return;
    before.current = last.seq;
    const call = toolCallOf(last);
    setSaid(`${inOneLine(last.senderName, 60)}: ${call === null ? inOneLine(last.content, 300) : inOneLine(call.toolName, 80)}`);
  }, [last, openedAt]);
  return (
    <p className="hidden" role="log" aria-label="New messages">
      {said}
    </p>
  );
}

const MessageRow = memo(function MessageRow({ message, isNext }: { message: SpaceMessage; isNext: boolean }): ReactNode {
  const call = toolCallOf(message);
  return (
    <div className={`message ${message.senderType}${isNext ? " next" : ""}`} data-seq={message.seq}>
      {!isNext && (
        <div className="message-head">
          <strong>{safeText(message.senderName, 80)}</strong>
          <time dateTime={message.createdAt}>{clock(message.createdAt)}</time>
        </div>
      )}
      {call === null ? (
        <MessageText message={message} />
      ) : (
        <>
          <CallCard call={call} />
          <MessageTools message={message} />
        </>
      )}
    </div>
  );
});

function FlyingRow({ flying, name }: { flying: InFlight; name: string }): ReactNode {
  return (
    <div className="message agent flying">
      <div className="message-head">
        <strong>{safeText(name, 80)}</strong>
      </div>
      {flying.kind === "message" ? (
        <p className="text">
          {safeText(flying.text)}
          <span className="caret" aria-hidden="true" />
        </p>
      ) : (
        <article className="card running" aria-label={`${flying.toolName ?? ""}: streaming`}>
          <header>
            <code>{safeText(flying.toolName ?? "", 80)}</code>
            <span className="state-word running">streaming</span>
          </header>
          <div className="card-body">
            <Tree value={flying.partialArgs ?? {}} />
          </div>
        </article>
      )}
    </div>
  );
}
