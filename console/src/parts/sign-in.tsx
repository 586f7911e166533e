import { useState, type FormEvent, type ReactNode } from "react";
import { Client } from "@jackfield/react";
import { useData } from "../data";
import { inOneLine } from "../safe-text";

/** Signs in at the identity provider, where there is one, or with a key, which is exchanged for a cookie and not kept. */
export function SignIn({ fault, onSignedIn }: { fault: string | null; onSignedIn: () => void }): ReactNode {
  const [key, setKey] = useState("");
  const [said, setSaid] = useState(fault);
  const [isBusy, setIsBusy] = useState(false);
  const provider = useData<{ oidc: string | null }>("/api/login/ways").data?.oidc ?? null;
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await new Client({ key }).post("/api/login", {});
      onSignedIn();
    } catch (refusal) {
      setSaid((refusal as Error).message);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <h1>Jackfield</h1>
      {provider !== null && (
        <a className="button" href={`/api/login/oidc?return_to=${encodeURIComponent(here())}`}>
          Sign in with {inOneLine(provider, 60)}
        </a>
      )}
      <p>{provider === null ? "Open the link that the gateway printed at startup, or paste a key." : "Or paste a key."}</p>
      <form onSubmit={(event) => void send(event)}>
        <label htmlFor="key">Key</label>
        <input id="key" type="password" autoComplete="off" value={key} onChange={(event) => setKey(event.target.value)} required />
        <button type="submit" className={provider === null ? "primary" : undefined} disabled={isBusy}>
          Sign in
        </button>
      </form>
      {said !== null && (
        <p className="fault" role="alert">
          {said}
        </p>
      )}
    </main>
  );
}

/** This page, without the host. */
function here(): string {
  return `${location.pathname}${location.search}${location.hash}`;
}
