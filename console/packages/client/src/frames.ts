import { parsed } from "./json.js";

/** One server-sent event; `data` is its JSON. */
export interface Frame {
  id: string | null;
  event: string | null;
  data: unknown;
}

/** Parses a chunked text stream into complete events. */
export function frames(onFrame: (frame: Frame) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    rest += text;
    for (;;) {
      const end = /\r?\n\r?\n/.exec(rest);
      if (end === null) return;
      const block = rest.slice(0, end.index);
      rest = rest.slice(end.index + end[0].length);
      const frame = parseFrame(block);
      if (frame !== null) onFrame(frame);
    }
  };
}

function parseFrame(block: string): Frame | null {
  let id: string | null = null;
  let event: string | null = null;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  if (data.length === 0) return null;
  try {
    return { id, event, data: parsed(data.join("\n")) };
  } catch {
    return null;
  }
}
