import { useEffect, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useConnection, type Connection } from "../connection";
import { client, useData, type AgentRecord, type SpaceRecord } from "../data";
import type { Known } from "../identity";
import { PAGES } from "../pages";
import { inOneLine } from "../safe-text";
import { clock } from "../time";
import { useWaiting } from "../waiting-list";
import { Help } from "./help";
import { Icon, Logo } from "./icon";
import { Palette } from "./palette";
import { Toasts } from "./toast";
import { LeaveDialog } from "./unsaved";

/** The frame of every page: navigation with counts, whether the gateway answers, the current user. */
export function Shell({ identity, children }: { identity: Known; children: ReactNode }): ReactNode {
  const [location] = useLocation();
  const [isOpen, setIsOpen] = useState(false);
  const [isFinding, setIsFinding] = useState(false);
  const waiting = useWaiting();
  const here = PAGES.find(({ path }) => isIn(location, path))?.name;
  useEffect(() => {
    document.title = `${waiting.forMe > 0 ? `(${waiting.forMe}) ` : ""}${here === undefined ? "" : `${here} · `}Jackfield`;
  }, [waiting.forMe, here]);
  useEffect(() => setIsOpen(false), [location]);
  return (
    <div className={isOpen ? "shell open" : "shell"}>
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to content
      </a>
      <header className="top">
        <button type="button" className="bare menu" aria-expanded={isOpen} aria-controls="side" onClick={() => setIsOpen(!isOpen)}>
          <Icon name={isOpen ? "close" : "menu"} size={20} />
          <span className="hidden">Menu</span>
        </button>
        <strong>{here ?? "Jackfield"}</strong>
        {waiting.forMe > 0 && (
          <Link href="/waiting" className="wait-link">
            {waiting.forMe} waiting
          </Link>
        )}
        <button type="button" className="bare" aria-label="Go to" onClick={() => setIsFinding(true)}>
          <Icon name="search" />
        </button>
      </header>
      <aside id="side" className="side">
        <Link href="/overview" className="brand" aria-label="Jackfield">
          <Logo /> Jackfield
        </Link>
        <Navigation location={location} forMe={waiting.forMe} />
        <footer>
          <button type="button" className="go-to" onClick={() => setIsFinding(true)}>
            <Icon name="search" /> Go to … <kbd>⌘K</kbd>
          </button>
          <div className="who">
            <span className="one-line" title={about(identity)}>
              {inOneLine(identity.name, 100)}
            </span>
            <button type="button" className="plain" onClick={() => void signOut()}>
              Sign out
            </button>
          </div>
        </footer>
      </aside>
      <p className="hidden" role="status">
        {waiting.forMe > 0 && `${waiting.forMe} ${waiting.forMe === 1 ? "call is" : "calls are"} waiting for an answer`}
      </p>
      <div className="content">
        <Away />
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Palette isOpen={isFinding} onOpen={() => setIsFinding(true)} onClose={() => setIsFinding(false)} />
      <Help onSignOut={() => void signOut()} />
      <Toasts />
      <LeaveDialog />
    </div>
  );
}

function isIn(location: string, path: string): boolean {
  return location === path || location.startsWith(`${path}/`);
}

type Count = { words: string; tone?: "bad" | "wait" } | undefined;

function Navigation({ location, forMe }: { location: string; forMe: number }): ReactNode {
  const counts = useCounts(forMe);
  return (
    <nav aria-label="Pages">
      <ul>
        {PAGES.map(({ path, name, icon }) => {
          const count = counts[path];
          return (
            <li key={path}>
              <Link href={path} aria-current={isIn(location, path) ? "page" : undefined}>
                <Icon name={icon} />
                <span>{name}</span>
                {count !== undefined && <span className={`count ${count.tone ?? ""}`}>{count.words}</span>}
              </Link>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** What stands beside the names of the pages. */
function useCounts(forMe: number): Record<string, Count> {
  const { ready } = useConnection();
  const { data: hour } = useData<{ total: { calls: number } }>("/api/v1/overview?minutes=60", { every: 30_000 });
  const { data: spaces } = useData<{ spaces: SpaceRecord[] }>("/api/spaces", { every: 30_000 });
  const { data: agents } = useData<{ agents: AgentRecord[] }>("/api/agents", { every: 30_000 });
  const down = ready?.sources?.filter(({ status }) => status === "down" || status === "faulty").length ?? 0;
  const logins = ready?.sources?.filter(({ status }) => status === "login_needed").length ?? 0;
  const held = ready?.sources?.reduce((sum, source) => sum + (source.held?.length ?? 0), 0) ?? 0;
  return {
    "/calls": some(hour?.total.calls, (calls) => `${SHORT.format(calls)}/h`),
    "/waiting": forMe > 0 ? { words: String(forMe), tone: "wait" } : undefined,
    "/spaces": some(spaces?.spaces.length),
    "/agents": some(agents?.agents.length),
    "/tools": held > 0 ? { words: `${held} held`, tone: "wait" } : some(ready?.sources?.reduce((sum, source) => sum + source.tools, 0)),
    "/sources": down > 0 ? { words: `${down} down`, tone: "bad" } : logins > 0 ? { words: counted(logins, "login"), tone: "wait" } : undefined,
  };
}

function some(count: number | undefined, words: (count: number) => string = (one) => one.toLocaleString()): Count {
  return count === undefined || count === 0 ? undefined : { words: words(count) };
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Says on every page that the gateway is away, and as of when it is what the page shows. */
function Away(): ReactNode {
  const connection = useConnection();
  const said = awayWords(connection);
  return (
    <div role="status" className={said === null ? "" : "away"}>
      {said !== null && (
        <>
          <Icon name="warning" /> {said}
        </>
      )}
    </div>
  );
}

function awayWords({ isAway, answeredAt, ready }: Connection): string | null {
  if (isAway && answeredAt === null) return "The gateway does not answer. Reconnecting …";
  if (isAway) return `The gateway does not answer. What you see is as of ${clock(new Date(answeredAt!).toISOString())}. Reconnecting …`;
  if (ready?.store === "unreachable") return "The gateway's database does not answer. What you see may be old, and nothing can be changed.";
  return null;
}

/** Who is signed in, in full. */
function about({ principal, name, email, roles, scopes }: Known): string {
  const person = principal === name ? [] : [principal, email, roles.length > 0 ? `roles: ${roles.join(", ")}` : undefined];
  return [...person, `scopes: ${scopes.join(", ")}`].filter((text) => text !== undefined).join("\n");
}

async function signOut(): Promise<void> {
  await client.post("/api/logout");
  location.reload();
}
