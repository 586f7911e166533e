import type { ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { LongText, Tree } from "../parts/tree";
import { inOneLine, safeText } from "../safe-text";

interface Picture {
  /** The image as a data URL; null for a remote one. */
  inline: string | null;
  address: string;
  label: string;
}

const SHOWABLE = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/\s]+=*$/;

/** The images in a result: MCP image blocks. */
export function imagesIn(value: unknown): Picture[] {
  const content = (value as { content?: unknown } | null)?.content;
  const blocks = Array.isArray(content) ? content : Array.isArray(value) ? value : [value];
  return blocks.map(pictureOf).filter((picture) => picture !== null);
}

function pictureOf(block: unknown): Picture | null {
  const { type, data, mimeType, alt } = (block ?? {}) as Record<string, unknown>;
  if (type !== "image" || typeof data !== "string" || typeof mimeType !== "string" || !SHOWABLE.test(mimeType) || !BASE64.test(data)) return null;
  return { inline: `data:${mimeType};base64,${data}`, address: "", label: typeof alt === "string" ? inOneLine(alt, 200) : mimeType };
}

export function Images({ images }: { images: Picture[] }): ReactNode {
  return images.map((image, place) => <Shown key={place} picture={image} />);
}

/** Remote images are not loaded: their host would learn who looks at them. */
function Shown({ picture }: { picture: Picture }): ReactNode {
  if (picture.inline !== null) return <img src={picture.inline} alt={`Image: ${picture.label}`} className="picture" />;
  return (
    <a href={picture.address} target="_blank" rel="noopener noreferrer nofollow">
      Open {picture.label}
    </a>
  );
}

/** `displayImage`: `data` with `mimeType`, or an http `url`, which opens in a new page. */
export function DisplayImage({ call }: ToolProps): ReactNode {
  const { title, alt, caption, ...rest } = (call.args ?? {}) as Record<string, unknown>;
  const words = [title, caption, alt].find((text) => typeof text === "string");
  const picture = pictureOf({ ...rest, type: "image", alt: words }) ?? linkTo(rest["url"] ?? rest["src"]);
  return (
    <>
      {typeof words === "string" && <LongText text={words} />}
      {picture === null ? <Tree value={call.args} /> : <Shown picture={picture} />}
    </>
  );
}

/** `displayFile`: `name` with its `text`, or with an http `url`. */
export function DisplayFile({ call }: ToolProps): ReactNode {
  const { name, text, content, url } = (call.args ?? {}) as Record<string, unknown>;
  const words = text ?? content;
  const link = linkTo(url);
  return (
    <>
      <strong>{inOneLine(name ?? "file", 200)}</strong>
      {typeof words === "string" && (
        <pre className="code">
          <LongText text={words} most={4000} />
        </pre>
      )}
      {link !== null && <Shown picture={link} />}
      {typeof words !== "string" && link === null && <Tree value={call.args} />}
    </>
  );
}

function linkTo(address: unknown): Picture | null {
  if (typeof address !== "string" || !URL.canParse(address)) return null;
  const { protocol, host, href } = new URL(address);
  return protocol === "https:" || protocol === "http:" ? { inline: null, address: href, label: safeText(host, 120) } : null;
}
