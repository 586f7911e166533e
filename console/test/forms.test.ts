import type { RJSFSchema } from "@rjsf/utils";
import { describe, expect, it } from "vitest";
import { isAnything, shownSchema } from "../src/forms/shown-schema";
import { faultsOf, validator } from "../src/forms/validator";

describe("a schema as a form shows it", () => {
  it("lets what may be null simply be empty", () => {
    expect(shownSchema({ anyOf: [{ type: "string", minLength: 1 }, { type: "null" }], default: null, title: "Name" })).toEqual({ type: "string", minLength: 1, title: "Name" });
    expect(shownSchema({ type: ["integer", "null"] })).toEqual({ type: "integer" });
  });

  it("names the kinds that one can choose between, also inside", () => {
    const shown = shownSchema({ type: "object", properties: { kind: { type: ["string", "integer", "null"] } }, $defs: { a: { oneOf: [{ const: "x" }, { type: "array" }] } } });
    expect(shown.properties?.["kind"]).toEqual({ anyOf: [{ type: "string", title: "text" }, { type: "integer", title: "whole number" }] });
    expect(shown["$defs"]?.["a"]).toEqual({ oneOf: [{ const: "x", title: "x" }, { type: "array", title: "list" }] });
  });

  it.each([true, null, 7, "x", []])("takes %j for a schema that says nothing", (schema) => {
    expect(shownSchema(schema)).toEqual({});
  });

  it.each([
    [{}, true],
    [{ type: "array" }, true],
    [{ type: "object" }, true],
    [{ description: "x" }, true],
    [{ type: "array", items: {} }, false],
    [{ type: "object", properties: { a: {} } }, false],
    [{ enum: [1] }, false],
    [{ $ref: "#/$defs/a" }, false],
    [{ type: "string" }, false],
  ])("%j is open to anything: %s", (schema, is) => {
    expect(isAnything(schema as object)).toBe(is);
  });
});

describe("what is wrong with what was filled in", () => {
  const schema: RJSFSchema = { type: "object", required: ["name"], properties: { name: { type: "string" }, trip: { $ref: "#/$defs/trip" } }, $defs: { trip: { type: "object", properties: { nights: { type: "integer", minimum: 1 } } } } };

  it("is said at its place", () => {
    expect(faultsOf(schema, { trip: { nights: 0 } }).map((fault) => fault.property)).toEqual([".name", ".trip.nights"]);
    expect(faultsOf(schema, undefined).map((fault) => fault.message)).toEqual(["Required."]);
    expect(faultsOf(schema, { name: "Ada", trip: { nights: 2 } })).toEqual([]);
  });

  it("knows the definitions of the whole where only a part is asked about", () => {
    expect(validator.isValid({ $ref: "#/$defs/trip" }, { nights: 0 }, schema)).toBe(false);
    expect(validator.isValid({ $ref: "#/$defs/trip" }, { nights: 1 }, schema)).toBe(true);
  });

  it("is left to the gateway where the schema cannot be read", () => {
    expect(faultsOf({ $ref: "#/nowhere" }, {})).toEqual([]);
  });
});
