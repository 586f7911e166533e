import { useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";

export interface Where {
  url: string;
  apiKey: string;
  space: string;
}

/** Asks where the gateway is, with which key, and which space. The key stays in this page's memory. */
export function connect(show: (where: Where) => ReactNode): void {
  createRoot(document.getElementById("root")!).render(<Connect show={show} />);
}

function Connect({ show }: { show: (where: Where) => ReactNode }): ReactNode {
  const [where, setWhere] = useState<Where | null>(null);
  if (where !== null) return show(where);
  const send = (form: FormData): void => setWhere({ url: String(form.get("url")), apiKey: String(form.get("key")), space: String(form.get("space")) });
  return (
    <form action={send}>
      <label>
        Gateway <input name="url" type="url" defaultValue="http://127.0.0.1:8420" required />
      </label>
      <label>
        Key <input name="key" type="password" autoComplete="off" required />
      </label>
      <label>
        Space <input name="space" defaultValue="lobby" required />
      </label>
      <button type="submit">Connect</button>
    </form>
  );
}
