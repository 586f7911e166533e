/**
 * A call as a command: curl and Python, with the arguments exactly as the gateway has them. They are read from the text
 * of the record, not from what a browser makes of it, since numbers beyond 2^53 would be rounded. Everything foreign is
 * quoted; what is not ASCII is escaped, so that no hidden character is pasted into a terminal. The key is a variable.
 */

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|-?\d[\d.eE+-]*|true|false|null/g;

function tokens(json: string): string[] {
  return json.match(TOKEN) ?? [];
}

/** The text of one member of a JSON object, found by its path; null if it is not there. */
export function memberText(json: string, path: readonly string[]): string | null {
  const all = tokens(json);
  let at = 0;
  for (const name of path) {
    at = valueOf(all, at, name);
    if (at < 0) return null;
  }
  return all.slice(at, endOf(all, at)).join("");
}

/** Where the value of a member of the object that begins at `at` begins, or -1. */
function valueOf(all: readonly string[], at: number, name: string): number {
  if (all[at] !== "{") return -1;
  let place = at + 1;
  while (place < all.length && all[place] !== "}") {
    if (JSON.parse(all[place]!) === name) return place + 2;
    place = endOf(all, place + 2);
    if (all[place] === ",") place++;
  }
  return -1;
}

function endOf(all: readonly string[], at: number): number {
  let depth = 0;
  for (let place = at; place < all.length; place++) {
    if (all[place] === "{" || all[place] === "[") depth++;
    if (all[place] === "}" || all[place] === "]") depth--;
    if (depth === 0) return place + 1;
  }
  return all.length;
}

/** JSON over several lines, to be edited. Numbers stay as they are written. */
export function indented(json: string): string {
  let text = "";
  let depth = 0;
  let before = "";
  for (const token of tokens(json)) {
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    const isEmpty = closes && (before === "{" || before === "[");
    if (!isEmpty && (closes || before === "{" || before === "[" || before === ",")) text += `\n${"  ".repeat(depth)}`;
    text += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth++;
    before = token;
  }
  return text;
}

/** Whether it has a number that a browser would round. */
export function hasLargeNumber(json: string): boolean {
  return tokens(json).some((token) => /^-?\d/.test(token) && token.replace(/\D/g, "").length > 15);
}

/** One word for a POSIX shell, whatever is in it. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const NOT_ASCII = /[^\x20-\x7e]/g;

function asciiJson(json: string): string {
  return tokens(json)
    .join("")
    .replace(NOT_ASCII, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function pathOf(tool: string): string {
  return `/api/v1/tools/${encodeURIComponent(tool)}/execute`;
}

export function asCurl(tool: string, argumentsText: string, origin: string): string {
  return [
    `curl --request POST ${shellWord(origin + pathOf(tool))}`,
    `  --header "X-Api-Key: $JACKFIELD_KEY"`,
    `  --header 'Content-Type: application/json'`,
    `  --data-raw ${shellWord(asciiJson(`{"arguments":${argumentsText}}`))}`,
  ].join(" \\\n");
}

export function asPython(tool: string, argumentsText: string, origin: string): string {
  return `import os

from jackfield.sdk import SyncClient

arguments = ${pythonOf(argumentsText)}
with SyncClient(${pythonString(origin)}, os.environ["JACKFIELD_KEY"]) as client:
    print(client.tools.call(${pythonString(tool)}, arguments))
`;
}

const WORDS: Record<string, string> = { true: "True", false: "False", null: "None" };

function pythonOf(json: string): string {
  return indented(json)
    .split(/("(?:[^"\\]|\\.)*")/)
    .map((part, place) => (place % 2 === 1 ? pythonString(JSON.parse(part) as string) : part.replace(/true|false|null/g, (word) => WORDS[word]!)))
    .join("");
}

function pythonString(text: string): string {
  const inside = [...text].map((sign) => {
    const code = sign.codePointAt(0)!;
    if (sign === '"' || sign === "\\") return `\\${sign}`;
    if (sign === "\n") return "\\n";
    if (code >= 0x20 && code < 0x7f) return sign;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return `"${inside.join("")}"`;
}
