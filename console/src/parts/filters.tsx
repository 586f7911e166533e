/**
 * The row of filters above a list; their values live in the address (`useFilters` in `address.ts`):
 * `<FilterBar filters={filters}><Choose name="status" label="Status" options={CALL_STATES} filters={filters} /><Search
 * name="q" label="Search calls" filters={filters} /></FilterBar>`. An option is a value or [value, words]. `Search`
 * writes what is typed after a short pause. The bar shows a button that clears all of them when any is set.
 */
import { useEffect, useRef, useState, type ReactNode } from "react";
import type { Filters } from "../address";

const PAUSE_MS = 250;

interface Of<Name extends string> {
  name: Name;
  label: string;
  filters: Pick<Filters<Name>, "values" | "set">;
}

export function FilterBar({ filters, children }: { filters: { isAny: boolean; clear: () => void }; children: ReactNode }): ReactNode {
  return (
    <div className="filters" role="search" aria-label="Filters">
      {children}
      {filters.isAny && (
        <button type="button" className="plain" onClick={filters.clear}>
          Clear filters
        </button>
      )}
    </div>
  );
}

/** One of several; `label` is also what is shown while none is chosen: "Status" or "All sources". */
export function Choose<Name extends string>({ name, label, options, filters, any = label }: Of<Name> & { options: readonly (string | readonly [string, string])[]; any?: string }): ReactNode {
  const value = filters.values[name];
  const known = options.map((option) => (typeof option === "string" ? ([option, option.replaceAll("_", " ")] as const) : option));
  return (
    <select aria-label={label} className={value === "" ? "" : "set"} value={value} onChange={(event) => filters.set({ [name]: event.target.value } as Partial<Record<Name, string>>)}>
      <option value="">{any}</option>
      {value !== "" && !known.some(([one]) => one === value) && <option value={value}>{value}</option>}
      {known.map(([one, words]) => (
        <option key={one} value={one}>
          {words}
        </option>
      ))}
    </select>
  );
}

export function Search<Name extends string>({ name, label, filters, suggestions = [] }: Of<Name> & { suggestions?: readonly string[] }): ReactNode {
  const value = filters.values[name];
  const [words, setWords] = useState(value);
  const timer = useRef(0);
  useEffect(() => setWords(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const write = (now: string): void => {
    setWords(now);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => filters.set({ [name]: now.trim() } as Partial<Record<Name, string>>, { typing: true }), PAUSE_MS);
  };
  const list = `suggestions-${name}`;
  return (
    <>
      <input type="search" aria-label={label} placeholder={label} className={value === "" ? "" : "set"} value={words} list={suggestions.length > 0 ? list : undefined} onChange={(event) => write(event.target.value)} />
      {suggestions.length > 0 && (
        <datalist id={list}>
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </>
  );
}
