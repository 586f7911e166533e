import { useMemo, useState, type ReactNode } from "react";
import { encode } from "uqr";
import type { CallRecord } from "../data";
import { Copy } from "./copy";

/** A link, also as a QR code, by which this one call can be answered on a phone without signing in. */
export function Phone({ call }: { call: CallRecord }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  const link = answerLink(call.callback_url ?? call.approval_url ?? "");
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary className="quiet">Answer on a phone</summary>
      {isOpen && (
        <div className="phone">
          <QrCode text={link} />
          <div>
            <p>Whoever has this link can answer this one call, once. It shows exactly what is asked.</p>
            {isLoopback(link) && (
              <p className="fault" role="alert">
                Only this machine can open it: {new URL(link).hostname} is every device's name for itself. For other devices, set <code>host = "0.0.0.0"</code> and{" "}
                <code>public_url</code> to an address of this machine, both under <code>[server]</code> in jackfield.toml, and restart the gateway.
              </p>
            )}
            <Copy text={link}>Copy the link</Copy>
          </div>
        </div>
      )}
    </details>
  );
}

/**
 * The page for one call; the signed token stays behind the `#`, so that no server's log has it. A gateway that knows only
 * its own loopback address is reached by the one that this page came from.
 */
export function answerLink(callback: string, here: string = location.origin): string {
  const token = callback.slice(callback.lastIndexOf("/") + 1);
  const gateway = callback.slice(0, callback.indexOf("/api/"));
  return `${isLoopback(gateway) && !isLoopback(here) ? here : gateway}/#/answer/${token}`;
}

/** Whether a url leads every device to itself. */
export function isLoopback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

function QrCode({ text }: { text: string }): ReactNode {
  const { data, size } = useMemo(() => encode(text, { border: 2 }), [text]);
  const path = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : []))).join("");
  return (
    <svg viewBox={`0 0 ${size} ${size}`} className="qr" role="img" aria-label="QR code of the link">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
