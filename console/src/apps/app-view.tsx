import { useContext, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import type { ToolCallData } from "@jackfield/react";
import { client, useData, type CallRecord } from "../data";
import { CallCard, shownRecord } from "../parts/call-card";
import { Fault } from "../parts/states";
import { LongText } from "../parts/tree";
import { counted, safeText } from "../safe-text";
import { makeHost, resultOf, type AppHost, type HostActions, type ToolResult } from "./host";
import { KeepInList, SpaceVoice } from "./known";
import "../style/apps.css";

interface App {
  tool: string;
  own_name: string;
  source: string;
  html: string;
  frame: string;
  inputSchema: object;
  csp: Record<string, string[]>;
  refused: string[];
}

/** Something that an app wants done in the person's name. */
interface Wish {
  kind: "link" | "message";
  text: string;
  answer: (isAllowed: boolean) => void;
}

const SETTLED = ["completed", "failed", "rejected", "expired", "cancelled", "refused"];
const WAIT_SECONDS = 30;

/** A call shown by its server's app (MCP Apps), in a frame without the console's origin. */
export default function AppView({ call }: { call: ToolCallData }): ReactNode {
  const path = `/api/v1/apps/${encodeURIComponent(call.toolName)}`;
  const { data, error, mutate } = useData<App>(path, { once: true });
  if (error !== undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <p className="quiet">Loading the app …</p>;
  return <Running key={data.html} app={data} call={call} path={path} />;
}

function Running({ app, call, path }: { app: App; call: ToolCallData; path: string }): ReactNode {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(120);
  const [wish, setWish] = useState<Wish | null>(null);
  const [isStopped, setIsStopped] = useState(false);
  const voice = useContext(SpaceVoice);
  const keep = useContext(KeepInList);
  useEffect(() => keep?.(call.toolCallId), [keep, call.toolCallId]);
  const { calls, callTool } = useAppCalls(path);
  const ask = useOneWish(setWish);
  const actions: HostActions = {
    send: (message) => frame.current?.contentWindow?.postMessage(message, "*"), // the frame has no origin to name
    onHeight: setHeight,
    openLink: (url) => ask("link", url),
    say: async (text) => {
      if (voice === null) throw new Error("Messages can be sent from a space only.");
      const isAllowed = await ask("message", text);
      if (isAllowed) await voice(text);
      return isAllowed;
    },
    callTool,
    readResource: (uri) => client.get<object>(`${path}/resource?uri=${encodeURIComponent(uri)}`),
    onFlood: () => setIsStopped(true),
  };
  useHost(app, call, frame, actions, voice !== null, isStopped);
  const reached = [...new Set(Object.values(app.csp).flat())];
  return (
    <div className="app-view">
      <p className="app-head quiet">
        <span>App of {safeText(app.source, 80)}</span>
        {reached.length > 0 && <span>may reach {safeText(reached.join(", "), 300)}</span>}
        {app.refused.length > 0 && <span>may not reach {safeText(app.refused.join(", "), 300)}</span>}
        {calls.length > 0 && <span>has made {counted(calls.length, "call")}</span>}
      </p>
      {isStopped ? (
        <p className="fault" role="alert">
          The app was stopped because it sent too many messages.{" "}
          <button type="button" onClick={() => setIsStopped(false)}>
            Start it again
          </button>
        </p>
      ) : (
        <iframe ref={frame} className="app-frame" title={`App of ${safeText(call.toolName, 80)}`} src={app.frame} sandbox="allow-scripts allow-forms" referrerPolicy="no-referrer" style={{ height }} />
      )}
      {wish !== null && <Asking wish={wish} />}
      {calls.map((record) => record.status !== "completed" && <CallCard key={record.id} call={shownRecord(record)} />)}
    </div>
  );
}

/** Connects the frame: only messages of this very window, which has no origin, are heard. */
function useHost(app: App, call: ToolCallData, frame: { current: HTMLIFrameElement | null }, actions: HostActions, canSay: boolean, isStopped: boolean): void {
  const latest = useRef(actions);
  latest.current = actions;
  const shown = useRef(call);
  shown.current = call;
  const host = useRef<AppHost | null>(null);
  useEffect(() => {
    if (isStopped) return;
    const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const info = { html: app.html, csp: app.csp, tool: { name: app.own_name, inputSchema: app.inputSchema }, theme, canSay } as const;
    const now = makeHost(info, {
      send: (message) => latest.current.send(message),
      onHeight: (height) => latest.current.onHeight(height),
      openLink: (url) => latest.current.openLink(url),
      say: (text) => latest.current.say(text),
      callTool: (name, args) => latest.current.callTool(name, args),
      readResource: (uri) => latest.current.readResource(uri),
      onFlood: () => latest.current.onFlood(),
    });
    host.current = now;
    now.show(shown.current);
    const onMessage = ({ source, origin, data }: MessageEvent): void => {
      if (source !== null && source === frame.current?.contentWindow && origin === "null") now.take(data);
    };
    addEventListener("message", onMessage);
    return () => {
      removeEventListener("message", onMessage);
      host.current = null;
    };
  }, [app, canSay, frame, isStopped]);
  useEffect(() => host.current?.show(call), [call]);
}

/** Asks the person, one thing at a time: a second wish meanwhile is declined. */
function useOneWish(setWish: (wish: Wish | null) => void): (kind: Wish["kind"], text: string) => Promise<boolean> {
  const isOpen = useRef(false);
  return (kind, text) => {
    if (isOpen.current) return Promise.reject(new Error("The person is still being asked something else."));
    isOpen.current = true;
    return new Promise((resolve) => {
      const answer = (isAllowed: boolean): void => {
        isOpen.current = false;
        setWish(null);
        resolve(isAllowed);
      };
      setWish({ kind, text, answer });
    });
  };
}

function Asking({ wish: { kind, text, answer } }: { wish: Wish }): ReactNode {
  return (
    <div className="app-wish" role="group" aria-label={kind === "link" ? "The app wants to open a page" : "The app wants to send a message"}>
      <p>{kind === "link" ? "The app wants to open this page:" : "The app wants to say this in your name:"}</p>
      <p className="app-wish-text">
        <LongText text={text} />
      </p>
      <p className="app-wish-answers">
        {kind === "link" ? (
          <a className="button" href={text} target="_blank" rel="noopener noreferrer" onClick={() => answer(true)}>
            Open
          </a>
        ) : (
          <button type="button" onClick={() => answer(true)}>
            Send
          </button>
        )}
        <button type="button" onClick={() => answer(false)}>
          Decline
        </button>
      </p>
    </div>
  );
}

interface Answer {
  call_id: string;
  status: string;
  result: unknown;
  error: { message: string } | null;
}

/** The calls of an app, made in the person's name; one that waits for somebody is a card until it is settled. */
function useAppCalls(path: string): { calls: CallRecord[]; callTool: HostActions["callTool"] } {
  const [calls, setCalls] = useState<CallRecord[]>([]);
  const isGone = useRef(false);
  useEffect(() => {
    isGone.current = false;
    return () => void (isGone.current = true);
  }, []);
  const callTool = useMemo(() => {
    const keep = (record: CallRecord): void => setCalls((known) => [...known.filter((one) => one.id !== record.id), record].slice(-50));
    return async (name: string, args: Record<string, unknown>): Promise<ToolResult> => {
      const answer = await client.post<Answer>(`${path}/calls`, { name, arguments: args });
      const { call } = await client.get<{ call: CallRecord }>(`/api/v1/calls/${answer.call_id}`);
      keep(call);
      if (SETTLED.includes(answer.status)) return answered(answer.status, answer.result, answer.error);
      while (!isGone.current) {
        const now = await client.get<{ call: CallRecord }>(`/api/v1/calls/${answer.call_id}?wait=${WAIT_SECONDS}`);
        keep(now.call);
        if (SETTLED.includes(now.call.status)) return answered(now.call.status, now.call.result, now.call.error);
      }
      throw new Error("The app is closed.");
    };
  }, [path]);
  return { calls, callTool };
}

function answered(status: string, result: unknown, error: { message: string } | null): ToolResult {
  return resultOf({ status: status === "completed" ? "complete" : "error", result, error: error?.message ?? `The call is ${status}.` });
}
