import { createContext, useContext, useMemo, type ComponentType, type ReactNode } from "react";
import type { ToolCallData } from "./types";

/** What the component of a tool gets. Its text comes from tools and models: show it, never run it. */
export interface ToolProps {
  call: ToolCallData;
  /** Whether this person may answer it now. */
  canAnswer: boolean;
  /** Gives the tool's result; anything JSON can hold, `null` too. */
  submit: (result: unknown) => Promise<void>;
  isSending: boolean;
}

export type ToolComponent = ComponentType<ToolProps>;

export interface ToolRegistry {
  by_name: Record<string, ToolComponent>;
  Fallback: ToolComponent;
}

const Nothing: ToolComponent = () => null;
const RegistryContext = createContext<ToolRegistry>({ by_name: {}, Fallback: Nothing });

/** The components that tools are shown by: `tools.by_name[toolName]`, else `tools.Fallback`. */
export function ToolUIProvider({ tools, children }: { tools: ToolRegistry; children: ReactNode }): ReactNode {
  const above = useContext(RegistryContext);
  const all = useMemo(() => ({ by_name: { ...above.by_name, ...tools.by_name }, Fallback: tools.Fallback }), [above, tools]);
  return <RegistryContext.Provider value={all}>{children}</RegistryContext.Provider>;
}

/** A call, shown by the component that is registered for its tool's name. */
export function ToolUI(props: ToolProps): ReactNode {
  const { by_name, Fallback } = useContext(RegistryContext);
  const Component = Object.hasOwn(by_name, props.call.toolName) ? by_name[props.call.toolName]! : Fallback;
  return <Component {...props} />;
}

export function useHasToolUI(name: string): boolean {
  return Object.hasOwn(useContext(RegistryContext).by_name, name);
}
