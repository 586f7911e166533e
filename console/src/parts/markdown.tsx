import type { ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import { tables } from "./markdown-tables";
import { safeText } from "../safe-text";

const SCHEMES = /^(https?:|mailto:|#)/i;

// react-markdown drops HTML; this also removes remote images and unusual links.
const COMPONENTS: Components = {
  table: ({ children }) => (
    <div className="table" tabIndex={0} role="region" aria-label="Table">
      <table>{children}</table>
    </div>
  ),
  img: ({ alt, src }) => <span className="quiet">[image{alt ? `: ${alt}` : ""} {typeof src === "string" ? host(src) : ""}]</span>,
  a: ({ href, children }) =>
    href !== undefined && SCHEMES.test(href) ? (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
};

/** Markdown without HTML, remote images or unsafe links. */
export default function Markdown({ text }: { text: string }): ReactNode {
  return (
    <div className="markdown">
      <ReactMarkdown components={COMPONENTS} remarkPlugins={[tables]}>{safeText(text)}</ReactMarkdown>
    </div>
  );
}

function host(address: string): string {
  try {
    return new URL(address).host;
  } catch {
    return "";
  }
}
