import { createContext, useContext, useMemo, type ComponentType, type ReactNode } from "react";
import { useToolResult } from "./hooks.js";
import type { ToolCallData } from "./types.js";

/** Props of a tool component. All text is untrusted: render it as text. */
export interface ToolProps {
  call: ToolCallData;
  /** Whether the current user may answer it now. */
  canAnswer: boolean;
  /** Submits the result: any JSON value, including `null`. */
  submit: (result: unknown) => Promise<void>;
  isSending: boolean;
  /** Why the last answer was not taken. */
  error?: Error | null;
}

export type ToolComponent = ComponentType<ToolProps>;

export interface ToolRegistry {
  by_name: Record<string, ToolComponent>;
  Fallback: ToolComponent;
}

/** What stands for a tool without a component: its name, state, arguments and result, as text. */
export function PlainTool({ call, error }: ToolProps): ReactNode {
  return (
    <div className="jackfield-tool" data-status={call.status}>
      <strong>{call.toolName}</strong> <span>{call.status.replace("_", " ")}</span>
      <pre>{JSON.stringify(call.args, null, 2)}</pre>
      {call.status === "complete" && <pre>{JSON.stringify(call.result, null, 2)}</pre>}
      {call.error !== undefined && <p role="alert">{call.error}</p>}
      {error != null && <p role="alert">{error.message}</p>}
    </div>
  );
}

const RegistryContext = createContext<ToolRegistry>({ by_name: {}, Fallback: PlainTool });

/** Provides the components: `tools.by_name[toolName]`, else `tools.Fallback`. */
export function ToolUIProvider({ tools, children }: { tools: Partial<ToolRegistry>; children: ReactNode }): ReactNode {
  const above = useContext(RegistryContext);
  const all = useMemo(() => ({ by_name: { ...above.by_name, ...tools.by_name }, Fallback: tools.Fallback ?? above.Fallback }), [above, tools]);
  return <RegistryContext.Provider value={all}>{children}</RegistryContext.Provider>;
}

/**
 * Renders a call with the component registered for its tool. Alone, `<ToolUI call={call} />` answers the call itself;
 * whoever answers in another way, or knows better who may, passes `submit` and `canAnswer`.
 */
export function ToolUI({ call, ...given }: Pick<ToolProps, "call"> & Partial<ToolProps>): ReactNode {
  const { by_name, Fallback } = useContext(RegistryContext);
  const own = useToolResult(call);
  const Component = Object.hasOwn(by_name, call.toolName) ? by_name[call.toolName]! : Fallback;
  return <Component call={call} canAnswer={call.status === "requires_action"} submit={own.submit} isSending={own.isSending} error={own.error} {...given} />;
}

export function useHasToolUI(name: string): boolean {
  return Object.hasOwn(useContext(RegistryContext).by_name, name);
}
