/**
 * The place in the address: `#/calls?status=failed&range=60`. Filters live there, so a link and a reload show the same.
 * `usePath` and `useSearchText` are what the router uses; pages use `useFilters(["status", "tool"])`, which gives the
 * values, "" where none is set, and `set({ status: "failed" })`. A change replaces the entry of the history while
 * somebody types (`{ typing: true }`), and adds one otherwise, so that "back" undoes it.
 */
import { useCallback, useMemo, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let place = read();

function read(): string {
  return `/${location.hash.replace(/^#?\/?/, "")}`;
}

/** Takes over what the address says now, unless that would leave unsaved changes behind. */
function arrive(): void {
  const wanted = read();
  if (wanted === place) return;
  if (guards > 0 && pathOf(wanted) !== pathOf(place)) {
    history.pushState(null, "", `#${place}`);
    return ask(wanted);
  }
  place = wanted;
  for (const listener of listeners) listener();
}
addEventListener("hashchange", arrive);
addEventListener("popstate", arrive);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function here(): string {
  return place;
}

function pathOf(text: string): string {
  return text.split("?", 1)[0]!;
}

export function path(): string {
  return pathOf(here());
}

export function searchText(): string {
  return here().split("?").slice(1).join("?");
}

export function go(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const wanted = `/${to.replace(/^#?\/?/, "")}`;
  if (guards > 0 && pathOf(wanted) !== path()) return ask(wanted);
  if (replace) history.replaceState(null, "", `#${wanted}`);
  else history.pushState(null, "", `#${wanted}`);
  arrive();
}

let guards = 0;
let leaving: string | null = null;
const leavers = new Set<() => void>();

function ask(to: string | null): void {
  leaving = to;
  for (const listener of leavers) listener();
}

/** Until the function that it returns is called, leaving this page is asked about first (`parts/unsaved.tsx`). */
export function guard(): () => void {
  guards++;
  return () => void guards--;
}

export function subscribeLeaving(listener: () => void): () => void {
  leavers.add(listener);
  return () => leavers.delete(listener);
}

/** Where somebody wants to go who has not saved. */
export function leavingTo(): string | null {
  return leaving;
}

export function stay(): void {
  ask(null);
}

export function leave(): void {
  const to = leaving;
  const asked = guards;
  guards = 0;
  ask(null);
  if (to !== null) go(to);
  guards = asked;
}

export function usePath(): [string, typeof go] {
  return [useSyncExternalStore(subscribe, path), go];
}
usePath.hrefs = (href: string): string => `#${href}`;

export function useSearchText(): string {
  return useSyncExternalStore(subscribe, searchText);
}

export interface Filters<Name extends string> {
  values: Record<Name, string>;
  /** Whether any of them is set. */
  isAny: boolean;
  set: (changes: Partial<Record<Name, string>>, options?: { typing?: boolean }) => void;
  clear: () => void;
}

/** The named filters of this page. A change takes the page of the list (`cursor`) away with it. */
export function useFilters<Name extends string>(names: readonly Name[]): Filters<Name> {
  const text = useSearchText();
  const known = names.join(" ");
  const values = useMemo(() => {
    const query = new URLSearchParams(text);
    return Object.fromEntries(known.split(" ").map((name) => [name, query.get(name) ?? ""])) as Record<Name, string>;
  }, [text, known]);
  const set = useCallback((changes: Partial<Record<Name, string>>, { typing = false }: { typing?: boolean } = {}) => go(withQuery({ cursor: "", ...changes }), { replace: typing }), []);
  const clear = useCallback(() => go(withQuery(Object.fromEntries(["cursor", ...known.split(" ")].map((name) => [name, ""])))), [known]);
  return { values, isAny: Object.values(values).some((value) => value !== ""), set, clear };
}

/** This place with other filters; an empty one is left out. */
export function withQuery(changes: Record<string, string | undefined>): string {
  const query = new URLSearchParams(searchText());
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  return linkTo(path(), Object.fromEntries(query));
}

/** A place with filters: `linkTo("/calls", { tool: "double" })`. */
export function linkTo(place: string, filters: Record<string, string | number | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  const text = query.toString();
  return text === "" ? place : `${place}?${text}`;
}
