import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react";
import { Fault } from "./states";

/** The message box. Enter sends, Shift+Enter adds a line; text that could not be sent is kept. */
export function Composer({ onSend }: { onSend: (text: string) => Promise<void> }): ReactNode {
  const [text, setText] = useState("");
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const area = field.current;
    if (area === null) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, 200)}px`;
  }, [text]);
  const send = async (event?: FormEvent): Promise<void> => {
    event?.preventDefault();
    if (text.trim() === "" || isBusy) return;
    setIsBusy(true);
    try {
      await onSend(text);
      setText("");
      setFault(null);
    } catch (refusal) {
      setFault(refusal as Error);
    } finally {
      setIsBusy(false);
      field.current?.focus();
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void send();
    }
  };
  return (
    <form className="composer" onSubmit={(event) => void send(event)}>
      {fault !== null && <Fault error={fault} />}
      <label className="hidden" htmlFor="composer">
        Message
      </label>
      <textarea id="composer" ref={field} rows={1} value={text} placeholder="Message …" onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
      <button type="submit" className="primary" disabled={isBusy || text.trim() === ""}>
        Send
      </button>
    </form>
  );
}
