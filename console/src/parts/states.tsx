import type { ReactNode } from "react";
import { GatewayError } from "@jackfield/react";

/** Shown with a delay, so that fast loads do not flicker. */
export function Loading({ what }: { what: string }): ReactNode {
  return (
    <div className="state loading" role="status">
      Loading {what} …
    </div>
  );
}

/** An empty list; the children say how to add the first entry. */
export function Empty({ title, children }: { title: string; children?: ReactNode }): ReactNode {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children !== undefined && <div className="quiet">{children}</div>}
    </div>
  );
}

export function Fault({ error, onRetry }: { error: Error; onRetry?: () => void }): ReactNode {
  if (isForbidden(error)) {
    return (
      <div className="state" role="status">
        <h2>Permission denied</h2>
        <p className="quiet">{error.message}</p>
      </div>
    );
  }
  return (
    <div className="state fault" role="alert">
      <p>{error.message}</p>
      {onRetry !== undefined && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

function isForbidden(error: Error): boolean {
  return error instanceof GatewayError && error.status === 403;
}

export function NotHere(): ReactNode {
  return (
    <Empty title="Page not found">
      <a href="#/spaces">Go to Spaces</a>
    </Empty>
  );
}
