"""JSON Schemas of tools: whether a schema can be used, whether a value fits, and what is wrong with one that does not.

A schema is read in the draft that its `$schema` names, else 2020-12; formats are enforced. References to anything
outside the schema are refused, so that no definition causes a request. Compiling takes about 40 µs and 14 kB a schema.

Patterns are matched in linear time. One that cannot be (lookaround other than at its beginning, backreferences) is
refused in a foreign schema, and matched with a step limit in one of the operator's.

A fault is `{"path", "message"}`, worded so that a model can correct it; the path is dotted (`filters.tags[2]`), empty
for the whole, and leads to the missing or surplus property itself rather than to the object around it.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, Validator

from jackfield.model.text import nearest
from jackfield.model.tool import JsonSchema
from jackfield.protocol.schema_limits import is_explosive, without_lookahead

ARGUMENTS = "The arguments"
RESULT = "The result"

MOST_BACKTRACKING = 20_000
"""Steps of one match of a pattern that backtracks; less than a millisecond."""

_RELATIVE = "json-schema:///"
_NOT_LINEAR = (
    "has a pattern that looks around or back at what it matched, which can take for ever; "
    "write it without (?=…), (?!…), (?<…) and \\1"
)
_LINEAR = RegexOptions()
_WITHIN_A_BOUND = FancyRegexOptions(backtrack_limit=MOST_BACKTRACKING)

Fault = dict[str, Any]

MAX_FAULTS = 20
"""A model reads a few faults; an array of 100,000 wrong items has 100,000."""
_MAX_LISTED = 20
_MAX_SHOWN = 60
_MAX_FORMS = 4
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ARTICLE = {
    "array": "an array",
    "boolean": "a boolean",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


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
            return False  # not JSON; `check` says so

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

    `is_foreign`: not the operator's. `brings_values`: its author also chooses the values.
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
    """The validator, and whether it matches patterns in linear time; else it backtracks."""
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


def summarize(faults: list[Fault]) -> str:
    """The first few faults as one sentence."""
    return "; ".join(str(fault["message"]).rstrip(".") for fault in faults[:3]) + "."


def explain(errors: Iterable[ValidationError], *, schema: JsonSchema, whole: str) -> list[Fault]:
    """The first faults, one sentence each. `whole` is what the value at the root is called."""
    faults = (fault for error in errors for fault in _faults(error, schema, whole))
    return list(islice(faults, MAX_FAULTS))


def dotted(path: Sequence[str | int]) -> str:
    """`["filters", "tags", 2]` → `filters.tags[2]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def _faults(error: ValidationError, schema: JsonSchema, whole: str) -> Iterable[Fault]:
    keyword = error.kind.name
    details: Any = error.kind
    if keyword == "required":
        place = dotted([*error.instance_path, details.property])
        yield {"path": place, "message": f"'{place}' is required"}
    elif keyword in {"additionalProperties", "unevaluatedProperties"}:
        known = _known_properties(schema, error.schema_path)
        for surplus in details.unexpected:
            place = dotted([*error.instance_path, surplus])
            yield {"path": place, "message": f"'{place}' is not a known property.{_hint(surplus, known)}"}
    elif keyword == "anyOf" or (keyword == "oneOf" and any(details.context)):
        yield from _no_form_fits(error, details.context, schema, whole)
    else:
        place = dotted(error.instance_path)
        yield {"path": place, "message": f"{place or whole} {_predicate(error)}"}


def _known_properties(schema: JsonSchema, schema_path: Sequence[str | int]) -> list[str]:
    """The properties that stand beside the keyword which `schema_path` leads to."""
    here: Any = schema
    for step in schema_path[:-1]:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return []
    properties = here.get("properties") if isinstance(here, dict) else None
    return [str(name) for name in properties] if isinstance(properties, dict) else []


def _hint(word: str, known: list[str]) -> str:
    few = known[:_MAX_LISTED]
    return nearest(word, few) or (f" Known: {', '.join(few)}." if few else " Remove it.")


def _no_form_fits(
    error: ValidationError, context: list[list[ValidationError]], schema: JsonSchema, whole: str
) -> Iterable[Fault]:
    """None of several forms fits: only types or constants differ, or one form was meant, or all are listed."""
    place = dotted(error.instance_path)
    here = len(error.instance_path)
    types = [_types_wanted_here(errors, here) for errors in context]
    if all(types):
        wanted = _either([kind for kinds in types for kind in kinds])
        yield {"path": place, "message": f"{place or whole} must be {wanted}, got {_got(error.instance)}"}
        return
    if constants := _constants(context):
        yield {"path": place, "message": f"{place or whole} {_one_of(constants, error.instance)}"}
        return
    meant = [errors for errors, kinds in zip(context, types, strict=True) if not kinds]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from _faults(inner, schema, whole)
        return
    forms = [next(iter(_faults(errors[0], schema, whole)))["message"] for errors in context[:_MAX_FORMS] if errors]
    listed = "; ".join(f"({number}) {form}" for number, form in enumerate(forms, 1))
    yield {"path": place, "message": f"{place or whole} fits none of its {len(context)} allowed forms: {listed}"}


def _constants(context: list[list[ValidationError]]) -> list[Any]:
    """The values that forms of the shape `{"const": …}` stand for; empty when there are other forms."""
    kinds: list[Any] = [errors[-1].kind for errors in context if errors and errors[-1].kind.name == "const"]
    return [kind.expected_value for kind in kinds] if len(kinds) == len(context) else []


def _types_wanted_here(errors: list[ValidationError], depth: int) -> list[str]:
    """The types a form asks for, when a wrong type of the whole value is all that is wrong with it."""
    details: Any = errors[0].kind if errors else None
    if len(errors) == 1 and errors[0].kind.name == "type" and len(errors[0].instance_path) == depth:
        return list(details.types)
    return []


def _predicate(error: ValidationError) -> str:
    """What the value must be, to stand after its name."""
    make = _PREDICATES.get(error.kind.name)
    return make(error.kind, error.instance) if make else f"is not allowed here: {_cut(error.message)}"


def _type(kind: Any, value: Any) -> str:
    return f"must be {_either(kind.types)}, got {_got(value)}"


def _one_of(options: list[Any], value: Any) -> str:
    listed = ", ".join(_plain(option) for option in options[:_MAX_LISTED])
    more = f" and {len(options) - _MAX_LISTED} more" if len(options) > _MAX_LISTED else ""
    words = [option for option in options[:_MAX_LISTED] if isinstance(option, str)]
    hint = nearest(value, words) if isinstance(value, str) else ""
    return f"must be one of {listed}{more}; got {_got(value)}{f'.{hint}' if hint else ''}"


def _property_names(kind: Any, _value: Any) -> str:
    inner: ValidationError = kind.error
    return f"has a key that is not allowed: {_plain(inner.instance)} {_predicate(inner)}"


def _count(direction: str, noun: str, nouns: str) -> Callable[[Any, Any], str]:
    def predicate(kind: Any, value: Any) -> str:
        return f"must have {direction} {kind.limit} {noun if kind.limit == 1 else nouns}, got {len(value)}"

    return predicate


def _limit(words: str) -> Callable[[Any, Any], str]:
    return lambda kind, value: f"must be {words} {_plain(kind.limit)}, got {_plain(value)}"


_PREDICATES: dict[str, Callable[[Any, Any], str]] = {
    "type": _type,
    "enum": lambda kind, value: _one_of(kind.options, value),
    "const": lambda kind, value: f"must be {_plain(kind.expected_value)}, got {_got(value)}",
    "format": lambda kind, value: f"must be a valid {kind.format}, got {_got(value)}",
    "pattern": lambda kind, value: (
        f"must match the pattern {_plain(kind.pattern)}, got {_got(value)}"
        if hasattr(kind, "pattern")
        else "cannot be matched against its pattern in reasonable time"
    ),
    "minimum": _limit("at least"),
    "maximum": _limit("at most"),
    "exclusiveMinimum": _limit("greater than"),
    "exclusiveMaximum": _limit("less than"),
    "multipleOf": lambda kind, value: f"must be a multiple of {_plain(kind.multiple_of)}, got {_plain(value)}",
    "minLength": _count("at least", "character", "characters"),
    "maxLength": _count("at most", "character", "characters"),
    "minItems": _count("at least", "item", "items"),
    "maxItems": _count("at most", "item", "items"),
    "minProperties": _count("at least", "property", "properties"),
    "maxProperties": _count("at most", "property", "properties"),
    "uniqueItems": lambda _kind, _value: "must not hold the same item twice",
    "contains": lambda _kind, _value: "must hold an item of the form that its schema's 'contains' describes",
    "oneOf": lambda _kind, _value: "fits more than one of its allowed forms, and only one may fit",
    "not": lambda kind, value: f"must not fit {_plain(kind.schema)}, got {_got(value)}",
    "falseSchema": lambda _kind, _value: "is not allowed",
    "propertyNames": _property_names,
}


def _either(types: Iterable[str]) -> str:
    words = [_ARTICLE.get(kind, kind) for kind in dict.fromkeys(types)]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _got(value: Any) -> str:
    """The value with its type: `a string 'hot'`, `a number 3`, `an array`."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"a string {_plain(value)}"
    if isinstance(value, bool):
        return f"a boolean {_plain(value)}"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return f"a number {_plain(value)}"


def _plain(value: Any) -> str:
    """A value as it is shown in a sentence: strings in single quotes, the rest as JSON, nothing long."""
    if isinstance(value, str):
        return f"'{_cut(value)}'"
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
