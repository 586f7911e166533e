/** Every page of the console, in the order of the navigation; the palette and the shortcuts (`g c`) know them by this list. */
import type { IconName } from "./parts/icon";

export interface Page {
  path: string;
  name: string;
  icon: IconName;
  /** The key after `g` that leads there. */
  key: string;
}

export const PAGES: readonly Page[] = [
  { path: "/overview", name: "Overview", icon: "overview", key: "o" },
  { path: "/calls", name: "Calls", icon: "calls", key: "c" },
  { path: "/waiting", name: "Waiting", icon: "waiting", key: "w" },
  { path: "/runs", name: "Runs", icon: "runs", key: "r" },
  { path: "/spaces", name: "Spaces", icon: "spaces", key: "s" },
  { path: "/agents", name: "Agents", icon: "agents", key: "a" },
  { path: "/tools", name: "Tools", icon: "tools", key: "t" },
  { path: "/sources", name: "Sources", icon: "sources", key: "u" },
  { path: "/access", name: "Access", icon: "access", key: "x" },
  { path: "/settings", name: "Settings", icon: "settings", key: "e" },
];
