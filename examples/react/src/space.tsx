import type { ReactNode } from "react";
import { JackfieldProvider, ToolUI, ToolUIProvider, toolCallOf, useSpace, type ToolProps } from "@jackfield/react";
import { connect } from "./connect";

/** A component of our own for one tool; all others are shown by the package's fallback. */
function Confirm({ call, canAnswer, submit, isSending, error }: ToolProps): ReactNode {
  const { question } = call.args as { question: string };
  if (call.status === "complete") return <p>{(call.result as { confirmed: boolean }).confirmed ? "Yes" : "No"}</p>;
  return (
    <p>
      {question}{" "}
      <button disabled={!canAnswer || isSending} onClick={() => void submit({ confirmed: true })}>
        Yes
      </button>{" "}
      <button disabled={!canAnswer || isSending} onClick={() => void submit({ confirmed: false })}>
        No
      </button>
      {error != null && <span role="alert"> {error.message}</span>}
    </p>
  );
}

const TOOLS = { by_name: { confirmAction: Confirm } };

function Space({ id }: { id: string }): ReactNode {
  const { messages, inFlight, active, stream, send } = useSpace(id);
  const post = (form: FormData): void => void send(String(form.get("text")));
  return (
    <main>
      <h1>{id}</h1>
      {stream.is === "refused" && <p role="alert">{stream.error.message}</p>}
      {stream.is === "waiting" && <p role="status">{stream.error} Reconnecting …</p>}
      <ol>
        {messages.map((message) => {
          const call = toolCallOf(message);
          return (
            <li key={message.id}>
              <strong>{message.senderName}</strong> {call === null ? message.content : <ToolUI call={call} />}
            </li>
          );
        })}
        {inFlight.map((one) => one.kind === "message" && <li key={one.streamId}>{one.text} …</li>)}
      </ol>
      <p role="status">{active.map(({ agentName }) => `${agentName} is thinking …`).join(" ")}</p>
      <form action={post}>
        <input name="text" aria-label="Message" autoComplete="off" required />
        <button type="submit">Send</button>
      </form>
    </main>
  );
}

connect(({ url, apiKey, space }) => (
  <JackfieldProvider url={url} apiKey={apiKey}>
    <ToolUIProvider tools={TOOLS}>
      <Space id={space} />
    </ToolUIProvider>
  </JackfieldProvider>
));
