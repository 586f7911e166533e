import type { ReactNode } from "react";

export default function AgentsPage(_props: { id?: string | undefined; name?: string | undefined }): ReactNode {
  return (
    <div className="page">
      <h1>Agents</h1>
    </div>
  );
}
