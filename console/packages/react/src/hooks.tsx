import { GatewayError } from "@jackfield/client";
import { createContext, useCallback, useContext, useEffect, useMemo, useReducer, useRef, useState, type ReactNode } from "react";
import { Client, type ClientOptions } from "./client.js";
import { EMPTY, withEvent, withPage, type SpaceState } from "./space-state.js";
import { follow, type StreamState } from "./stream.js";
import type { SpaceEvent, SpaceMessage } from "./types.js";

const ClientContext = createContext<Client>(new Client());

/** Sets the gateway for the hooks below it. */
export function JackfieldProvider({ children, url, apiKey }: { children: ReactNode; url?: string; apiKey?: string }): ReactNode {
  const client = useMemo(() => {
    const options: ClientOptions = {};
    if (url !== undefined) options.url = url;
    if (apiKey !== undefined) options.key = apiKey;
    return new Client(options);
  }, [url, apiKey]);
  return <ClientContext.Provider value={client}>{children}</ClientContext.Provider>;
}

export function useClient(): Client {
  return useContext(ClientContext);
}

type Change = { page: SpaceMessage[]; lastSeq: number } | { event: SpaceEvent }[] | "empty";

function changed(state: SpaceState, change: Change): SpaceState {
  if (change === "empty") return EMPTY;
  if (Array.isArray(change)) return change.reduce((now, { event }) => withEvent(now, event), state);
  return withPage(state, change.page, change.lastSeq);
}

export interface Space extends SpaceState {
  stream: StreamState;
  /** The last event's number when the space was opened: what comes after it is new. Null until it has been read. */
  openedAt: number | null;
  /** Whether there may be earlier messages. */
  hasEarlier: boolean;
  loadEarlier: () => Promise<void>;
  send: (content: string, as?: string) => Promise<void>;
}

const PAGE = 100;

/** A live space: messages, streaming text, active agents. Resumes by itself without duplicates. */
export function useSpace(spaceId: string): Space {
  const client = useClient();
  const [state, change] = useReducer(changed, EMPTY);
  const [stream, setStream] = useState<StreamState>({ is: "connecting" });
  const [hasEarlier, setHasEarlier] = useState(false);
  const [openedAt, setOpenedAt] = useState<number | null>(null);
  const first = useRef(Number.MAX_SAFE_INTEGER);
  const isReading = useRef(false);
  const unsent = useRef<{ content: string; id: string } | null>(null);
  const path = `/api/spaces/${encodeURIComponent(spaceId)}`;

  useEffect(() => {
    let stop = (): void => {};
    let isGone = false;
    change("empty");
    setOpenedAt(null);
    setStream({ is: "connecting" });
    const begin = async (): Promise<void> => {
      try {
        const { messages, lastSeq } = await client.get<{ messages: SpaceMessage[]; lastSeq: number }>(`${path}/messages?limit=${PAGE}`);
        if (isGone) return;
        first.current = messages[0]?.seq ?? 0;
        setHasEarlier(messages.length === PAGE);
        change({ page: messages, lastSeq });
        setOpenedAt(lastSeq);
        stop = followGathered(client, `${path}/stream`, lastSeq, { onEvents: change, onState: setStream });
      } catch (fault) {
        if (isGone) return;
        if (fault instanceof GatewayError && fault.isFinal) {
          setStream({ is: "refused", error: fault });
          return;
        }
        setStream({ is: "waiting", error: (fault as Error).message });
        const timer = setTimeout(() => void begin(), 1000);
        stop = () => clearTimeout(timer);
      }
    };
    void begin();
    return () => {
      isGone = true;
      stop();
    };
  }, [client, path]);

  const readEarlier = useCallback(async () => {
    const { messages } = await client.get<{ messages: SpaceMessage[] }>(`${path}/messages?limit=${PAGE}&beforeSeq=${first.current}`);
    first.current = messages[0]?.seq ?? 0;
    setHasEarlier(messages.length === PAGE);
    change({ page: messages, lastSeq: 0 });
  }, [client, path]);

  const loadEarlier = useCallback(async () => {
    if (isReading.current) return;
    isReading.current = true;
    try {
      await readEarlier();
    } finally {
      isReading.current = false;
    }
  }, [readEarlier]);

  const send = useCallback(
    async (content: string, as?: string) => {
      // A retry reuses the id, so the message is posted once even if the first attempt arrived.
      if (unsent.current?.content !== content) unsent.current = { content, id: newMessageId() };
      const { id } = unsent.current;
      await client.post(`${path}/messages`, as === undefined ? { id, content } : { id, content, entityId: as });
      unsent.current = null;
    },
    [client, path],
  );

  return { ...state, stream, openedAt, hasEarlier, loadEarlier, send };
}

/** A client-side message id. Not `crypto.randomUUID`, which is missing on plain HTTP. */
function newMessageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(14));
  return `web_${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Batches events per animation frame: deltas arrive many times a second. */
function followGathered(
  client: Client,
  path: string,
  after: number,
  { onEvents, onState }: { onEvents: (events: { event: SpaceEvent }[]) => void; onState: (state: StreamState) => void },
): () => void {
  let gathered: { event: SpaceEvent }[] = [];
  let timer = 0;
  const flush = (): void => {
    timer = 0;
    const all = gathered;
    gathered = [];
    onEvents(all);
  };
  const stop = follow(client, path, {
    after,
    onFrame: (frame) => {
      gathered.push({ event: frame.data as SpaceEvent });
      timer ||= window.setTimeout(flush, 16);
    },
    onState,
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

export interface ToolResult {
  submit: (result: unknown) => Promise<void>;
  fail: (message: string) => Promise<void>;
  isSending: boolean;
  error: Error | null;
}

/** Answers a pending call. The first answer wins; a later one gets an error. */
export function useToolResult(call: { toolCallId: string; runId: string | null }): ToolResult {
  const client = useClient();
  const [isSending, setIsSending] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const { toolCallId, runId } = call;
  const answer = useCallback(
    async (body: Record<string, unknown>) => {
      setIsSending(true);
      setError(null);
      try {
        await client.post(`/api/runs/${encodeURIComponent(runId ?? "")}/tool-results`, { callId: toolCallId, ...body });
      } catch (fault) {
        setError(fault as Error);
        throw fault;
      } finally {
        setIsSending(false);
      }
    },
    [client, toolCallId, runId],
  );
  const submit = useCallback((result: unknown) => answer({ result }), [answer]);
  const fail = useCallback((message: string) => answer({ error: message }), [answer]);
  return { submit, fail, isSending, error };
}
