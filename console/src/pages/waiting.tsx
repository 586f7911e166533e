import type { ReactNode } from "react";

export default function WaitingPage(_props: { id?: string | undefined; name?: string | undefined }): ReactNode {
  return (
    <div className="page">
      <h1>Waiting</h1>
    </div>
  );
}
