/** Functions as tools: how they are declared, and running them. Above: `serving.ts` and `sessions.ts`. */
import type { ToolAnswer } from "./calls.js";
import type { DeclaredTool, Metadata } from "./generated.js";

export interface CallContext {
  callId: string;
  tool: string;
  /** Which offer of the call this is; more than 1: it was offered before, to this or another server. */
  attempt: number;
  /** Aborted when the server stops and its grace period is over. */
  signal: AbortSignal;
  /** Reports how far the call has come, which extends its deadline up to the tool's limit. Returns at once. */
  progress(done: number, total?: number, message?: string): void;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the arguments are as the tool's schema says
export type ToolFunction = (args: any, context: CallContext) => unknown;

/** A function that answers calls, and what the gateway is to know of it. */
export interface ServedTool {
  run: ToolFunction;
  description?: string;
  /** JSON Schema of the arguments, an object. The gateway checks them before it offers a call. */
  inputSchema?: Record<string, unknown>;
  outputSchema?: Record<string, unknown>;
  /** Whether a call may run twice. Such a call goes to another server when this one is gone. */
  idempotent?: boolean;
  /** Whether callers get `pending` at once and the result later. */
  isAsync?: boolean;
  /** Whether an agent's calls are shown in its space. */
  visible?: boolean;
  /** Milliseconds that a caller waits for the result. */
  timeout?: number;
  category?: string;
  metadata?: Partial<Metadata>;
}

/** Functions by their tools' names. */
export type Servables = Record<string, ToolFunction | ServedTool>;

const ANY_ARGUMENTS = { type: "object", properties: {} };

export function servedTools(functions: Servables): Map<string, ServedTool> {
  const served = Object.entries(functions).map(([name, given]): [string, ServedTool] => [name, typeof given === "function" ? { run: given } : given]);
  if (served.length === 0) throw new TypeError("there is nothing to serve; give at least one function");
  for (const [name, { run }] of served) if (typeof run !== "function") throw new TypeError(`'${name}' cannot be served; give a function, or an object with 'run'`);
  return new Map(served);
}

/** Whether the author says that a call may run twice. */
export function isIdempotent({ idempotent, metadata }: ServedTool): boolean {
  return idempotent ?? metadata?.idempotent ?? false;
}

/** The tool as a tool server declares it. */
export function definition(name: string, tool: ServedTool): DeclaredTool {
  const { description = `The function '${name}'.`, inputSchema = ANY_ARGUMENTS, outputSchema, isAsync = false, visible = false, timeout, category, metadata } = tool;
  return {
    name,
    description,
    inputSchema,
    isAsync,
    visible,
    metadata: { ...metadata, idempotent: isIdempotent(tool) } as Metadata,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(timeout === undefined ? {} : { timeout: Math.round(timeout) }),
    ...(category === undefined ? {} : { category }),
  } as DeclaredTool;
}

/** Runs it. Whatever it throws becomes the answer's error, and so does a result that JSON cannot hold. */
export async function run(name: string, tool: ServedTool, args: unknown, context: CallContext): Promise<ToolAnswer> {
  try {
    const result = (await tool.run(args ?? {}, context)) ?? null;
    const text = JSON.stringify(result);
    return text === undefined ? { error: `'${name}' returned a ${typeof result}, which JSON cannot hold.` } : { result };
  } catch (fault) {
    return { error: fault instanceof Error ? `${fault.name}: ${fault.message}` : String(fault) };
  }
}
