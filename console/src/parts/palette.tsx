import { useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { go } from "../address";
import { useConnection } from "../connection";
import { useData, useFoundTools, type SpaceRecord, type ToolDefinition } from "../data";
import { PAGES } from "../pages";
import { inOneLine } from "../safe-text";
import { useKnownActions } from "../shortcuts";
import { Dialog } from "./dialog";
import { Icon, type IconName } from "./icon";

interface Place {
  name: string;
  kind: string;
  icon: IconName;
  key?: string | undefined;
  open: () => void;
}

const PLACES: Place[] = PAGES.map(({ name, path, icon, key }) => ({ name, kind: "page", icon, key: `g ${key}`, open: () => go(path) }));
const MOST = 12;

/** ⌘K: the command palette, of every page, space, agent, tool and source, and of what can be done here. */
export function Palette({ isOpen, onOpen, onClose }: { isOpen: boolean; onOpen: () => void; onClose: () => void }): ReactNode {
  const open = useRef(onOpen);
  open.current = onOpen;
  useEffect(() => {
    const listen = (event: globalThis.KeyboardEvent): void => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open.current();
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return (
    <Dialog title="Go to" className="palette" isOpen={isOpen} onClose={onClose}>
      <Search onDone={onClose} />
    </Dialog>
  );
}

function Search({ onDone }: { onDone: () => void }): ReactNode {
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState(0);
  const { data: spaces } = useData<{ spaces: SpaceRecord[] }>("/api/spaces");
  const { data: tools } = useData<{ tools: ToolDefinition[] }>("/api/v1/tools");
  const { data: agents } = useData<{ agents: { id: string; name: string }[] }>("/api/agents");
  const { ready } = useConnection();
  const actions = useKnownActions();
  const places = useMemo<Place[]>(
    () => [
      ...PLACES,
      ...actions.filter(({ key = "" }) => !key.startsWith("g ")).map(({ name, key, run }) => ({ name, kind: "action", icon: "play" as const, key, open: run })),
      ...(spaces?.spaces ?? []).map(({ id, name }) => placeOf(name, "space", "spaces", `/spaces/${encodeURIComponent(id)}`)),
      ...(agents?.agents ?? []).map(({ id, name }) => placeOf(name, "agent", "agents", `/agents/${encodeURIComponent(id)}`)),
      ...(ready?.sources ?? []).map(({ name }) => placeOf(name, "source", "sources", `/sources/${encodeURIComponent(name)}`)),
      ...(tools?.tools ?? []).map(({ name }) => placeOf(name, "tool", "tools", `/tools/${encodeURIComponent(name)}`)),
    ],
    [spaces, tools, agents, actions, ready?.sources],
  );
  const meant = useFoundTools(useDeferredValue(words));
  const found = useMemo(() => {
    const named = places.filter(({ name }) => name.toLowerCase().includes(words.trim().toLowerCase()));
    const others = places.filter((place) => place.kind === "tool" && meant.has(place.name) && !named.includes(place));
    return [...byId(words.trim()), ...named, ...others].slice(0, MOST);
  }, [places, words, meant]);
  const open = (place: Place | undefined): void => {
    if (place === undefined) return;
    onDone();
    place.open();
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
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[chosen] === undefined ? undefined : `place-${chosen}`}
        aria-label="Name of a page, space, agent, tool or source, or what to do"
        placeholder="Go to a page, tool, agent … or do something"
        value={words}
        onChange={(event) => (setWords(event.target.value), setChosen(0))}
        onKeyDown={move}
      />
      <ul id="palette-list" role="listbox" aria-label="Results">
        {found.map((place, number) => (
          <li key={`${place.kind} ${place.name} ${number}`} id={`place-${number}`} role="option" aria-selected={number === chosen} onClick={() => open(place)} onMouseMove={() => setChosen(number)}>
            <Icon name={place.icon} />
            <span className="one-line">{inOneLine(place.name, 80)}</span>
            <span className="quiet">{place.key === undefined ? place.kind : <kbd>{place.key}</kbd>}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function placeOf(name: string, kind: string, icon: IconName, path: string): Place {
  return { name, kind, icon, open: () => go(path) };
}

/** A call or a run, by the id that somebody has pasted. */
function byId(words: string): Place[] {
  if (/^call_[0-9A-Za-z]{8,}$/.test(words)) return [placeOf(words, "call", "calls", `/calls/${words}`)];
  return /^(run|resp)_[0-9A-Za-z]{8,}$/.test(words) ? [placeOf(words, "run", "runs", `/runs/${words}`)] : [];
}
