import { useEffect, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { client, useData, type Readiness, type SourceStatus } from "../data";
import type { Known } from "../identity";
import { Palette } from "./palette";
import { inOneLine, safeText } from "../safe-text";
import { useWaiting } from "../waiting-list";

const PAGES = [
  { path: "/spaces", name: "Spaces" },
  { path: "/tools", name: "Tools" },
  { path: "/waiting", name: "Waiting" },
  { path: "/runs", name: "Runs" },
  { path: "/agents", name: "Agents" },
] as const;

/** The frame of every page: navigation, source status, current user. */
export function Shell({ identity, children }: { identity: Known; children: ReactNode }): ReactNode {
  const [location] = useLocation();
  const [isOpen, setIsOpen] = useState(false);
  const waiting = useWaiting();
  const { data: ready } = useData<Readiness>("/readyz", { every: 5000 });
  const here = PAGES.find(({ path }) => location.startsWith(path))?.name;
  useEffect(() => {
    document.title = `${waiting.forMe > 0 ? `(${waiting.forMe}) ` : ""}${here === undefined ? "" : `${here} · `}Jackfield`;
  }, [waiting.forMe, here]);
  useEffect(() => setIsOpen(false), [location]);
  const counts: Record<string, number | undefined> = {
    "/waiting": waiting.forMe || undefined,
    "/tools": ready?.sources?.reduce((sum, source) => sum + source.tools, 0),
  };
  return (
    <div className={isOpen ? "shell open" : "shell"}>
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to content
      </a>
      <header className="top">
        <button type="button" className="menu" aria-expanded={isOpen} aria-controls="side" onClick={() => setIsOpen(!isOpen)}>
          ☰<span className="hidden"> Menu</span>
        </button>
        <strong>Jackfield</strong>
        {waiting.forMe > 0 && <Link href="/waiting">{waiting.forMe} waiting</Link>}
      </header>
      <aside id="side" className="side">
        <strong className="brand">Jackfield</strong>
        <nav aria-label="Pages">
          <ul>
            {PAGES.map(({ path, name }) => (
              <li key={path}>
                <Link href={path} aria-current={location.startsWith(path) ? "page" : undefined}>
                  <span>{name}</span>
                  {counts[path] !== undefined && <span className="count">{counts[path]}</span>}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <Sources ready={ready} />
        <footer>
          <Palette />
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
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function Sources({ ready }: { ready: Readiness | undefined }): ReactNode {
  const shown = ready?.sources?.filter((source) => source.tools > 0 || source.status !== "up") ?? [];
  if (shown.length === 0) return null;
  return (
    <section className="sources" aria-labelledby="sources-title">
      <h2 id="sources-title">Sources</h2>
      <ul>
        {shown.map((source) => (
          <li key={source.name}>
            <Source source={source} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** One source; if it is not up, the reason can be expanded. */
function Source({ source }: { source: SourceStatus }): ReactNode {
  const line = (
    <>
      <span className={`dot ${source.status}`} aria-hidden="true" />
      <span className="name">{inOneLine(source.name, 60)}</span>
      <span className="quiet">{source.status === "up" ? source.tools : source.status.replace("_", " ")}</span>
    </>
  );
  const said = [source.error, source.doing].filter((text) => typeof text === "string");
  const stderr = source.stderr ?? [];
  if (source.status === "up" || said.length + stderr.length === 0) return <div className="source-line">{line}</div>;
  return (
    <details>
      <summary className="source-line">{line}</summary>
      {said.map((text) => (
        <p key={text}>{inOneLine(text, 600)}</p>
      ))}
      {stderr.length > 0 && <pre className="code">{stderr.map((text) => safeText(text, 300)).join("\n")}</pre>}
    </details>
  );
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
