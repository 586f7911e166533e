import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { go, linkTo } from "../../address";
import { toast } from "../../parts/toast";
import { EMPTY, SHAPES, type Shape } from "./draft";
import { NewSource } from "./editor";
import { HttpToolForm } from "./http-tools";

const KINDS: readonly (readonly [string, string, string])[] = [...SHAPES, ["tool", "HTTP tool", "One tool that sends one HTTP request"]];

/** Another source, of any kind that can be made while the gateway runs; the kind is in the address. */
export function AddSource({ kind }: { kind: string }): ReactNode {
  const [draft, setDraft] = useState(EMPTY);
  const known = KINDS.find(([id]) => id === kind)?.[0] ?? "url";
  return (
    <div className="page add-source">
      <header>
        <nav aria-label="Breadcrumb">
          <Link href="/sources">Sources</Link>
        </nav>
        <h1>Add a source</h1>
      </header>
      <nav className="kinds" aria-label="Kind of source">
        {KINDS.map(([id, name, about]) => (
          <Link key={id} href={linkTo("/sources", { add: id })} replace aria-current={id === known ? "true" : undefined}>
            <strong>{name}</strong>
            <span className="quiet">{about}</span>
          </Link>
        ))}
      </nav>
      {known === "tool" ? (
        <HttpToolForm
          onSaved={(name) => {
            toast(`Tool ${name} made`);
            go(`/tools/${encodeURIComponent(name)}`);
          }}
        />
      ) : (
        <NewSource
          key={known}
          draft={{ ...draft, shape: known as Shape }}
          onDraft={setDraft}
          onSaved={(name) => {
            toast(`Source ${name} made`);
            go(`/sources/${encodeURIComponent(name)}`);
          }}
        />
      )}
    </div>
  );
}
