import { createContext, useContext, useMemo, type ComponentType, type ReactNode } from "react";
import type { ToolCallData } from "./types";

/** Props of a tool component. All text is untrusted: render it as text. */
export interface ToolProps {
  call: ToolCallData;
  /** Whether the current user may answer it now. */
  canAnswer: boolean;
  /** Submits the result: any JSON value, including `null`. */
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

/** Provides the components: `tools.by_name[toolName]`, else `tools.Fallback`. */
export function ToolUIProvider({ tools, children }: { tools: ToolRegistry; children: ReactNode }): ReactNode {
  const above = useContext(RegistryContext);
  const all = useMemo(() => ({ by_name: { ...above.by_name, ...tools.by_name }, Fallback: tools.Fallback }), [above, tools]);
  return <RegistryContext.Provider value={all}>{children}</RegistryContext.Provider>;
}

/** Renders a call with the component registered for its tool. */
export function ToolUI(props: ToolProps): ReactNode {
  const { by_name, Fallback } = useContext(RegistryContext);
  const Component = Object.hasOwn(by_name, props.call.toolName) ? by_name[props.call.toolName]! : Fallback;
  return <Component {...props} />;
}

export function useHasToolUI(name: string): boolean {
  return Object.hasOwn(useContext(RegistryContext).by_name, name);
}
