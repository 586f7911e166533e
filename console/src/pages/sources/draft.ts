/**
 * A source as somebody types it, and as the gateway takes it. `bodyOf(draft)` throws an error in words for what cannot
 * be sent; `draftOf(settings)` is the way back, and `patchOf(before, after)` the JSON merge patch between two bodies:
 * values that the gateway hides stay as they are unless somebody types others. `more` is JSON for all fields that the
 * form has no field for. Pure.
 */

export type Shape = "url" | "command" | "openapi" | "manifest";

export interface Draft {
  shape: Shape;
  name: string;
  url: string;
  command: string;
  /** `Name: value`, one a line. */
  headers: string;
  /** `NAME=value`, one a line. */
  env: string;
  prefix: string;
  auth: "none" | "shared" | "user";
  more: string;
}

export type Body = Record<string, unknown>;

export const SHAPES: readonly (readonly [Shape, string, string])[] = [
  ["url", "MCP server at a URL", "Streamable HTTP or SSE, of any revision"],
  ["command", "MCP server as a process", "A command that the gateway starts and talks to on stdio"],
  ["openapi", "OpenAPI document", "Each operation becomes a tool"],
  ["manifest", "Another gateway's manifest", "A service that publishes its tools at /api/v1/tools"],
];
export const EMPTY: Draft = { shape: "url", name: "", url: "", command: "", headers: "", env: "", prefix: "", auth: "none", more: "" };
export const HIDDEN = "[redacted]";
const KINDS: Record<Shape, string> = { url: "mcp", command: "mcp", openapi: "openapi", manifest: "manifest" };
const FIELDS = new Set(["kind", "url", "command", "headers", "env", "prefix", "auth"]);
const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

export function bodyOf(draft: Draft): Body {
  const body: Body = { kind: KINDS[draft.shape] };
  if (draft.shape === "command") {
    body["command"] = wordsOf(draft.command);
    if ((body["command"] as string[]).length === 0) throw new Error("The command is empty. Write the program and its arguments, such as uvx mcp-server-git.");
    const env = pairsOf(draft.env, "=", "environment");
    if (Object.keys(env).length > 0) body["env"] = env;
  } else {
    if (!/^https?:\/\/\S+$/.test(draft.url.trim())) throw new Error("The URL is not a full one. Write https://host/path.");
    body["url"] = draft.url.trim();
    const headers = pairsOf(draft.headers, ":", "headers");
    if (Object.keys(headers).length > 0) body["headers"] = headers;
    if (draft.auth !== "none") body["auth"] = draft.auth;
  }
  if (draft.prefix.trim() !== "") body["prefix"] = draft.prefix.trim();
  return { ...body, ...moreOf(draft.more) };
}

export function draftOf(name: string, settings: Body): Draft {
  const text = (key: string): string => (typeof settings[key] === "string" ? (settings[key] as string) : "");
  const table = (key: string, sign: string): string =>
    Object.entries((settings[key] as Record<string, unknown> | undefined) ?? {})
      .map(([one, value]) => `${one}${sign}${String(value)}`)
      .join("\n");
  const hasOwnAuth = typeof settings["auth"] === "object";
  const more = Object.fromEntries(Object.entries(settings).filter(([key]) => !FIELDS.has(key) || (key === "auth" && hasOwnAuth)));
  const command = Array.isArray(settings["command"]) ? (settings["command"] as unknown[]).map((word) => quoted(String(word))).join(" ") : text("command");
  return {
    shape: shapeOf(settings),
    name,
    url: text("url"),
    command,
    headers: table("headers", ": "),
    env: table("env", "="),
    prefix: text("prefix"),
    auth: hasOwnAuth || text("auth") === "" ? "none" : (text("auth") as Draft["auth"]),
    more: Object.keys(more).length === 0 ? "" : JSON.stringify(more, null, 2),
  };
}

function shapeOf(settings: Body): Shape {
  if (settings["kind"] === "mcp") return settings["command"] === undefined ? "url" : "command";
  return settings["kind"] === "openapi" ? "openapi" : "manifest";
}

export function patchOf(before: Body, after: Body): Body {
  const patch: Body = {};
  for (const key of Object.keys(before)) if (!(key in after)) patch[key] = null;
  for (const [key, value] of Object.entries(after)) {
    const was = before[key];
    if (isTable(was) && isTable(value)) {
      const inner = patchOf(was, value);
      if (Object.keys(inner).length > 0) patch[key] = inner;
    } else if (JSON.stringify(was) !== JSON.stringify(value)) patch[key] = value;
  }
  return patch;
}

/** Whether the gateway keeps a part of it from us, so that it cannot be sent as a whole. */
export function hasHidden(value: unknown): boolean {
  return JSON.stringify(value ?? null).includes(HIDDEN);
}

/** The secrets that it names as `${NAME}`. */
export function variablesIn(value: unknown): string[] {
  return [...new Set([...JSON.stringify(value ?? null).matchAll(VARIABLE)].map((found) => found[1]!))];
}

function isTable(value: unknown): value is Body {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function pairsOf(text: string, sign: string, what: string): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line === "") continue;
    const at = line.indexOf(sign);
    if (at < 1) throw new Error(`The ${what} have a line without '${sign}': ${line.slice(0, 60)}. Write ${sign === ":" ? "Name: value" : "NAME=value"}.`);
    pairs[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return pairs;
}

function moreOf(text: string): Body {
  if (text.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (fault) {
    throw new Error(`The other fields are not valid JSON: ${(fault as Error).message}`);
  }
  if (!isTable(value)) throw new Error('The other fields are not a JSON object. Write {"allowed_tools": ["list_*"]}.');
  return value;
}

/** The words of a command, as a shell would have them: quotes and backslashes, nothing else. */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let place = 0; place < text.length; place++) {
    const sign = text[place]!;
    if (sign === "\\" && quote !== "'" && place + 1 < text.length) word = (word ?? "") + text[++place]!;
    else if (quote !== "") {
      if (sign === quote) quote = "";
      else word = (word ?? "") + sign;
    } else if (sign === '"' || sign === "'") {
      quote = sign;
      word ??= "";
    } else if (/\s/.test(sign)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + sign;
  }
  if (quote !== "") throw new Error(`The command has a ${quote} that is not closed.`);
  return word === null ? words : [...words, word];
}

function quoted(word: string): string {
  return /^[\w@%+=:,./{}$-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
