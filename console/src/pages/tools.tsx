import type { ReactNode } from "react";

export default function ToolsPage(_props: { id?: string | undefined; name?: string | undefined }): ReactNode {
  return (
    <div className="page">
      <h1>Tools</h1>
    </div>
  );
}
