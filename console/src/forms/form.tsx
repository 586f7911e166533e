import Form from "@rjsf/core";
import type { IconButtonProps, RJSFSchema, TemplatesType } from "@rjsf/utils";
import { useMemo, type ReactNode } from "react";
import { FieldOrJson } from "./json-field";
import { shownSchema } from "./shown-schema";
import { validator } from "./validator";

function worded(word: string): (props: IconButtonProps) => ReactNode {
  return function WordButton({ id, onClick, disabled, className }: IconButtonProps) {
    return (
      <button type="button" id={id} className={`small ${className ?? ""}`} onClick={onClick} disabled={disabled === true}>
        {word}
      </button>
    );
  };
}

// The default buttons use an icon font that this page does not have.
const BUTTONS: Partial<TemplatesType["ButtonTemplates"]> = {
  AddButton: worded("Add"),
  RemoveButton: worded("Remove"),
  MoveUpButton: worded("Up"),
  MoveDownButton: worded("Down"),
  CopyButton: worded("Copy"),
  ClearButton: worded("Clear"),
};
const TEMPLATES = { ButtonTemplates: BUTTONS as TemplatesType["ButtonTemplates"] };
const FIELDS = { SchemaField: FieldOrJson };
const UI = { "ui:options": { label: false } };

export interface SchemaFormProps {
  schema: unknown;
  value?: unknown;
  isBusy: boolean;
  onChange?: (value: unknown) => void;
  onSubmit: (value: unknown) => void;
  /** The buttons. */
  children: ReactNode;
}

/** A form generated from a JSON Schema. */
export function FormOf({ schema, value, isBusy, onChange, onSubmit, children }: SchemaFormProps): ReactNode {
  const shown = useMemo(() => shownSchema(schema), [schema]);
  return (
    <Form
      schema={shown as RJSFSchema}
      uiSchema={UI}
      validator={validator}
      fields={FIELDS}
      templates={TEMPLATES}
      formData={value}
      disabled={isBusy}
      showErrorList={false}
      noHtml5Validate
      onChange={({ formData }: { formData?: unknown }) => onChange?.(formData)}
      onSubmit={({ formData }: { formData?: unknown }) => onSubmit(formData)}
    >
      {children}
    </Form>
  );
}
