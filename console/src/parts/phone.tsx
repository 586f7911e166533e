import { useMemo, useState, type ReactNode } from "react";
import { encode } from "uqr";
import type { CallRecord } from "../data";
import { Copy } from "./copy";

/** A link and QR code to answer this call on a phone without signing in. */
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
            <p>Anybody with this link can answer this call, once. It shows exactly what is asked.</p>
            {isLoopback(link) && (
              <p className="fault" role="alert">
                This link only works on this machine: {new URL(link).hostname} is a loopback address. For other devices, set <code>host = "0.0.0.0"</code> and{" "}
                <code>public_url</code> to an address of this machine, both under <code>[server]</code> in jackfield.toml, and restart the gateway.
              </p>
            )}
            <Copy text={link}>Copy link</Copy>
          </div>
        </div>
      )}
    </details>
  );
}

/**
 * The answer page of a call. The signed token is in the fragment, so it appears in no server log. If the gateway only knows
 * its loopback address, the origin of this page is used.
 */
export function answerLink(callback: string, here: string = location.origin): string {
  const token = callback.slice(callback.lastIndexOf("/") + 1);
  const gateway = callback.slice(0, callback.indexOf("/api/"));
  return `${isLoopback(gateway) && !isLoopback(here) ? here : gateway}/#/answer/${token}`;
}

/** Whether a URL is a loopback address. */
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
