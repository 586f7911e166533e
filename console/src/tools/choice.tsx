import { useId, useState, type ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { LongText, Tree } from "../parts/tree";
import { inOneLine, safeText } from "../safe-text";

interface Option {
  label: string;
  value: unknown;
  description: string;
}

/** `chooseOption`: a question with options; with `multiple`, several can be chosen. */
export function Choice({ call, canAnswer, submit, isSending }: ToolProps): ReactNode {
  const name = useId();
  const [chosen, setChosen] = useState<readonly number[]>([]);
  const { question, title, message, multiple } = (call.args ?? {}) as Record<string, unknown>;
  const options = optionsOf(call.args);
  const asked = [question, title, message].find((text) => typeof text === "string");
  const isMany = multiple === true;
  const choose = (place: number, isOn: boolean): void => setChosen(isMany ? chosen.filter((one) => one !== place).concat(isOn ? [place] : []) : [place]);
  const send = (): void => {
    const values = chosen.toSorted((one, other) => one - other).map((place) => options[place]!.value);
    void submit({ choice: isMany ? values : values[0] }).catch(() => undefined);
  };
  if (options.length === 0) return <Tree value={call.args} />;
  if (!canAnswer) {
    return (
      <>
        {typeof asked === "string" && <LongText text={asked} />}
        <p className="quiet">{call.status === "complete" ? `Chosen: ${inOneLine((call.result as { choice?: unknown } | null)?.choice ?? call.result, 200)}` : (call.error ?? "Waiting for an answer.")}</p>
      </>
    );
  }
  return (
    <fieldset className="choice" disabled={isSending}>
      <legend className="question">{safeText(typeof asked === "string" ? asked : "Choose", 2000)}</legend>
      {options.map((option, place) => (
        <label key={place}>
          <input type={isMany ? "checkbox" : "radio"} name={name} checked={chosen.includes(place)} onChange={(event) => choose(place, event.target.checked)} />
          <span>
            {option.label} {option.description !== "" && <span className="quiet">{option.description}</span>}
          </span>
        </label>
      ))}
      <div className="actions">
        <button type="button" className="primary" disabled={isSending || (chosen.length === 0 && !isMany)} onClick={send}>
          Choose
        </button>
      </div>
    </fieldset>
  );
}

export function optionsOf(args: unknown): Option[] {
  const { options, choices } = (args ?? {}) as Record<string, unknown>;
  const given = Array.isArray(options) ? options : Array.isArray(choices) ? choices : [];
  return given.slice(0, 200).map((option: unknown) => {
    const { label, title, name, value, id, description } = (option !== null && typeof option === "object" ? option : { label: option }) as Record<string, unknown>;
    const text = label ?? title ?? name ?? value ?? id;
    return { label: inOneLine(text, 200), value: value ?? id ?? text, description: typeof description === "string" ? inOneLine(description, 300) : "" };
  });
}
