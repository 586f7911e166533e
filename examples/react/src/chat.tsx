import { useEffect, useMemo, useState, type ReactNode } from "react";
import { useChat } from "@ai-sdk/react";
import { lastAssistantMessageIsCompleteWithToolCalls, type UIMessage } from "ai";
import { Client } from "@jackfield/react";
import { SpaceTransport } from "@jackfield/react/ai-sdk";
import { connect, type Where } from "./connect";

/** A chat of the Vercel AI SDK that shows a space. */
function Chat({ transport, first }: { transport: SpaceTransport; first: UIMessage[] }): ReactNode {
  const { messages, status, error, sendMessage, addToolOutput } = useChat({ transport, messages: first, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
  const post = (form: FormData): void => void sendMessage({ text: String(form.get("text")) });
  return (
    <main>
      <ol>
        {messages.map(({ id, role, parts }) => (
          <li key={id}>
            <strong>{role}</strong>
            {parts.map((part, place) => {
              if (part.type === "text") return <p key={place}>{part.text}</p>;
              if (part.type !== "dynamic-tool") return null;
              return (
                <div key={place}>
                  <code>{part.toolName}</code> {JSON.stringify(part.input)} {part.state === "output-available" && JSON.stringify(part.output)}
                  {part.state === "input-available" && (
                    <button onClick={() => void addToolOutput({ tool: part.toolName, toolCallId: part.toolCallId, output: { confirmed: true } })}>Confirm</button>
                  )}
                </div>
              );
            })}
          </li>
        ))}
      </ol>
      <p role="status">{error?.message ?? status}</p>
      <form action={post}>
        <input name="text" aria-label="Message" autoComplete="off" required />
        <button type="submit">Send</button>
      </form>
    </main>
  );
}

function Begin({ url, apiKey, space }: Where): ReactNode {
  const transport = useMemo(() => new SpaceTransport({ client: new Client({ url, key: apiKey }), spaceId: space }), [url, apiKey, space]);
  const [first, setFirst] = useState<UIMessage[] | null>(null);
  useEffect(() => void transport.history().then(setFirst), [transport]);
  return first === null ? <p>Loading …</p> : <Chat transport={transport} first={first} />;
}

connect((where) => <Begin {...where} />);
