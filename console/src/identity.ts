import { useCallback, useEffect, useState } from "react";
import { Client, GatewayError } from "@jackfield/react";

export interface Known {
  is: "known";
  principal: string;
  scopes: string[];
  refresh: () => void;
}

export type Identity = Known | { is: "asking" } | { is: "unknown"; fault: string | null; refresh: () => void };

const client = new Client();

/** The code of the printed link, taken out of the address so that it stays in no history. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) history.replaceState(null, "", location.pathname);
  return code;
}

export function useIdentity(): Identity {
  const [identity, setIdentity] = useState<Identity>({ is: "asking" });
  const ask = useCallback(async (): Promise<void> => {
    const refresh = (): void => void ask();
    const code = takeCode();
    try {
      if (code !== null) await client.post("/api/login", { code });
      const known = await client.get<{ principal: string; scopes: string[] }>("/api/login");
      setIdentity({ is: "known", ...known, refresh });
    } catch (fault) {
      const refused = fault instanceof GatewayError && fault.status === 401 && code === null;
      setIdentity({ is: "unknown", fault: refused ? null : (fault as Error).message, refresh });
    }
  }, []);
  useEffect(() => void ask(), [ask]);
  return identity;
}

export function may(identity: Known, scope: string): boolean {
  return identity.scopes.includes("admin") || identity.scopes.includes(scope);
}
