import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { go, linkTo } from "../../address";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge, SourceState } from "../../parts/badge";
import { Confirm, Dialog } from "../../parts/dialog";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Moment } from "../../parts/moment";
import { Empty, Fault, Loading, Section } from "../../parts/states";
import { Traffic } from "../../parts/traffic";
import { toast } from "../../parts/toast";
import { Tree } from "../../parts/tree";
import { inOneLine, safeText } from "../../safe-text";
import { Changes } from "./changes";
import { SourceConnections } from "./connections";
import { EditSource } from "./editor";
import { HttpTools } from "./http-tools";
import { Offers } from "./offers";
import { ORIGINS, sourcePath, type SourceRecord, type SourceTest, type SwitchRecord } from "./records";
import { Tested } from "./tested";

/** One source: how it is and what to do, what it offers, what changed, who is logged in. */
export function OneSource({ name }: { name: string }): ReactNode {
  const { data, error, mutate } = useData<{ source: SourceRecord }>(sourcePath(name), { every: 3000 });
  const [isEditing, setIsEditing] = useState(false);
  if (data === undefined) {
    if (error === undefined) return <Loading what="the source" />;
    return error.status === 404 ? (
      <div className="page">
        <Crumb />
        <Empty title="There is no such source">{error.message}</Empty>
      </div>
    ) : (
      <Fault error={error} onRetry={() => void mutate()} />
    );
  }
  const { source } = data;
  return (
    <div className="page">
      <header className="source-head">
        <Crumb />
        <div className="page-head">
          <h1 className="with-marks">
            <span>{inOneLine(name, 60)}</span> <SourceState status={source.status} />
          </h1>
          <Actions source={source} onChanged={() => void mutate()} onEdit={() => setIsEditing(true)} />
        </div>
        <Facts
          facts={[
            ["Kind", inOneLine(source.kind, 40)],
            ["From", ORIGINS[source.origin] ?? source.origin],
            ["Since", source.since === null ? null : <Moment at={source.since} />],
            ["Last listing", <Moment at={source.listed_at} />],
            ["Last check", <Moment at={source.checked_at} />],
            ["Reconnects", source.reconnects.toLocaleString()],
            ["Calls now", <Link href={linkTo("/calls", { source: name })}>{source.calls.toLocaleString()}</Link>],
          ]}
        />
      </header>
      <Trouble source={source} />
      <Changes source={name} onChanged={() => void mutate()} />
      <Traffic of="source" name={name} />
      <Offers source={source} />
      {name === "http" && <HttpTools tools={source.tools} onChanged={() => void mutate()} />}
      <SourceConnections source={name} />
      {source.settings !== null && (
        <Section title="Settings" actions={<button type="button" onClick={() => setIsEditing(true)}><Icon name="edit" /> Edit</button>}>
          <div className="json">
            <Tree value={source.settings} />
          </div>
        </Section>
      )}
      <Dialog title={`Edit ${inOneLine(name, 60)}`} isOpen={isEditing} onClose={() => setIsEditing(false)} isWide>
        {source.settings !== null && (
          <EditSource
            name={name}
            settings={source.settings}
            onSaved={() => {
              setIsEditing(false);
              toast(`Source ${name} changed`);
              void mutate();
            }}
          />
        )}
      </Dialog>
    </div>
  );
}

function Crumb(): ReactNode {
  return (
    <nav aria-label="Breadcrumb">
      <Link href="/sources">Sources</Link>
    </nav>
  );
}

type Open = "restart" | "remove" | "off" | "test" | null;

function Actions({ source, onChanged, onEdit }: { source: SourceRecord; onChanged: () => void; onEdit: () => void }): ReactNode {
  const { name, origin } = source;
  const [open, setOpen] = useState<Open>(null);
  const { data, mutate } = useData<{ switches: SwitchRecord[] }>("/api/v1/switches", { every: 15_000 });
  const on = useAction();
  const off = data?.switches.find((one) => one.kind === "source" && one.name === name);
  const close = (): void => setOpen(null);
  const isOwn = origin === "builtin";
  const switchPath = `/api/v1/switches/source/${encodeURIComponent(name)}`;
  return (
    <>
      <div className="actions">
        {!isOwn && <button type="button" onClick={() => setOpen("test")}>Test</button>}
        {!isOwn && (
          <button type="button" onClick={() => setOpen("restart")}>
            <Icon name="refresh" /> Restart
          </button>
        )}
        {source.settings !== null && (
          <button type="button" onClick={onEdit}>
            <Icon name="edit" /> Edit
          </button>
        )}
        {off === undefined ? (
          <button type="button" onClick={() => setOpen("off")}>Switch off for everybody</button>
        ) : (
          <button type="button" className="primary" disabled={on.isBusy} onClick={() => void on.run(async () => (await client.put(switchPath, { enabled: true }), await mutate(), onChanged()))}>
            Switch on for everybody
          </button>
        )}
        {source.settings !== null && (
          <button type="button" className="danger" onClick={() => setOpen("remove")}>
            <Icon name="bin" /> Remove
          </button>
        )}
      </div>
      {off !== undefined && (
        <p className="notice" role="status">
          <Badge tone="none">off for everybody</Badge> by {inOneLine(off.by ?? "", 80)}, <Moment at={off.at} />
          {off.reason !== undefined && off.reason !== "" && <>: {safeText(off.reason, 500)}</>}
        </p>
      )}
      {on.fault !== null && <Fault error={on.fault} />}
      <Confirm
        title={`Restart ${inOneLine(name, 60)}?`}
        verb="Restart"
        isOpen={open === "restart"}
        onClose={close}
        onConfirm={async () => {
          await client.post(`${sourcePath(name)}/restart`);
          toast(`Source ${name} restarts`);
          onChanged();
        }}
      >
        <p>It is closed and opened again at every gateway. {source.calls > 0 ? `${source.calls} calls that run there now fail.` : "No call runs there now."}</p>
      </Confirm>
      <Confirm
        title={`Remove ${inOneLine(name, 60)}?`}
        verb="Remove"
        isDanger
        isOpen={open === "remove"}
        onClose={close}
        onConfirm={async () => {
          await client.delete(sourcePath(name));
          toast(`Source ${name} removed`);
          go("/sources");
        }}
      >
        <p>
          Its {source.tools.length} tools are gone at every gateway, and their names are free for others. Calls on record stay.
        </p>
      </Confirm>
      <Dialog title={`Switch ${inOneLine(name, 60)} off for everybody`} isOpen={open === "off"} onClose={close}>
        <SwitchOff path={switchPath} onDone={() => (close(), void mutate(), onChanged())} />
      </Dialog>
      <Dialog title={`Test of ${inOneLine(name, 60)}`} isOpen={open === "test"} onClose={close} isWide>
        <TestAgain name={name} />
      </Dialog>
    </>
  );
}

