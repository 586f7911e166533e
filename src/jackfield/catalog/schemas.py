"""JSON Schemas of tools: whether they can be used, and whether a value fits.

Above: `merge.py` asks for faults, `checking.py` checks arguments and results. Below: jsonschema-rs, and `wording.py`
for the sentences.

A schema is read in the draft that its `$schema` names, else 2020-12; formats are enforced. A reference to anything
outside the schema is refused, so that no definition makes the gateway fetch something. Compiling costs about 40 µs
and 14 kB a schema: the merge compiles each once to see whether it can be used and lets go of it.

Patterns are matched in linear time. One that cannot be (it looks around, other than ahead at its beginning, or back at
what it matched) is refused where somebody else wrote it, and tried within a bound where the operator did.
"""

from typing import Any

import jsonschema_rs
from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, Validator

from jackfield.catalog.expansion import is_explosive
from jackfield.catalog.explain import Fault, explain
from jackfield.catalog.lookahead import without_lookahead
from jackfield.model.tool import JsonSchema

ARGUMENTS = "The arguments"
RESULT = "The result"

MOST_BACKTRACKING = 20_000
"""Steps of one match, where a pattern needs them; less than a millisecond."""

_RELATIVE = "json-schema:///"
_NOT_LINEAR = (
    "has a pattern that looks around or back at what it matched, which can take for ever; "
    "write it without (?=…), (?!…), (?<…) and \\1"
)
_LINEAR = RegexOptions()
_WITHIN_A_BOUND = FancyRegexOptions(backtrack_limit=MOST_BACKTRACKING)


class ArgumentChecker:
    """One compiled schema."""

    __slots__ = ("_schema", "_validator", "_whole", "is_linear")

    def __init__(self, schema: JsonSchema, *, whole: str = ARGUMENTS) -> None:
        """Raises `ValueError` for a schema that `fault_in` has something to say about."""
        self._schema = schema
        self._whole = whole
        self._validator, self.is_linear = _compiled(schema)

    def fits(self, value: Any) -> bool:
        try:
            return self._validator.is_valid(value)
        except ValueError:
            return False  # it is no JSON, which `check` says

    def check(self, value: Any) -> list[Fault]:
        """What is wrong with `value`, as `{"path", "message"}` each; empty when it fits."""
        try:
            if self._validator.is_valid(value):
                return []
            faults = explain(self._validator.iter_errors(value), schema=self._schema, whole=self._whole)
        except ValueError as fault:
            return [{"path": "", "message": f"{self._whole} cannot be read as JSON: {fault}"}]
        return faults or [{"path": "", "message": f"{self._whole} do not fit the tool's schema"}]

    def first_fault(self, value: Any) -> list[Fault]:
        """The first thing that is wrong with a value that has too many to look at them all."""
        try:
            self._validator.validate(value)
        except ValidationError as error:
            return explain([error], schema=self._schema, whole=self._whole)
        return []


def fault_in(schema: JsonSchema, *, is_foreign: bool = False, brings_values: bool = False) -> str | None:
    """Why `schema` cannot be used, to stand after "its input schema"; None when it can.

    `is_foreign`: somebody else wrote it. `brings_values`: who wrote it chooses the values, too.
    """
    asked_for: list[str] = []
    try:
        _compile(schema, asked_for, patterns=_LINEAR)
    except (ValueError, TypeError, RecursionError):
        fault = _fault_otherwise(schema, asked_for)
        if fault is not None or is_foreign:
            return fault or _NOT_LINEAR
    try:
        if is_explosive(schema, for_any_depth=brings_values):
            return "refers to its own parts so often that checking a value could take for ever; make it smaller"
    except RecursionError as error:
        return f"is not usable as JSON Schema: {error}"
    return None


def _fault_otherwise(schema: JsonSchema, asked_for: list[str]) -> str | None:
    """What else is wrong than a pattern that is not matched in linear time."""
    asked_for.clear()
    try:
        _compile(schema, asked_for, patterns=_WITHIN_A_BOUND)
    except ValidationError as error:
        return _sentence(error, asked_for)
    except (ValueError, TypeError, RecursionError) as error:
        return f"is not usable as JSON Schema: {error}"
    return None


def not_an_object(schema: JsonSchema) -> str | None:
    """Why `schema` cannot describe arguments, which are always an object; None when it can."""
    kind = schema.get("type", "object")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        return None
    return f"describes {kind!r}, but arguments are always an object"


def _compiled(schema: JsonSchema) -> tuple[Validator, bool]:
    """With an engine that matches patterns in linear time, and True; else with one that goes back, and False."""
    try:
        return _compile(schema, [], patterns=_LINEAR), True
    except ValidationError:
        return _compile(schema, [], patterns=_WITHIN_A_BOUND), False


def _compile(schema: JsonSchema, asked_for: list[str], *, patterns: RegexOptions | FancyRegexOptions) -> Validator:
    def refuse(uri: str) -> Any:
        asked_for.append(uri)
        raise LookupError(f"{uri} is outside the schema")

    if patterns is _LINEAR:
        schema = without_lookahead(schema)
    return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=refuse, pattern_options=patterns)


def _sentence(error: ValidationError, asked_for: list[str]) -> str:
    if error.kind.name == "$ref":
        if asked_for:
            outside = asked_for[0].removeprefix(_RELATIVE)
            return f"refers to '{outside}', and nothing outside a schema is fetched; put that part under $defs"
        return f"has a reference that leads nowhere: {error.message}"
    fault = explain([error], schema={}, whole="the whole")[0]
    return f"is not valid JSON Schema: {fault['message']}"
