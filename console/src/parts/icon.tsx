/**
 * Every icon of the console, drawn on a grid of 16 with a line of 1.5: `<Icon name="calls" />`. An icon stands beside a
 * word and is hidden from screen readers; alone in a button it needs the button's `aria-label`. `size` is in pixels. A
 * new one is a path in `PATHS`, in the manner of its neighbours. `Logo` is the mark of the project: a field of jacks,
 * two of them patched.
 */
import type { ReactNode } from "react";

const PATHS = {
  overview: "M2.5 2.5h4.5v4.5h-4.5zM9 2.5h4.5v7H9zM2.5 9.5h4.5v4h-4.5zM9 12h4.5v1.5H9z",
  calls: "M2 5.5h11M10 2.5l3 3-3 3M14 10.5H3M6 7.5l-3 3 3 3",
  waiting: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 4.5V8l2.5 1.5",
  runs: "M2.5 3h6M5 6.5h7M3.5 10h5M7 13.5h6.5",
  spaces: "M2.5 3h11v8h-6l-3 2.5V11h-2z",
  agents: "M3 6.5h10v7H3zM8 6.5v-3M8 3.5h.01M6 9.5v1M10 9.5v1M1.5 9v2M14.5 9v2",
  tools: "M9.5 6.5l-6.5 6.5M10 2.2a3.5 3.5 0 0 0 3.8 4.9 3.5 3.5 0 0 1-4.7 1.6 3.5 3.5 0 0 1-1.6-4.6A3.5 3.5 0 0 1 10 2.2l-.8 2.6 1.8 1.8 2.6-.7",
  sources: "M8 6c3 0 5.5-.9 5.5-2S11 2 8 2 2.5 2.9 2.5 4 5 6 8 6zM2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2",
  access: "M5.5 10.500a3.5 3.5 0 1 1 3-5.3 3.5 3.5 0 0 1 .2 3.200M8.7 8h5.800v2.500M12 8v2",
  settings: "M2 4.500h6M12 4.500h2M10 2.800v3.400M2 11.500h2M8 11.500h6M6 9.800v3.4",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.700l3.3 3.3",
  menu: "M2 4h12M2 8h12M2 12h12",
  close: "M3.5 3.500l9 9M12.5 3.500l-9 9",
  check: "M3 8.500l3.5 3.500L13 4.5",
  warning: "M8 2.500l6 11H2zM8 6.500V10M8 12h.01",
  copy: "M5.5 5.500h8v8h-8zM3.5 10.500h-1v-8h8v1",
  link: "M6.5 9.500l3-3M7 4.500l1.2-1.200a3 3 0 0 1 4.3 4.300L11.3 8.800M9 11.500l-1.2 1.200a3 3 0 0 1-4.3-4.300l1.2-1.2",
  external: "M6.5 3.500h-4v10h10v-4M9.5 2.500h4v4M13.5 2.500L7.5 8.5",
  download: "M8 2.500v8M4.5 7.500L8 11l3.5-3.500M2.5 13.500h11",
  refresh: "M13.5 8a5.5 5.5 0 1 1-1.7-4M13.5 2v3h-3",
  play: "M4.5 2.800v10.400L13 8z",
  pause: "M5 3v10M11 3v10",
  stop: "M4 4h8v8H4z",
  plus: "M8 3v10M3 8h10",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  left: "M10 4L6 8l4 4",
  right: "M6 4l4 4-4 4",
  filter: "M2 3.500h12L9.5 8.500v4l-3 1v-5z",
  person: "M8 8a2.750 2.750 0 1 0 0-5.500A2.750 2.750 0 0 0 8 8zM2.5 14c.6-2.5 2.7-4 5.5-4s4.9 1.5 5.5 4",
  edit: "M10.5 3l2.5 2.5-7.5 7.500H3v-2.500z",
  bin: "M3 4.500h10M6 4.500v-2h4v2M4.5 4.500l.5 9h6l.5-9M7 7v4M9 7v4",
  lock: "M3.5 7.500h9v6h-9zM5.5 7.500V5a2.5 2.5 0 0 1 5 0v2.5",
  help: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6.3 6.300A1.8 1.8 0 1 1 8.7 8c-.5.2-.7.5-.7 1M8 11.200h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo({ size = 20 }: { size?: number }): ReactNode {
  return (
    <svg className="icon logo" width={size} height={size} viewBox="0 0 20 20" fill="none" aria-hidden="true">
      <rect width="20" height="20" rx="5" fill="var(--accent)" />
      <path d="M6 6.200c0 5 8 2.6 8 7.6" stroke="var(--on-accent)" strokeWidth="1.8" strokeLinecap="round" />
      <circle cx="6" cy="6" r="2.2" fill="var(--on-accent)" />
      <circle cx="14" cy="14" r="2.2" fill="var(--on-accent)" />
      <circle cx="14" cy="6" r="1.6" stroke="var(--on-accent)" strokeWidth="1.2" opacity="0.65" />
      <circle cx="6" cy="14" r="1.6" stroke="var(--on-accent)" strokeWidth="1.2" opacity="0.65" />
    </svg>
  );
}
