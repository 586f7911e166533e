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
            <Copy text={link}>Copy the link</Copy>
          </div>
        </div>
      )}
    </details>
  );
}

/** The page for one call; the signed token stays behind the `#`, so that no server's log has it. */
export function answerLink(callback: string): string {
  const token = callback.slice(callback.lastIndexOf("/") + 1);
  return `${callback.slice(0, callback.indexOf("/api/"))}/#/answer/${token}`;
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
