import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { linkTo } from "../../address";
import { client, useData } from "../../data";
import { Badge } from "../../parts/badge";
import { Confirm } from "../../parts/dialog";
import { Moment } from "../../parts/moment";
import { Empty } from "../../parts/states";
import { DataTable, type Column } from "../../parts/table";
import { toast } from "../../parts/toast";
import { inOneLine } from "../../safe-text";

interface UserRecord {
  id: string;
  name: string;
  email?: string;
  roles: string[];
  scopes: string[];
  signed_in_at: string;
  signed_out_at: string | null;
}

/** Everybody who signed in by the provider, and the end of their logins. */
export function People(): ReactNode {
  const { data, error, mutate } = useData<{ users: UserRecord[] }>("/api/v1/users", { every: 15_000 });
  const [asked, setAsked] = useState<UserRecord | null>(null);
  const columns: Column<UserRecord>[] = [
    {
      id: "name",
      name: "Person",
      width: "minmax(140px, 2fr)",
      sortBy: ({ name }) => name,
      cell: ({ id, name, email }) => (
        <span className="name-and-says">
          <strong className="one-line">{inOneLine(name, 100)}</strong>
          <span className="one-line quiet">{inOneLine(email ?? id, 100)}</span>
        </span>
      ),
    },
    { id: "roles", name: "Roles", width: "minmax(80px, 1fr)", cell: ({ roles }) => <span className="one-line">{inOneLine(roles.join(", ") || "none", 200)}</span> },
    { id: "scopes", name: "May", isWide: true, cell: ({ scopes }) => <span className="one-line">{inOneLine(scopes.join(", ") || "nothing", 200)}</span> },
    { id: "in", name: "Last sign-in", width: "112px", isNumber: true, isWide: true, sortBy: ({ signed_in_at }) => signed_in_at, cell: ({ signed_in_at }) => <Moment at={signed_in_at} /> },
    { id: "state", name: "State", width: "112px", isWide: true, cell: ({ signed_out_at }) => (signed_out_at === null ? <Badge tone="good">signed in</Badge> : <Badge tone="none">signed out</Badge>) },
    { id: "calls", name: "Calls", width: "56px", isWide: true, cell: ({ id }) => <Link href={linkTo("/calls", { principal: id })}>Calls</Link> },
    {
      id: "end",
      name: "Logins",
      width: "168px",
      isNumber: true,
      cell: (user) =>
        user.signed_out_at === null && (
          <button type="button" className="small" onClick={() => setAsked(user)}>
            Sign out everywhere
          </button>
        ),
    },
  ];
  return (
    <>
      <DataTable
        label="People"
        columns={columns}
        rows={data?.users}
        rowKey={({ id }) => id}
        error={error}
        onRetry={() => void mutate()}
        empty={
          <Empty title="Nobody has signed in by a provider">
            People appear here once they sign in with <code>[auth.oidc]</code>; <code>[auth.roles.NAME]</code> says what they may do.
          </Empty>
        }
      />
      <Confirm
        title={`Sign ${inOneLine(asked?.name ?? "", 80)} out everywhere?`}
        verb="Sign out everywhere"
        isDanger
        isOpen={asked !== null}
        onClose={() => setAsked(null)}
        onConfirm={async () => {
          await client.post(`/api/v1/users/${encodeURIComponent(asked?.id ?? "")}/sign-out`);
          toast(`${inOneLine(asked?.name ?? "", 80)} is signed out everywhere`);
          await mutate();
        }}
      >
        <p>All logins, tokens and waiting calls of this person end. They can sign in again, if the provider lets them.</p>
      </Confirm>
    </>
  );
}
