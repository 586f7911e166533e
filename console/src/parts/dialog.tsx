/**
 * `<Dialog title isOpen onClose>` is a modal: Escape and the backdrop close it, focus goes in and comes back. `<Confirm
 * title="Revoke key ci?" verb="Revoke" isDanger onConfirm={async () => …} onClose={…} isOpen>text</Confirm>` asks before
 * something that cannot be undone; it stays open with the error if `onConfirm` fails, and closes when it is done.
 * Its children are mounted only while it is open, so their state begins anew each time. Put consequences in words into
 * the children, and the verb, never "OK", on the button.
 */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from "react";
import { Icon } from "./icon";
import { Fault } from "./states";

export function Dialog({ title, isOpen, onClose, children, isWide = false, className = "" }: { title: string; isOpen: boolean; onClose: () => void; children: ReactNode; isWide?: boolean; className?: string }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return dialog.current?.close();
    dialog.current?.showModal();
    // Rather than the button that closes it.
    dialog.current?.querySelector<HTMLElement>("input, select, textarea, .actions button")?.focus();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      className={`dialog${isWide ? " wide" : ""} ${className}`}
      aria-labelledby={id}
      onClose={onClose}
      // Closed by its state alone, so that it can be opened again at once.
      onCancel={(event) => (event.preventDefault(), onClose())}
      onMouseDown={(event) => event.target === dialog.current && onClose()}
    >
      {isOpen && (
        <div className="dialog-body">
          <header>
            <h2 id={id}>{title}</h2>
            <button type="button" className="bare" aria-label="Close" onClick={onClose}>
              <Icon name="close" />
            </button>
          </header>
          {children}
        </div>
      )}
    </dialog>
  );
}

interface Question {
  title: string;
  verb: string;
  isOpen: boolean;
  isDanger?: boolean;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  children?: ReactNode;
}

export function Confirm({ title, verb, isOpen, isDanger = false, onConfirm, onClose, children }: Question): ReactNode {
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <Asked verb={verb} isDanger={isDanger} onConfirm={onConfirm} onClose={onClose}>
        {children}
      </Asked>
    </Dialog>
  );
}

function Asked({ verb, isDanger, onConfirm, onClose, children }: Pick<Question, "verb" | "onConfirm" | "onClose" | "children"> & { isDanger: boolean }): ReactNode {
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (refusal) {
      setFault(refusal as Error);
      setIsBusy(false);
    }
  };
  return (
    <form className="stack-small" onSubmit={(event) => void send(event)}>
      {children}
      {fault !== null && <Fault error={fault} />}
      <div className="actions">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" className={isDanger ? "danger" : "primary"} disabled={isBusy}>
          {verb}
        </button>
      </div>
    </form>
  );
}
