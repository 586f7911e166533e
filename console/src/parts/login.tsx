import { useState, type ReactNode } from "react";
import { safeText } from "../safe-text";
import { Tree } from "./tree";

/** The login that a call waits for. */
export interface MissingLogin {
  source: string;
  /** Whose login; null: one for all, which an administrator makes. */
  principal: string | null;
  scopes: readonly string[];
  /** Where to make it; null: somebody else has to. */
  url: string | null;
}

interface LoginProps {
  login: MissingLogin;
  args: unknown;
  canReject: boolean;
  onReject: () => Promise<unknown>;
}

/** A call that waits for a login: which server wants it, from whom, and what would run then. */
export function LoginForm({ login, args, canReject, onReject }: LoginProps): ReactNode {
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const reject = async (): Promise<void> => {
    setIsBusy(true);
    setFault(null);
    try {
      await onReject();
    } catch (refusal) {
      setFault((refusal as Error).message);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <div className="approval">
      <p>{asks(login)}</p>
      <Tree value={args} whole />
      <div className="actions">
        {canReject && (
          <button type="button" disabled={isBusy} onClick={() => void reject()}>
            Reject
          </button>
        )}
        {login.url !== null && (
          <a className="button" href={login.url} target="_blank" rel="noopener noreferrer">
            Log in
          </a>
        )}
      </div>
      {fault !== null && (
        <p className="fault" role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}

function asks({ source, principal, scopes, url }: MissingLogin): string {
  const more = scopes.length === 0 ? "" : ` that allows ${safeText(scopes.join(" "), 200)}`;
  const where = safeText(source, 80);
  if (url !== null) return `${where} wants a login${more}. The call runs when you have logged in.`;
  const who = principal === null || principal.startsWith("agent:") ? "an administrator" : safeText(principal, 80);
  return `${where} wants a login${more}. The call waits for ${who}.`;
}
