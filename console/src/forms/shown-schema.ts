import type { RJSFSchema } from "@rjsf/utils";

type Schema = RJSFSchema & Record<string, unknown>;

const LISTS = ["anyOf", "oneOf", "allOf"] as const;
const MAPS = ["properties", "$defs", "definitions"] as const;
const WORDS: Record<string, string> = {
  string: "text",
  integer: "whole number",
  number: "number",
  boolean: "yes or no",
  array: "list",
  object: "fields",
  null: "nothing",
};

/**
 * Simplifies a schema for a form: nullable fields may be left empty, and alternatives get titles. The gateway validates
 * against the original schema.
 */
export function shownSchema(schema: unknown): RJSFSchema {
  if (schema === null || typeof schema !== "object" || Array.isArray(schema)) return {};
  const shown = withoutNull(schema as Schema);
  for (const name of LISTS) {
    if (Array.isArray(shown[name])) shown[name] = (shown[name] as unknown[]).map((option) => named(shownSchema(option), name));
  }
  for (const name of MAPS) {
    const map = shown[name];
    if (map !== null && typeof map === "object") {
      shown[name] = Object.fromEntries(Object.entries(map).map(([key, value]) => [key, shownSchema(value)]));
    }
  }
  if (Array.isArray(shown.items)) shown.items = shown.items.map(shownSchema);
  else if (shown.items !== undefined) shown.items = shownSchema(shown.items);
  return shown;
}

function withoutNull(schema: Schema): Schema {
  const shown: Schema = { ...schema };
  for (const name of ["anyOf", "oneOf"] as const) {
    const options = shown[name] as Schema[] | undefined;
    if (!Array.isArray(options)) continue;
    const others = options.filter((option) => option?.type !== "null");
    if (others.length === options.length) continue;
    delete shown[name];
    if (shown.default === null) delete shown.default;
    if (others.length > 1) shown[name] = others;
    else Object.assign(shown, { ...others[0], ...shown });
  }
  if (Array.isArray(shown.type)) {
    const types = shown.type.filter((type) => type !== "null");
    if (types.length !== shown.type.length && shown.default === null) delete shown.default;
    if (types.length === 1) shown.type = types[0]!;
    else {
      delete shown.type;
      shown.anyOf = types.map((type) => ({ type }));
    }
  }
  return shown;
}

function named(option: RJSFSchema, list: (typeof LISTS)[number]): RJSFSchema {
  if (list === "allOf" || option.title !== undefined || option.$ref !== undefined) return option;
  if (option.const !== undefined) return { ...option, title: String(option.const) };
  const kind = typeof option.type === "string" ? WORDS[option.type] : undefined;
  return kind === undefined ? option : { ...option, title: kind };
}

/** Whether a schema is too open for a form field; then a JSON editor is used. */
export function isAnything(schema: RJSFSchema): boolean {
  const says = (name: string): boolean => (schema as Schema)[name] !== undefined;
  if (says("enum") || says("const") || says("anyOf") || says("oneOf") || says("allOf") || says("$ref")) return false;
  if (schema.type === "object" || (schema.type === undefined && says("properties"))) return Object.keys(schema.properties ?? {}).length === 0;
  if (schema.type === "array") return schema.items === undefined || schema.items === true;
  return schema.type === undefined;
}
