/**
 * What can be done by the keyboard and from the palette. A page adds its own while it is shown: `useActions([{ name:
 * "Pause the live tail", key: "p", run: toggle }])`; `run` may change from render to render. A key is one letter or sign,
 * or `g` and a letter for places; keys do nothing while somebody types, chooses or answers a dialog. `?` lists them all.
 */
import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Action {
  name: string;
  key?: string;
  run: () => void;
}

const groups = new Set<readonly Action[]>();
const listeners = new Set<() => void>();
let known: readonly Action[] = [];

function renew(): void {
  known = [...groups].flat();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Every action of the page and of the frame around it. */
export function useKnownActions(): readonly Action[] {
  return useSyncExternalStore(subscribe, () => known);
}

export function useActions(actions: readonly Action[]): void {
  const latest = useRef(actions);
  latest.current = actions;
  const names = actions.map(({ name, key = "" }) => `${name}\u0000${key}`).join("\u0001");
  useEffect(() => {
    const group = latest.current.map((action, place) => ({ ...action, run: () => latest.current[place]?.run() }));
    groups.add(group);
    renew();
    return () => {
      groups.delete(group);
      renew();
    };
  }, [names]);
}

const SEQUENCE_MS = 1500;

/** Listens for the keys of all actions; in the shell, once. */
export function useShortcuts(): void {
  useEffect(() => {
    let before = "";
    let at = 0;
    const listen = (event: KeyboardEvent): void => {
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || isTaken(event.target)) return;
      const keys = Date.now() - at < SEQUENCE_MS ? `${before} ${event.key}` : event.key;
      const action = known.find(({ key }) => key === keys) ?? known.find(({ key }) => key === event.key);
      [before, at] = action === undefined ? [event.key, Date.now()] : ["", 0];
      if (action === undefined) return;
      event.preventDefault();
      action.run();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

/** Whether keys mean something else there. */
function isTaken(target: EventTarget | null): boolean {
  return document.querySelector("dialog[open]") !== null || (target instanceof HTMLElement && (target.isContentEditable || target.matches("input, select, textarea, [role='combobox']")));
}
