import { useState, type ReactNode } from "react";

/** Copies text to the clipboard. */
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

/** Pages on plain HTTP have no Clipboard API. */
async function put(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
