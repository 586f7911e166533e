import { Validator, type OutputUnit, type Schema } from "@cfworker/json-schema";
import { toErrorList, toErrorSchema, type RJSFSchema, type RJSFValidationError, type ValidationData, type ValidatorType } from "@rjsf/utils";

// Keywords that only repeat an error of their children.
const OUTER = new Set(["properties", "items", "prefixItems", "additionalProperties", "$ref", "allOf", "if", "then", "else", "patternProperties", "dependentSchemas"]);
const MISSING = /required property "(.*)"/;

/**
 * Validates by interpreting the schema. The default validator compiles schemas to code, which the Content Security Policy
 * forbids.
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
    return []; // an unreadable schema is left to the gateway
  }
}

function faultOf({ keyword, instanceLocation, error }: OutputUnit): RJSFValidationError {
  const path = instanceLocation.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const missing = keyword === "required" ? MISSING.exec(error)?.[1] : undefined;
  if (missing !== undefined) path.push(missing);
  const message = missing === undefined ? error : "Required.";
  return { name: keyword, message, property: path.map((part) => `.${part}`).join(""), stack: message };
}
