"""JSON Schemas of tools: whether they can be used, and whether a value fits.

Above: `merge.py` asks for faults, the pipeline checks arguments and results. Below: jsonschema-rs, and `wording.py` for
the sentences.

A schema is read in the draft that its `$schema` names, else 2020-12; formats are enforced. A reference to anything
outside the schema is refused, so that no definition makes the gateway fetch something. Compiling costs about 40 µs
and 14 kB a schema: the merge compiles each once to see whether it can be used and lets go of it, and `Checkers`
keeps those that are called.
"""

from collections import OrderedDict
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationError, Validator

from jackfield.catalog.expansion import is_explosive
from jackfield.catalog.wording import Fault, explain
from jackfield.model.tool import JsonSchema

ARGUMENTS = "The arguments"
RESULT = "The result"

_RELATIVE = "json-schema:///"


class ArgumentChecker:
    """One compiled schema."""

    __slots__ = ("_schema", "_validator", "_whole")

    def __init__(self, schema: JsonSchema, *, whole: str = ARGUMENTS) -> None:
        """Raises `ValueError` for a schema that `fault_in` has something to say about."""
        self._schema = schema
        self._validator = _compile(schema, [])
        self._whole = whole

    def check(self, value: Any) -> list[Fault]:
        """What is wrong with `value`, as `{"path", "message"}` each; empty when it fits."""
        try:
            if self._validator.is_valid(value):
                return []
            faults = explain(self._validator.iter_errors(value), schema=self._schema, whole=self._whole)
        except ValueError as fault:
            return [{"path": "", "message": f"{self._whole} cannot be read as JSON: {fault}"}]
        return faults or [{"path": "", "message": f"{self._whole} do not fit the tool's schema"}]


class Checkers:
    """Compiled schemas of the tools in use, by tool version. Of too many the least recently used one goes."""

    def __init__(self, *, keep: int = 4096) -> None:
        self._keep = keep
        self._kept: OrderedDict[tuple[str, str], ArgumentChecker] = OrderedDict()

    def get(self, version: str, schema: JsonSchema, *, whole: str = ARGUMENTS) -> ArgumentChecker:
        """The checker of `schema`, which is the one that tools of this version have for `whole`."""
        key = (version, whole)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        made = self._kept[key] = ArgumentChecker(schema, whole=whole)
        if len(self._kept) > self._keep:
            self._kept.popitem(last=False)
        return made


def fault_in(schema: JsonSchema, *, is_foreign: bool = False) -> str | None:
    """Why `schema` cannot be used, to stand after "its input schema"; None when it can.

    `is_foreign`: the values come from whoever wrote it.
    """
    asked_for: list[str] = []
    try:
        _compile(schema, asked_for)
        if is_explosive(schema, for_any_depth=is_foreign):
            return "refers to its own parts so often that checking a value could take for ever; make it smaller"
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


def _compile(schema: JsonSchema, asked_for: list[str]) -> Validator:
    def refuse(uri: str) -> Any:
        asked_for.append(uri)
        raise LookupError(f"{uri} is outside the schema")

    return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=refuse)


def _sentence(error: ValidationError, asked_for: list[str]) -> str:
    if error.kind.name == "$ref":
        if asked_for:
            outside = asked_for[0].removeprefix(_RELATIVE)
            return f"refers to '{outside}', and nothing outside a schema is fetched; put that part under $defs"
        return f"has a reference that leads nowhere: {error.message}"
    fault = explain([error], schema={}, whole="the whole")[0]
    return f"is not valid JSON Schema: {fault['message']}"
