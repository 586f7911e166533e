import { type ReactNode } from "react";
import { Link } from "wouter";
import { useData } from "../data";
import { useMay } from "../identity";
import { Icon } from "../parts/icon";
import { NotHere } from "../parts/states";
import "../style/access.css";
import "../style/fields.css";
import { Audit } from "./access/audit";
import { GroupPage, Groups } from "./access/groups";
import { KeyPage, Keys } from "./access/keys";
import { People } from "./access/people";
import { Roles } from "./access/roles";
import { Connections, type ConnectionRecord } from "./sources/connections";

interface Part {
  name: string;
  isForAdmins: boolean;
  all: () => ReactNode;
  one?: (name: string) => ReactNode;
}

const PARTS: Record<string, Part> = {
  keys: { name: "Keys", isForAdmins: true, all: () => <Keys />, one: (name) => <KeyPage key={name} name={name} /> },
  people: { name: "People", isForAdmins: true, all: () => <People /> },
  roles: { name: "Roles", isForAdmins: true, all: () => <Roles /> },
  groups: { name: "Groups", isForAdmins: false, all: () => <Groups />, one: (name) => <GroupPage key={name} name={name} /> },
  connections: { name: "Connections", isForAdmins: false, all: () => <AllConnections /> },
  audit: { name: "Audit", isForAdmins: true, all: () => <Audit /> },
};

/** Who may do what, and who did: keys, people, roles, groups, connections and the audit log. */
export default function AccessPage({ part, name }: { part?: string | undefined; name?: string | undefined }): ReactNode {
  const isAdmin = useMay("admin");
  const current = part ?? (isAdmin ? "keys" : "groups");
  const shown = PARTS[current];
  if (shown === undefined) return <NotHere />;
  return (
    <div className="page">
      <h1>Access</h1>
      <nav className="tabs" aria-label="Parts of access">
        {Object.entries(PARTS).map(([id, { name: words }]) => (
          <Link key={id} href={`/access/${id}`} aria-current={id === current ? "true" : undefined}>
            {words}
          </Link>
        ))}
      </nav>
      {shown.isForAdmins && !isAdmin ? <ForAdministrators what={shown.name} /> : name !== undefined && shown.one !== undefined ? shown.one(name) : shown.all()}
    </div>
  );
}

/** Says which permission is missing. */
export function ForAdministrators({ what }: { what: string }): ReactNode {
  return (
    <p className="notice" role="status">
      <Icon name="lock" />
      <span>
        {what}: shown to administrators. Your key or role lacks the scope <code>admin</code>.
      </span>
    </p>
  );
}

function AllConnections(): ReactNode {
  const { data, error, mutate } = useData<{ connections: ConnectionRecord[] }>("/api/v1/connections", { every: 5000 });
  return <Connections rows={data?.connections} error={error} onRetry={() => void mutate()} />;
}
