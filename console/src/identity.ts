import { createContext, useCallback, useContext, useEffect, useState } from "react";
import { GatewayError } from "@jackfield/react";
import { go } from "./address";
import { client } from "./data";

export interface Known {
  is: "known";
  principal: string;
  /** A person's name; else the key's. */
  name: string;
  email?: string;
  roles: string[];
  scopes: string[];
  refresh: () => void;
}

export type Identity = Known | { is: "asking" } | { is: "unknown"; fault: string | null; refresh: () => void };

/** The one-time code of the printed link, removed from the address so that it is not kept in the history. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) go("/", { replace: true });
  return code;
}

export function useIdentity(): Identity {
  const [identity, setIdentity] = useState<Identity>({ is: "asking" });
  const ask = useCallback(async (): Promise<void> => {
    const refresh = (): void => void ask();
    const code = takeCode();
    try {
      if (code !== null) await client.post("/api/login", { code });
      const known = await client.get<Omit<Known, "is" | "refresh">>("/api/login");
      setIdentity({ is: "known", ...known, refresh });
    } catch (fault) {
      const refused = fault instanceof GatewayError && fault.status === 401 && code === null;
      const ended = (before: Identity): string | null => (before.is === "known" ? "You are signed out." : null);
      setIdentity((before) => ({ is: "unknown", fault: refused ? ended(before) : (fault as Error).message, refresh }));
    }
  }, []);
  useEffect(() => void ask(), [ask]);
  return identity;
}

export const IdentityContext = createContext<Known | null>(null);

/** Whether the current user has this scope. */
export function useMay(scope: "read" | "call" | "answer" | "admin"): boolean {
  const scopes = useContext(IdentityContext)?.scopes ?? [];
  // `call` includes `read`.
  return scopes.includes("admin") || scopes.includes(scope) || (scope === "read" && scopes.includes("call"));
}
