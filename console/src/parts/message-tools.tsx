/**
 * What can be done with a message: its run is opened, its author edits it in place, has the agents answer it again, and
 * everybody reads what it said before. The buttons are there for the keyboard, and seen when the pointer is near.
 */
import { lazy, Suspense, useContext, useState, type KeyboardEvent, type ReactNode } from "react";
import { Link } from "wouter";
import type { SpaceMessage } from "@jackfield/react";
import { client, useData } from "../data";
import { IdentityContext, useMay } from "../identity";
import { safeText } from "../safe-text";
import { Dialog } from "./dialog";
import { Moment } from "./moment";
import { Fault, Loading } from "./states";
import { toast } from "./toast";

const Markdown = lazy(() => import("./markdown"));

const pathOf = (message: SpaceMessage): string => `/api/spaces/${encodeURIComponent(message.spaceId)}/messages/${encodeURIComponent(message.id)}`;

/** The text of a message, and its tools. */
export function MessageText({ message }: { message: SpaceMessage }): ReactNode {
  const [isEditing, setIsEditing] = useState(false);
  if (isEditing) return <Editor message={message} onDone={() => setIsEditing(false)} />;
  return (
    <>
      <Suspense fallback={<p className="text">{safeText(message.content)}</p>}>
        <Markdown text={message.content} />
      </Suspense>
      {message.editedAt !== undefined && <Edited message={message} />}
      <MessageTools message={message} onEdit={() => setIsEditing(true)} />
    </>
  );
}

export function MessageTools({ message, onEdit }: { message: SpaceMessage; onEdit?: () => void }): ReactNode {
  const identity = useContext(IdentityContext);
  const canSpeak = useMay("call");
  const isMine = canSpeak && identity?.principal === message.entityId && onEdit !== undefined;
  if (!isMine && message.runId === null) return null;
  const askAgain = async (): Promise<void> => {
    try {
      const { agents } = await client.post<{ agents: string[] }>(`${pathOf(message)}/retry`, {});
      toast(agents.length === 0 ? "No agent is in this space." : `Told again: ${safeText(agents.join(", "), 200)}`);
    } catch (fault) {
      toast((fault as Error).message, { isFault: true });
    }
  };
  return (
    <div className="message-tools">
      {message.runId !== null && <Link href={`/runs/${encodeURIComponent(message.runId)}`}>Run</Link>}
      {isMine && (
        <>
          <button type="button" className="plain" onClick={onEdit}>
            Edit
          </button>
          <button type="button" className="plain" onClick={() => void askAgain()}>
            Ask again
          </button>
        </>
      )}
    </div>
  );
}

function Editor({ message, onDone }: { message: SpaceMessage; onDone: () => void }): ReactNode {
  const [text, setText] = useState(message.content);
  const [fault, setFault] = useState<Error | null>(null);
  const save = async (): Promise<void> => {
    try {
      if (text !== message.content) await client.patch(pathOf(message), { content: text });
      onDone();
    } catch (refusal) {
      setFault(refusal as Error);
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") onDone();
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    if (text.trim() !== "") void save();
  };
  return (
    <form className="stack-small message-editor" onSubmit={(event) => (event.preventDefault(), void save())}>
      <textarea aria-label="Edit message" rows={Math.min(12, 1 + text.split("\n").length)} value={text} autoFocus onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
      {fault !== null && <Fault error={fault} />}
      <div className="actions">
        <button type="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={text.trim() === ""}>
          Save
        </button>
      </div>
    </form>
  );
}

/** That it was edited, and on a click what it said before. */
function Edited({ message }: { message: SpaceMessage }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <button type="button" className="plain edited" onClick={() => setIsOpen(true)}>
        edited
      </button>
      <Dialog title="What it said before" isOpen={isOpen} onClose={() => setIsOpen(false)}>
        <Earlier message={message} />
      </Dialog>
    </>
  );
}

function Earlier({ message }: { message: SpaceMessage }): ReactNode {
  const { data, error } = useData<{ earlier: { content: string; until: string }[] }>(`${pathOf(message)}/earlier`);
  if (error !== undefined) return <Fault error={error} />;
  if (data === undefined) return <Loading what="what it said" />;
  return (
    <ul className="list">
      {data.earlier.map(({ content, until }, place) => (
        <li key={place}>
          <p className="quiet">
            until <Moment at={until} />
          </p>
          <p className="text">{safeText(content)}</p>
        </li>
      ))}
    </ul>
  );
}
