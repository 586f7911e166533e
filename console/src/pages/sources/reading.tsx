/** Reading a resource and getting a prompt of a source, as an agent would: each is a call on record, under the usual limits. */
import { useState, type FormEvent, type ReactNode } from "react";
import { client } from "../../data";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Code, Json } from "../../parts/code";
import { Field } from "../../parts/field";
import { Fault } from "../../parts/states";
import { LongText } from "../../parts/tree";
import { inOneLine, safeText } from "../../safe-text";

interface Part {
  uri?: string;
  mimeType?: string;
  text?: string;
  blob?: string;
}

/** A resource with a button that reads it. */
export function ReadResource({ uri }: { uri: string }): ReactNode {
  const read = useAction();
  const [parts, setParts] = useState<Part[] | null>(null);
  const load = async (): Promise<void> => setParts((await client.get<{ contents: Part[] }>(`/api/v1/resources/read?uri=${encodeURIComponent(uri)}`)).contents);
  return (
    <>
      <button type="button" className="plain" disabled={read.isBusy} aria-label={parts === null ? `Read ${inOneLine(uri, 160)}` : `Close ${inOneLine(uri, 160)}`} onClick={() => (parts === null ? void read.run(load) : setParts(null))}>
        {read.isBusy ? "Reading …" : parts === null ? "Read" : "Close"}
      </button>
      {read.fault !== null && <Fault error={read.fault} />}
      {parts?.map((part, place) => <Shown key={place} part={part} />)}
    </>
  );
}

function Shown({ part: { uri, mimeType, text, blob } }: { part: Part }): ReactNode {
  const label = inOneLine([uri, mimeType].filter(Boolean).join(" · "), 200);
  if (text !== undefined) return <Code label={label} text={text} />;
  return <p className="quiet">{`${label}: ${Math.floor(((blob ?? "").length * 3) / 4).toLocaleString()} bytes that are no text.`}</p>;
}

export interface PromptArgument {
  name: string;
  description?: string;
  required?: boolean;
}

interface PromptMessage {
  role: string;
  content: { type?: string; text?: string } & Record<string, unknown>;
}

/** A prompt with a form for its arguments, and what it says with them. */
export function GetPrompt({ name, args }: { name: string; args: readonly PromptArgument[] }): ReactNode {
  const get = useAction();
  const [isOpen, setIsOpen] = useState(false);
  const [values, setValues] = useState<Record<string, string>>({});
  const [messages, setMessages] = useState<PromptMessage[] | null>(null);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
    void get.run(async () => setMessages((await client.post<{ messages: PromptMessage[] }>(`/api/v1/prompts/${encodeURIComponent(name)}`, { arguments: given })).messages));
  };
  return (
    <>
      <button type="button" className="plain" aria-expanded={isOpen} aria-label={`Try it: ${inOneLine(name, 80)}`} onClick={() => setIsOpen(!isOpen)}>
        Try it
      </button>
      {isOpen && (
        <form className="stack-small" onSubmit={send}>
          {args.map((one) => (
            <Field key={one.name} label={`${inOneLine(one.name, 80)}${one.required === true ? "*" : ""}`} hint={one.description === undefined ? undefined : safeText(one.description, 500)}>
              <input value={values[one.name] ?? ""} required={one.required === true} onChange={(event) => setValues({ ...values, [one.name]: event.target.value })} />
            </Field>
          ))}
          <div className="actions">
            <button type="submit" className="small primary" disabled={get.isBusy}>
              Get prompt
            </button>
          </div>
          {get.fault !== null && <Fault error={get.fault} />}
          {messages?.map(({ role, content }, place) => (
            <div key={place}>
              <Badge tone="none">{safeText(role, 40)}</Badge>
              {typeof content.text === "string" ? (
                <p className="text">
                  <LongText text={content.text} />
                </p>
              ) : (
                <Json label={inOneLine(content.type ?? "content", 40)} value={content} />
              )}
            </div>
          ))}
        </form>
      )}
    </>
  );
}
