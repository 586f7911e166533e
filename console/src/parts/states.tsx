/**
 * What a page shows instead of its content. `<Loading what="runs" />` for a page and `<Skeleton what="Runs" />` for a
 * list, both after a moment, so that fast loads do not flicker. `<Empty title="No runs yet">how to get the first
 * one</Empty>`. `<Fault error onRetry />` says what went wrong; a refusal (403) names the permission that is missing,
 * in the gateway's words. `<Section>` is one titled part of a page that folds to a line when it is empty.
 */
import { useId, type ReactNode } from "react";
import { GatewayError } from "@jackfield/react";

export function Loading({ what }: { what: string }): ReactNode {
  return (
    <div className="state loading" role="status">
      Loading {what} …
    </div>
  );
}

/** Lines of a list that is being loaded. */
export function Skeleton({ what, lines = 8 }: { what: string; lines?: number }): ReactNode {
  return (
    <div className="skeleton" role="status" aria-label={`Loading ${what}`}>
      {Array.from({ length: lines }, (_, place) => (
        <span key={place} />
      ))}
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

export function Section({ title, count, nothing, actions, children }: { title: string; count?: number | undefined; nothing?: ReactNode; actions?: ReactNode; children?: ReactNode }): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id} className={count === 0 ? "nothing" : ""}>
      <div className="section-head">
        <h2 id={id}>
          {title} {count !== undefined && count > 0 && <span className="quiet">{count.toLocaleString()}</span>}
        </h2>
        {actions}
      </div>
      {count === 0 ? <p className="quiet">{nothing}</p> : children}
    </section>
  );
}

function isForbidden(error: Error): boolean {
  return error instanceof GatewayError && error.status === 403;
}

export function NotHere(): ReactNode {
  return (
    <Empty title="Page not found">
      <a href="#/overview">Go to the overview</a>
    </Empty>
  );
}
