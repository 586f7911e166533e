import { useContext, useState, type ReactNode } from "react";
import { Link } from "wouter";
import { client, useData } from "../../data";
import { IdentityContext, useMay } from "../../identity";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Confirm } from "../../parts/dialog";
import { Moment } from "../../parts/moment";
import { Empty, Fault, Section } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { toast } from "../../parts/toast";
import { inOneLine } from "../../safe-text";

export interface ConnectionRecord {
  source: string;
  auth: "shared" | "user";
  principal: string | null;
  status: "connected" | "login_needed" | "automatic";
  scopes: string[];
  issuer: string | null;
  connected_at: string | null;
  refreshed_at: string | null;
}

/** Who is logged in at a source; nothing where it takes no logins. */
export function SourceConnections({ source }: { source: string }): ReactNode {
  const { data } = useData<{ connections: ConnectionRecord[] }>("/api/v1/connections", { every: 5000 });
  const here = data?.connections.filter((one) => one.source === source) ?? [];
  if (here.length === 0) return null;
  return (
    <Section title="Who is logged in" count={here.length}>
      <Connections rows={here} />
    </Section>
  );
}

const COLUMNS: Column<ConnectionRecord>[] = [
  {
    id: "source",
    name: "Source",
    width: "minmax(100px, 1fr)",
    cell: ({ source }) => (
      <Link href={`/sources/${encodeURIComponent(source)}`} className="one-line">
        {inOneLine(source, 60)}
      </Link>
    ),
  },
  { id: "whose", name: "Whose", width: "minmax(100px, 1fr)", cell: ({ principal, auth }) => (auth === "shared" ? "everybody's" : inOneLine(principal ?? "", 80)) },
  { id: "status", name: "State", width: "120px", cell: ({ status }) => <LoginState status={status} /> },
  { id: "issuer", name: "Logged in at", isWide: true, cell: ({ issuer }) => <span className="one-line">{inOneLine(issuer ?? "–", 100)}</span> },
  { id: "scopes", name: "Scopes", isWide: true, cell: ({ scopes }) => <span className="one-line">{inOneLine(scopes.join(" "), 100)}</span> },
  { id: "since", name: "Since", width: "104px", isNumber: true, isWide: true, cell: ({ connected_at }) => <Moment at={connected_at} /> },
  { id: "do", name: "Login", width: "104px", isNumber: true, cell: (row) => <LogInOrOut connection={row} /> },
];

export function Connections({ rows, error, onRetry }: { rows: readonly ConnectionRecord[] | undefined; error?: Error | undefined; onRetry?: () => void }): ReactNode {
  return (
    <DataTable
      label="Connections"
      columns={COLUMNS}
      rows={rows}
      rowKey={({ source, principal }) => `${source} ${principal ?? ""}`}
      error={error}
      onRetry={onRetry}
      empty={
        <Empty title="No source takes logins">
          Write <code>auth = "shared"</code> or <code>auth = "user"</code> into a source's settings for one whose server wants a login.
        </Empty>
      }
    />
  );
}

function LoginState({ status }: { status: ConnectionRecord["status"] }): ReactNode {
  if (status === "connected") return <Badge tone="good">logged in</Badge>;
  return status === "automatic" ? <Badge tone="none">by itself</Badge> : <Badge tone="wait">login needed</Badge>;
}

/** The button of a login: one's own, the shared one, or for administrators the end of anybody's. */
function LogInOrOut({ connection }: { connection: ConnectionRecord }): ReactNode {
  const { source, principal, status } = connection;
  const me = useContext(IdentityContext)?.principal;
  const [isAsking, setIsAsking] = useState(false);
  const { mutate } = useData<unknown>("/api/v1/connections");
  const login = useAction();
  const mayCall = useMay("call");
  const isAdmin = useMay("admin");
  const isMine = principal === null || principal === me;
  if (status === "automatic" || !mayCall) return null;
  if (status === "connected") {
    if (!isMine && !isAdmin) return null;
    const whose = isMine ? "" : `?principal=${encodeURIComponent(principal ?? "")}`;
    return (
      <>
        <button type="button" className="small" onClick={() => setIsAsking(true)}>
          Log out
        </button>
        <Confirm
          title={`Log ${isMine ? "" : `${inOneLine(principal ?? "", 60)} `}out of ${inOneLine(source, 60)}?`}
          verb="Log out"
          isDanger
          isOpen={isAsking}
          onClose={() => setIsAsking(false)}
          onConfirm={async () => {
            await client.delete(`/api/v1/connections/${encodeURIComponent(source)}${whose}`);
            toast(`Logged out of ${source}`);
            await mutate();
          }}
        >
          <p>The login is revoked at the server where that can be done. Calls that need it wait for another login.</p>
        </Confirm>
      </>
    );
  }
  if (!isMine) return null;
  return (
    <>
      <button
        type="button"
        className="small primary"
        disabled={login.isBusy}
        onClick={() =>
          void login.run(async () => {
            const { login_url } = await client.post<{ login_url: string }>(`/api/v1/connections/${encodeURIComponent(source)}`);
            const target = new URL(login_url);
            if (target.protocol !== "http:" && target.protocol !== "https:") throw new Error("The login's address is not a web address.");
            location.assign(target.href);
          })
        }
      >
        Log in
      </button>
      {login.fault !== null && <Fault error={login.fault} />}
    </>
  );
}
