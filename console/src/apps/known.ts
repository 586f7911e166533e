import { createContext, useContext } from "react";
import { useData } from "../data";
import { IdentityContext } from "../identity";

/** Sends what an app says to the space that shows it, once a person has agreed. */
export const SpaceVoice = createContext<((text: string) => Promise<unknown>) | null>(null);

/** Asks the list that an app is in to keep it while it is scrolled out of view: its frame would begin anew otherwise. */
export const KeepInList = createContext<((callId: string) => void) | null>(null);

/** Whether calls of this tool are shown by an app. */
export function useHasApp(tool: string): boolean {
  const isKnown = useContext(IdentityContext) !== null;
  const { data } = useData<{ apps: { tool: string }[] }>(isKnown ? "/api/v1/apps" : null);
  return data?.apps.some((app) => app.tool === tool) ?? false;
}
