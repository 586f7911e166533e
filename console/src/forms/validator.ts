import { Validator, type OutputUnit, type Schema } from "@cfworker/json-schema";
import { toErrorList, toErrorSchema, type RJSFSchema, type RJSFValidationError, type ValidationData, type ValidatorType } from "@rjsf/utils";

// These only say that something inside them is wrong, which says it itself.
const OUTER = new Set(["properties", "items", "prefixItems", "additionalProperties", "$ref", "allOf", "if", "then", "else", "patternProperties", "dependentSchemas"]);
const MISSING = /required property "(.*)"/;

/**
 * Checks by reading the schema. The usual validator writes a program for each schema, and this page's policy runs no
 * program that did not come from the gateway.
 */
export const validator: ValidatorType = {
  validateFormData(formData: unknown, schema: RJSFSchema): ValidationData<unknown> {
    const errorSchema = toErrorSchema<unknown>(faultsOf(schema, formData));
    return { errors: toErrorList(errorSchema), errorSchema };
  },
  isValid(schema: RJSFSchema, formData: unknown, root: RJSFSchema): boolean {
    const whole = { $defs: root["$defs"], definitions: root["definitions"], ...schema } as RJSFSchema;
    return faultsOf(whole, formData).length === 0;
  },
  rawValidation<Result>(schema: RJSFSchema, formData?: unknown) {
    return { errors: faultsOf(schema, formData) as Result[] };
  },
};

export default validator;

export function faultsOf(schema: RJSFSchema, value: unknown): RJSFValidationError[] {
  try {
    const { errors } = new Validator(JSON.parse(JSON.stringify(schema)) as Schema, "2020-12", false).validate(value === undefined ? {} : value);
    return errors.filter((unit) => !OUTER.has(unit.keyword)).map(faultOf);
  } catch {
    return []; // a schema that cannot be read refuses nothing here; the gateway has the last word
  }
}

function faultOf({ keyword, instanceLocation, error }: OutputUnit): RJSFValidationError {
  const path = instanceLocation.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const missing = keyword === "required" ? MISSING.exec(error)?.[1] : undefined;
  if (missing !== undefined) path.push(missing);
  const message = missing === undefined ? error : "This is needed.";
  return { name: keyword, message, property: path.map((part) => `.${part}`).join(""), stack: message };
}
