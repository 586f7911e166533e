/** `?`: every key that does something here, and the keys of the frame: `g` and a letter for the pages, `/` to search. */
import { useState, type ReactNode } from "react";
import { go } from "../address";
import { PAGES } from "../pages";
import { useActions, useKnownActions, useShortcuts } from "../shortcuts";
import { Dialog } from "./dialog";

const ELSEWHERE = [
  ["⌘K", "Palette: go anywhere, do anything"],
  ["j k ↓ ↑", "From row to row of a table"],
  ["Esc", "Close a dialog"],
] as const;

export function Help({ onSignOut }: { onSignOut: () => void }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  useShortcuts();
  useActions([
    ...PAGES.map(({ name, path, key }) => ({ name, key: `g ${key}`, run: () => go(path) })),
    { name: "Search on this page", key: "/", run: focusSearch },
    { name: "Keyboard shortcuts", key: "?", run: () => setIsOpen(true) },
    { name: "Sign out", run: onSignOut },
  ]);
  const actions = useKnownActions().filter(({ key }) => key !== undefined);
  return (
    <Dialog title="Keyboard shortcuts" isOpen={isOpen} onClose={() => setIsOpen(false)} isWide>
      <dl className="shortcuts">
        {[...actions.map(({ key, name }) => [key!, name] as const), ...ELSEWHERE].map(([keys, name]) => (
          <div key={`${keys} ${name}`}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function focusSearch(): void {
  document.querySelector<HTMLElement>("main input[type='search'], main textarea, main input:not([type='checkbox'])")?.focus();
}
