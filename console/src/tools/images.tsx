import { useState, type ReactNode } from "react";

export interface FoundImage {
  source: string;
  isForeign: boolean;
  label: string;
}

const SHOWABLE = /^image\/(png|jpeg|gif|webp)$/;

/** Images in a result: MCP image blocks, and addresses of images, which are not loaded without a click. */
export function imagesIn(value: unknown): FoundImage[] {
  const content = (value as { content?: unknown } | null)?.content;
  const blocks = Array.isArray(content) ? content : Array.isArray(value) ? value : [value];
  return blocks.flatMap((block: unknown) => {
    const { type, data, mimeType } = (block ?? {}) as { type?: unknown; data?: unknown; mimeType?: unknown };
    if (type === "image" && typeof data === "string" && typeof mimeType === "string" && SHOWABLE.test(mimeType)) {
      return [{ source: `data:${mimeType};base64,${data}`, isForeign: false, label: mimeType }];
    }
    return [];
  });
}

export function Images({ images }: { images: FoundImage[] }): ReactNode {
  return images.map((image, place) => <Picture key={place} image={image} />);
}

function Picture({ image }: { image: FoundImage }): ReactNode {
  const [isShown, setIsShown] = useState(!image.isForeign);
  if (!isShown) {
    return (
      <button type="button" onClick={() => setIsShown(true)}>
        Load the image from {image.label}
      </button>
    );
  }
  return <img src={image.source} alt={`Result of the tool (${image.label})`} className="picture" referrerPolicy="no-referrer" />;
}
