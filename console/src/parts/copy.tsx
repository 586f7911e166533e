import { useState, type ReactNode } from "react";

/** Puts text into the clipboard and says so. */
export function Copy({ text, children = "Copy" }: { text: string; children?: ReactNode }): ReactNode {
  const [isDone, setIsDone] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setIsDone(true);
    setTimeout(() => setIsDone(false), 1500);
  };
  return (
    <button type="button" className="plain" onClick={() => void copy()} aria-live="polite">
      {isDone ? "Copied" : children}
    </button>
  );
}
