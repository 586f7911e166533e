import { useState, type ReactNode } from "react";
import { getDefaultRegistry } from "@rjsf/core";
import type { FieldProps } from "@rjsf/utils";
import { isAnything } from "./shown-schema";

const Usual = getDefaultRegistry().fields.SchemaField!;

/** A form field by its schema, or a JSON editor if the schema allows anything. */
export function FieldOrJson(props: FieldProps): ReactNode {
  const schema = props.registry.schemaUtils.retrieveSchema(props.schema, props.formData);
  const isRoot = props.fieldPathId.path.length === 0;
  return !isRoot && isAnything(schema) ? <JsonField {...props} schema={schema} /> : <Usual {...props} />;
}

function JsonField({ schema, name, required, disabled, formData, fieldPathId, onChange, rawErrors }: FieldProps): ReactNode {
  const [text, setText] = useState(formData === undefined || formData === null ? "" : JSON.stringify(formData, null, 2));
  const [isBroken, setIsBroken] = useState(false);
  const id = fieldPathId.$id;
  const write = (now: string): void => {
    setText(now);
    if (now.trim() === "") {
      setIsBroken(false);
      onChange(undefined, fieldPathId.path);
      return;
    }
    try {
      onChange(JSON.parse(now), fieldPathId.path);
      setIsBroken(false);
    } catch {
      // Text that is not JSON is taken as a string.
      onChange(now, fieldPathId.path);
      setIsBroken(schema.type !== undefined);
    }
  };
  return (
    <div className="rjsf-field">
      <label htmlFor={id}>
        {schema.title ?? name}
        {required === true && "*"} <span className="quiet">{hint(schema.type)}</span>
      </label>
      <textarea id={id} className="code" rows={2} value={text} disabled={disabled === true} spellCheck={false} onChange={(event) => write(event.target.value)} />
      {schema.description !== undefined && <div className="field-description">{schema.description}</div>}
      {isBroken && <p className="error-detail">Invalid JSON.</p>}
      {!isBroken && rawErrors?.map((fault) => <p key={fault} className="error-detail">{fault}</p>)}
    </div>
  );
}

function hint(type: unknown): string {
  if (type === "array") return "JSON array, e.g. [1, 2]";
  return type === "object" ? 'JSON object, e.g. {"name": 1}' : "JSON or plain text";
}