function SwitchOff({ path, onDone }: { path: string; onDone: () => void }): ReactNode {
  const [reason, setReason] = useState("");
  const off = useAction();
  return (
    <form
      className="stack-small"
      onSubmit={(event) => {
        event.preventDefault();
        void off.run(async () => {
          await client.put(path, { enabled: false, reason });
          onDone();
        });
      }}
    >
      <p>Its tools are listed for nobody, and calls of them are refused with the reason. The connection stays.</p>
      <Field label="Reason" hint="Shown to whoever calls its tools.">
        <input value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} autoFocus />
      </Field>
      {off.fault !== null && <Fault error={off.fault} />}
      <div className="actions">
        <button type="submit" className="danger" disabled={off.isBusy}>
          Switch off for everybody
        </button>
      </div>
    </form>
  );
}

/** Connects a second time, and says what it finds. */
function TestAgain({ name }: { name: string }): ReactNode {
  const test = useAction();
  const [result, setResult] = useState<SourceTest | null>(null);
  return (
    <div className="stack-small">
      <p className="quiet">The gateway connects a second time and lists what is offered. Nothing is kept.</p>
      <div className="actions">
        <button type="button" className="primary" disabled={test.isBusy} onClick={() => void test.run(async () => setResult(await client.post<SourceTest>(`${sourcePath(name)}/test`)))}>
          {test.isBusy ? "Testing …" : "Test now"}
        </button>
      </div>
      {test.fault !== null && <Fault error={test.fault} />}
      {result !== null && <Tested result={result} />}
    </div>
  );
}

/** What is wrong, in the source's own words, and what to do about it. */
function Trouble({ source }: { source: SourceRecord }): ReactNode {
  const { status, error, doing, faults, stderr } = source;
  const isWell = status === "up" && faults.length === 0;
  if (isWell && stderr.length === 0) return null;
  return (
    <section className={isWell ? "" : "trouble"} aria-labelledby="trouble-title">
      <h2 id="trouble-title">{isWell ? "Last words" : "What is wrong"}</h2>
      {error !== null && <p className="text">{safeText(error, 4000)}</p>}
      {doing !== null && <p className="text quiet">{safeText(doing, 2000)}</p>}
      {faults.filter((fault) => !error?.includes(fault)).map((fault) => (
        <p key={fault} className="text">
          {safeText(fault, 4000)}
        </p>
      ))}
      {!isWell && <p>{whatToDo(source)}</p>}
      {stderr.length > 0 && (
        <>
          <h3>{headingOf(source)}</h3>
          <pre className="code" tabIndex={0} aria-label="stderr">
            {stderr.map((line) => safeText(line, 2000)).join("\n")}
          </pre>
        </>
      )}
    </section>
  );
}

/** A source without a process says when each of its requests failed. */
function headingOf({ kind, stderr }: SourceRecord): string {
  if (/^\d{4}-\d\d-\d\dT/.test(stderr.at(-1) ?? "")) return "The last requests that failed";
  return kind === "files" ? "The errors in its files" : "The last lines that it wrote to stderr";
}

function whatToDo({ status, origin, settings, stderr, error }: SourceRecord): string {
  if (status === "login_needed") return "Log in below: its server shows what it offers after a login only.";
  if (status === "starting") return "It is starting. A command may be installing its program, which takes a while the first time.";
  const where = origin === "config" ? "Change it in the config file and reload under Settings, Config." : settings !== null ? "Edit it here." : "";
  if (status === "faulty") return `What works is offered. Mend what is named above; it is read again by itself. ${where}`;
  if (error !== null && /\$\{\w+\}/.test(error)) return `Set the secret that is named above. ${where}`;
  if (stderr.length > 0) return `Read what it said last, below, and mend it. The gateway tries again by itself; Restart tries at once. ${where}`;
  return `Check that it runs, and that its address or command is right. The gateway tries again by itself; Restart tries at once. ${where}`;
}
