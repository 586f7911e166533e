import { useState, type FormEvent, type ReactNode } from "react";
import { Client } from "@jackfield/react";

/** Signs in with a key, which is exchanged for a cookie and not kept. */
export function SignIn({ fault, onSignedIn }: { fault: string | null; onSignedIn: () => void }): ReactNode {
  const [key, setKey] = useState("");
  const [said, setSaid] = useState(fault);
  const [isBusy, setIsBusy] = useState(false);
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
      <p>Open the link that the gateway printed at startup, or paste a key.</p>
      <form onSubmit={(event) => void send(event)}>
        <label htmlFor="key">Key</label>
        <input id="key" type="password" autoComplete="off" value={key} onChange={(event) => setKey(event.target.value)} required />
        <button type="submit" className="primary" disabled={isBusy}>
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
