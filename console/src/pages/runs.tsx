import type { ReactNode } from "react";

export default function RunsPage(_props: { id?: string | undefined; name?: string | undefined }): ReactNode {
  return (
    <div className="page">
      <h1>Runs</h1>
    </div>
  );
}
