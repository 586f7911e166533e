/**
 * The id by which the gateway knows a tool server again after a restart. In Node.js it is kept in the user's state folder,
 * in a file whose name says which process has it: the file of a process that is gone is renamed by the next one, which only
 * one of several can do. Elsewhere, and where no file can be written, it is a new one each time.
 */
import { newId } from "./ids.js";

export interface ServerId {
  id: string;
  /** Lets the next server of this process have it. */
  release(): void;
}

/** What is used of Node.js, without an import that a page could not load. */
interface Node {
  process: { pid: number; env: Record<string, string | undefined>; kill(pid: number, signal: 0): void };
  fs: {
    mkdirSync(path: string, options: { recursive: true; mode: number }): void;
    readdirSync(path: string): string[];
    readFileSync(path: string, encoding: "utf8"): string;
    renameSync(from: string, to: string): void;
    writeFileSync(path: string, text: string, options: { mode: number }): void;
  };
  os: { homedir(): string; hostname(): string };
  path: { join(...parts: string[]): string };
  crypto: { createHash(kind: "sha256"): { update(text: string): { digest(encoding: "hex"): string } } };
}

const SHAPE = /^sdk_[0-9a-f]{16}$/;
/** The files that servers of this process have now. */
const held = new Set<string>();

export function serverId(url: string, tools: readonly string[], source: string | null): ServerId {
  const node = nodeJs();
  try {
    if (node !== null) return kept(node, JSON.stringify([url, [...tools].sort(), source]));
  } catch {
    // The folder cannot be written: the id changes with every restart, and the gateway waits before it offers again.
  }
  return { id: newId("sdk", 8), release: () => undefined };
}

function kept(node: Node, identity: string): ServerId {
  const { fs, os, path, process, crypto } = node;
  const folder = path.join(process.env["XDG_STATE_HOME"] || path.join(os.homedir(), ".local/state"), "jackfield/servers");
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const prefix = `ts-${crypto.createHash("sha256").update(`${os.hostname()} ${identity}`).digest("hex").slice(0, 16)}`;
  let slot = 0;
  const own = (): string => path.join(folder, `${prefix}.${process.pid}.${slot}`);
  while (held.has(own())) slot++;
  const mine = own();
  const files = fs.readdirSync(folder).filter((file) => file.startsWith(`${prefix}.`)).map((file) => path.join(folder, file));
  const isKnown = files.filter((file) => file === mine || !isTaken(node, file)).some((file) => couldRename(node, file, mine));
  const read = isKnown ? fs.readFileSync(mine, "utf8").trim() : "";
  const id = SHAPE.test(read) ? read : newId("sdk", 8);
  if (id !== read) fs.writeFileSync(mine, `${id}\n`, { mode: 0o600 });
  held.add(mine);
  return { id, release: () => void held.delete(mine) };
}

/** Whether a living process has it. One of this process's own number may be of an earlier life, as in a container. */
function isTaken({ process }: Node, file: string): boolean {
  const pid = Number(file.split(".").at(-2));
  if (pid === process.pid) return held.has(file);
  try {
    process.kill(pid, 0);
    return true;
  } catch (fault) {
    return (fault as { code?: string }).code === "EPERM";
  }
}

/** Another process may have been faster. */
function couldRename({ fs }: Node, file: string, mine: string): boolean {
  try {
    fs.renameSync(file, mine);
    return true;
  } catch {
    return false;
  }
}

function nodeJs(): Node | null {
  const { process } = globalThis as { process?: Node["process"] & { getBuiltinModule?: (name: string) => unknown } };
  const load = process?.getBuiltinModule;
  if (process === undefined || load === undefined) return null;
  return { process, fs: load("node:fs"), os: load("node:os"), path: load("node:path"), crypto: load("node:crypto") } as Node;
}
