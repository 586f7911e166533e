"""What stands beside a type in `Annotated[…]`, or in a field's `Field(…)`, as JSON Schema keywords.

Above: `hints.py` and `classes.py`. Below: `names.py`.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from jackfield.model.tool import JsonSchema
from jackfield.sources.pyfile.names import UNKNOWN, Names

_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
    "examples": "examples",
}
_LENGTHS = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}
_EXTRA = ("extra_json_schema", "json_schema_extra")
_NAMING = ("Meta", "Field", "Interval", "Len")
_POSITIONAL = {
    "Ge": "ge",
    "Gt": "gt",
    "Le": "le",
    "Lt": "lt",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
    "Doc": "description",
}
"""Classes of annotated_types and typing_extensions whose one argument is this constraint."""


def constrained(schema: JsonSchema, metadata: Iterable[ast.expr], names: Names) -> JsonSchema:
    """`schema` with what `metadata` says about it; what is not understood says nothing."""
    result = dict(schema)
    for key, value in (pair for node in metadata for pair in _facts(node, names)):
        if key in _KEYWORDS:
            result[_KEYWORDS[key]] = value
        elif key in _LENGTHS:
            result |= {word: value for kind, word in _LENGTHS[key].items() if kind in _types(schema)}
        elif key in _EXTRA and isinstance(value, dict):
            result |= value
    return result


def described(schema: JsonSchema, text: str | None, annotation: ast.expr | None, names: Names) -> JsonSchema:
    """`schema` with the docstring's words about it, unless its own `Annotated` has described it."""
    is_annotated = isinstance(annotation, ast.Subscript) and names.word(annotation.value) == "Annotated"
    if not text or (is_annotated and "description" in schema):
        return schema
    return {**schema, "description": text}


def _facts(node: ast.expr, names: Names) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "description", node.value
    if not isinstance(node, ast.Call):
        return
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in _NAMING and called not in _POSITIONAL:
        return
    given = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
    if called in _POSITIONAL and node.args:
        given.append((_POSITIONAL[called], node.args[0]))
    for key, expression in given:
        value = names.value(expression)
        if value is not UNKNOWN and value is not None:
            yield key, value


def _types(schema: JsonSchema) -> set[str]:
    """The JSON types that `schema` may accept; all of those with a length when it does not say."""
    if "anyOf" in schema:
        return {kind for branch in schema["anyOf"] for kind in _types(branch)}
    kind = schema.get("type")
    if kind is None:
        return {"string", "array", "object"}
    return {kind} if isinstance(kind, str) else set(kind)
