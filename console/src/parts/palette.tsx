import { useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { useLocation } from "wouter";
import { useData, useFoundTools, type SpaceRecord, type ToolDefinition } from "../data";
import { inOneLine } from "../safe-text";

interface Place {
  name: string;
  kind: string;
  path: string;
}

const PAGES: Place[] = ["Spaces", "Tools", "Waiting", "Runs", "Agents"].map((name) => ({ name, kind: "page", path: `/${name.toLowerCase()}` }));

/** ⌘K: the command palette. */
export function Palette(): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const listen = (event: globalThis.KeyboardEvent): void => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setIsOpen(true);
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <>
      <button type="button" className="plain" onClick={() => setIsOpen(true)}>
        <kbd>⌘K</kbd> Go to …
      </button>
      <dialog ref={dialog} className="palette" aria-label="Go to" onClose={() => setIsOpen(false)}>
        {isOpen && <Search onDone={() => setIsOpen(false)} />}
      </dialog>
    </>
  );
}

function Search({ onDone }: { onDone: () => void }): ReactNode {
  const [, go] = useLocation();
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState(0);
  const { data: spaces } = useData<{ spaces: SpaceRecord[] }>("/api/spaces");
  const { data: tools } = useData<{ tools: ToolDefinition[] }>("/api/v1/tools");
  const { data: agents } = useData<{ agents: { id: string; name: string }[] }>("/api/agents");
  const places = useMemo<Place[]>(
    () => [
      ...PAGES,
      ...(spaces?.spaces ?? []).map(({ id, name }) => ({ name, kind: "space", path: `/spaces/${encodeURIComponent(id)}` })),
      ...(agents?.agents ?? []).map(({ id, name }) => ({ name, kind: "agent", path: `/agents/${encodeURIComponent(id)}` })),
      ...(tools?.tools ?? []).map(({ name }) => ({ name, kind: "tool", path: `/tools/${encodeURIComponent(name)}` })),
    ],
    [spaces, tools, agents],
  );
  const meant = useFoundTools(useDeferredValue(words));
  const found = useMemo(() => {
    const named = places.filter(({ name }) => name.toLowerCase().includes(words.trim().toLowerCase()));
    const others = places.filter((place) => place.kind === "tool" && meant.has(place.name) && !named.includes(place));
    return [...named, ...others].slice(0, 12);
  }, [places, words, meant]);
  const open = (place: Place | undefined): void => {
    if (place === undefined) return;
    go(place.path);
    onDone();
  };
  const move = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setChosen(Math.min(chosen + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen(Math.max(chosen - 1, 0));
    else if (event.key === "Enter") open(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[chosen] === undefined ? undefined : `place-${chosen}`}
        aria-label="Name of a page, space, agent or tool"
        placeholder="Go to a space, tool, agent …"
        value={words}
        onChange={(event) => (setWords(event.target.value), setChosen(0))}
        onKeyDown={move}
      />
      <ul id="palette-list" role="listbox" aria-label="Results">
        {found.map((place, number) => (
          <li key={place.path} id={`place-${number}`} role="option" aria-selected={number === chosen} onClick={() => open(place)} onMouseMove={() => setChosen(number)}>
            <span>{inOneLine(place.name, 80)}</span>
            <span className="quiet">{place.kind}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
