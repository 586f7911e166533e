import type { ToolCallData } from "@jackfield/react";

/**
 * The console's side of the conversation with an app (MCP Apps, 2026-01-26): JSON-RPC over postMessage. Everything that
 * comes from the frame is foreign: each message is checked for its shape and size, and their rate is limited.
 */

export const REVISION = "2026-01-26";
export const MOST_HEIGHT = 720;
const LEAST_HEIGHT = 40;
const MOST_SIZE = 256 * 1024;
const MOST_DEPTH = 64;
const RATE = 50; // a second
const BURST = 300;
const MOST_CALLS = 8;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const REFUSED = -32000;

export interface Said {
  id: string | number | undefined;
  method: string;
  params: Record<string, unknown>;
}

export interface ToolResult {
  content: unknown[];
  structuredContent?: unknown;
  _meta?: unknown;
  isError?: boolean;
}

/** What the page does for an app. A promise that is false, or fails, is a refusal that the app is told of. */
export interface HostActions {
  /** Delivers a message to the frame. */
  send: (message: object) => void;
  onHeight: (height: number) => void;
  openLink: (url: string) => Promise<boolean>;
  say: (text: string) => Promise<boolean>;
  callTool: (name: string, args: Record<string, unknown>) => Promise<ToolResult>;
  readResource: (uri: string) => Promise<object>;
  /** The app sends far more than any app needs. */
  onFlood: () => void;
}

export interface AppInfo {
  html: string;
  csp: object;
  tool: { name: string; inputSchema: object };
  theme: "light" | "dark";
  /** Whether messages can be sent to somebody. */
  canSay: boolean;
}

export interface AppHost {
  /** A message from the frame. */
  take: (data: unknown) => void;
  /** The call as it is now; what is new in it is sent to the app. */
  show: (call: ToolCallData) => void;
}

class Refusal extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

export function makeHost(info: AppInfo, actions: HostActions, now: () => number = () => performance.now()): AppHost {
  const admit = makeLimit(now);
  let shown: ToolCallData | null = null;
  let isInitialized = false;
  let isLoaded = false;
  let hasInput = false;
  let hasResult = false;
  let running = 0;
  const notify = (method: string, params: object): void => actions.send({ jsonrpc: "2.0", method, params });

  const tell = (): void => {
    if (!isInitialized || shown === null) return;
    if (!hasInput) notify("ui/notifications/tool-input", { arguments: isRecord(shown.args) ? shown.args : {} });
    hasInput = true;
    if (hasResult || (shown.status !== "complete" && shown.status !== "error")) return;
    hasResult = true;
    notify("ui/notifications/tool-result", resultOf(shown));
  };

  const calling = async (params: Record<string, unknown>): Promise<object> => {
    const { name, arguments: args = {} } = params;
    if (typeof name !== "string" || !isRecord(args)) throw new Refusal(INVALID_PARAMS, "'name' must be a string and 'arguments' an object.");
    if (running >= MOST_CALLS) throw new Refusal(REFUSED, `${MOST_CALLS} calls are running. Wait for one to end.`);
    running += 1;
    try {
      return await actions.callTool(name, args);
    } finally {
      running -= 1;
    }
  };

  const answer = async ({ method, params }: Said): Promise<object> => {
    switch (method) {
      case "ui/initialize":
        return initialized(info);
      case "ping":
        return {};
      case "tools/call":
        return calling(params);
      case "resources/read":
        return actions.readResource(textOf(params, "uri"));
      case "ui/open-link":
        return confirmed(await actions.openLink(linkOf(params)));
      case "ui/message":
        return confirmed(await actions.say(messageOf(params)));
      case "ui/request-display-mode":
        return { mode: "inline" };
      default:
        throw new Refusal(METHOD_NOT_FOUND, `This host has no method '${method.slice(0, 100)}'.`);
    }
  };

  const hear = ({ method, params }: Said): void => {
    if (method === "ui/notifications/sandbox-proxy-ready" && !isLoaded) {
      isLoaded = true;
      notify("ui/notifications/sandbox-resource-ready", { html: info.html, csp: info.csp });
    } else if (method === "ui/notifications/initialized") {
      isInitialized = true;
      tell();
    } else if (method === "ui/notifications/size-changed" && typeof params["height"] === "number") {
      actions.onHeight(heightOf(params["height"]));
    }
  };

  const take = (data: unknown): void => {
    if (!admit()) return actions.onFlood();
    const said = messageIn(data);
    if (said === null) return;
    const { id } = said;
    if (id === undefined) return hear(said);
    const reply = (body: object): void => actions.send({ jsonrpc: "2.0", id, ...body });
    answer(said).then(
      (result) => reply({ result }),
      (fault: Error) => reply({ error: { code: fault instanceof Refusal ? fault.code : REFUSED, message: fault.message } }),
    );
  };

  return { take, show: (call) => ((shown = call), tell()) };
}

