/**
 * Short messages of what has been done, read aloud: `toast("Key ci revoked")`, and `toast("…", { isFault: true })` for
 * what went wrong where no form is there to say it. They go after six seconds, not while the pointer or the focus is on
 * them; the last three are shown. `<Toasts />` is in the shell, once. What must not be missed belongs into the page.
 */
import { useSyncExternalStore, type ReactNode } from "react";
import { Icon } from "./icon";

interface Message {
  id: number;
  text: string;
  isFault: boolean;
}

const LASTS_MS = 6000;
const MOST = 3;
const listeners = new Set<() => void>();
let shown: readonly Message[] = [];
let count = 0;

function show(messages: readonly Message[]): void {
  shown = messages;
  for (const listener of listeners) listener();
}

function drop(id: number): void {
  show(shown.filter((one) => one.id !== id));
}

/** Drops it unless somebody is reading it. */
function dropLater(id: number): void {
  setTimeout(() => (document.querySelector(`.toast[data-id="${id}"]`)?.matches(":hover, :focus-within") === true ? dropLater(id) : drop(id)), LASTS_MS);
}

export function toast(text: string, { isFault = false }: { isFault?: boolean } = {}): void {
  const id = ++count;
  show([...shown, { id, text, isFault }].slice(-MOST));
  dropLater(id);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function Toasts(): ReactNode {
  const messages = useSyncExternalStore(subscribe, () => shown);
  return (
    <div className="toasts" aria-live="polite">
      {messages.map(({ id, text, isFault }) => (
        <div key={id} className={isFault ? "toast fault" : "toast"} data-id={id}>
          <Icon name={isFault ? "warning" : "check"} />
          <span className="text">{text}</span>
          <button type="button" className="bare" aria-label="Dismiss" onClick={() => drop(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
