/**
 * Changes that are not saved say so: `<Unsaved isDirty={text !== saved} />` beside the form's button shows the words,
 * and asks before this place is left: by a link, by "back", or by closing the page. It only knows what it is told, so a
 * form says `isDirty={false}` once it is saved. `<LeaveDialog />` is in the shell, once. Another filter or tab of the same
 * page is not leaving it.
 */
import { useEffect, useSyncExternalStore, type ReactNode } from "react";
import { guard, leave, stay, subscribeLeaving, leavingTo } from "../address";
import { Dialog } from "./dialog";

export function Unsaved({ isDirty }: { isDirty: boolean }): ReactNode {
  useEffect(() => {
    if (!isDirty) return;
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", ask);
    const stop = guard();
    return () => {
      removeEventListener("beforeunload", ask);
      stop();
    };
  }, [isDirty]);
  return (
    <span className="unsaved" role="status">
      {isDirty && "Unsaved changes"}
    </span>
  );
}

export function LeaveDialog(): ReactNode {
  const isOpen = useSyncExternalStore(subscribeLeaving, leavingTo) !== null;
  return (
    <Dialog title="Leave without saving?" isOpen={isOpen} onClose={stay}>
      <p>Changes on this page are not saved.</p>
      <div className="actions">
        <button type="button" onClick={stay}>
          Stay
        </button>
        <button type="button" className="danger" onClick={leave}>
          Leave
        </button>
      </div>
    </Dialog>
  );
}
