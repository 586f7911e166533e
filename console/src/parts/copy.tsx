import { useState, type ReactNode } from "react";

/** Puts text into the clipboard and says so. */
export function Copy({ text, children = "Copy" }: { text: string; children?: ReactNode }): ReactNode {
  const [isDone, setIsDone] = useState(false);
  const copy = async (): Promise<void> => {
    await put(text);
    setIsDone(true);
    setTimeout(() => setIsDone(false), 1500);
  };
  return (
    <button type="button" className="plain" onClick={() => void copy()} aria-live="polite">
      {isDone ? "Copied" : children}
    </button>
  );
}

/** A page that came over plain HTTP has no clipboard but the old way. */
async function put(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