/** A request or notification of the right shape, and not too large; null for anything else. */
export function messageIn(data: unknown): Said | null {
  if (!isRecord(data) || data["jsonrpc"] !== "2.0") return null;
  const { id, method, params = {} } = data;
  if (typeof method !== "string" || method.length > 200 || !isRecord(params)) return null;
  if (id !== undefined && typeof id !== "number" && (typeof id !== "string" || id.length > 200)) return null;
  return sizeOf(params, MOST_DEPTH) > MOST_SIZE ? null : { id, method, params };
}

/** About how many characters a value has as JSON; endless for what JSON cannot say. */
function sizeOf(value: unknown, depth: number): number {
  if (value === null || value === undefined || typeof value === "boolean" || typeof value === "number") return 8;
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || depth === 0) return Infinity;
  const isList = Array.isArray(value);
  if (!isList && !isRecord(value)) return Infinity;
  let size = 2;
  for (const [key, inner] of Object.entries(value)) {
    size += (isList ? 1 : key.length + 4) + sizeOf(inner, depth - 1);
    if (size > MOST_SIZE) return Infinity;
  }
  return size;
}

/** Says of each message whether it may still be heard. */
function makeLimit(now: () => number): () => boolean {
  let left = BURST;
  let last = now();
  return () => {
    const moment = now();
    left = Math.min(BURST, left + ((moment - last) / 1000) * RATE) - 1;
    last = moment;
    return left >= 0;
  };
}

function initialized({ csp, tool, theme, canSay }: AppInfo): object {
  return {
    protocolVersion: REVISION,
    hostInfo: { name: "jackfield", version: "1" },
    hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, sandbox: { csp }, ...(canSay ? { message: { text: {} } } : {}) },
    hostContext: {
      toolInfo: { tool },
      theme,
      displayMode: "inline",
      availableDisplayModes: ["inline"],
      containerDimensions: { maxHeight: MOST_HEIGHT },
      locale: navigator.language,
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      platform: "web",
    },
  };
}

/** A call's outcome as MCP says it. The gateway keeps plain JSON where that says it all. */
export function resultOf({ status, result, error }: { status: string; result: unknown; error?: string }): ToolResult {
  if (status === "error") return { content: [{ type: "text", text: error ?? "The call failed." }], isError: true };
  if (isRecord(result) && Array.isArray(result["content"]) && result["content"].every((block) => isRecord(block) && typeof block["type"] === "string")) {
    const { content, structuredContent, _meta } = result;
    return { content: content as unknown[], ...(isRecord(structuredContent) ? { structuredContent } : {}), ...(isRecord(_meta) ? { _meta } : {}) };
  }
  const text = typeof result === "string" ? result : JSON.stringify(result);
  return { content: [{ type: "text", text }], ...(isRecord(result) ? { structuredContent: result } : {}) };
}

function confirmed(isAllowed: boolean): object {
  if (!isAllowed) throw new Refusal(REFUSED, "The person declined.");
  return {};
}

function linkOf(params: Record<string, unknown>): string {
  const url = URL.parse(textOf(params, "url"));
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) throw new Refusal(INVALID_PARAMS, "'url' must be an http or https address.");
  return url.href;
}

/** The text of a message: one block, or several. */
function messageOf({ content }: Record<string, unknown>): string {
  const blocks = Array.isArray(content) ? content : [content];
  const texts = blocks.map((block: unknown) => (isRecord(block) && block["type"] === "text" && typeof block["text"] === "string" ? block["text"] : null));
  if (texts.length === 0 || texts.some((text) => text === null)) throw new Refusal(INVALID_PARAMS, "This host takes messages of text only.");
  return texts.join("\n");
}

function textOf(params: Record<string, unknown>, key: string): string {
  const text = params[key];
  if (typeof text !== "string") throw new Refusal(INVALID_PARAMS, `'${key}' must be a string.`);
  return text;
}

function heightOf(asked: number): number {
  return Number.isFinite(asked) ? Math.ceil(Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, asked))) : LEAST_HEIGHT;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
