"""Classes of a file as JSON Schema: enums, dataclasses, TypedDicts, NamedTuples, Structs and models; and constraints
from `Annotated[…]` and `Field(…)`.

A NamedTuple is an array, as msgspec reads and writes it; the others are objects.
Above: `hints.py`, which gives the schema of each field. Below: `docstrings.py`, `names.py`.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from msgspec import Struct

from jackfield.model.tool import JsonSchema
from jackfield.sources.pyfile.docstrings import split_docstring
from jackfield.sources.pyfile.names import UNKNOWN, FileNames

SchemaOf = Callable[[ast.expr], JsonSchema]


class ClassKind(Enum):
    """How the fields of a class are read."""

    ENUM = "enum"
    DATACLASS = "dataclass"
    TYPED_DICT = "TypedDict"
    NAMED_TUPLE = "NamedTuple"
    STRUCT = "Struct"
    MODEL = "BaseModel"


_BASES = {
    "enum.Enum": ClassKind.ENUM,
    "enum.IntEnum": ClassKind.ENUM,
    "enum.StrEnum": ClassKind.ENUM,
    "TypedDict": ClassKind.TYPED_DICT,
    "NamedTuple": ClassKind.NAMED_TUPLE,
    "msgspec.Struct": ClassKind.STRUCT,
    "pydantic.BaseModel": ClassKind.MODEL,
}
_DATACLASS_DECORATORS = frozenset(
    {"dataclasses.dataclass", "pydantic.dataclasses.dataclass", "attrs.define", "attrs.frozen", "attrs.mutable"}
)
_NOT_AN_OBJECT = ("array_like", "rename", "tag", "tag_field")
"""Options of a Struct that give it another shape than its fields; only msgspec checks those."""
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


class ClassField(Struct, frozen=True, kw_only=True):
    """One field of a class: its name in JSON, its schema, and whether it must be given."""

    name: str
    schema: JsonSchema
    required: bool


def kind_of(definition: ast.ClassDef, names: FileNames) -> ClassKind | None:
    """The kind of this class; None if its text does not tell its shape."""
    kinds = (_own_kind(ancestor, names) for ancestor in reversed(_lineage(definition, names)))
    return next((kind for kind in kinds if kind is not None), None)


def class_schema(definition: ast.ClassDef, names: FileNames, schema_of: SchemaOf) -> JsonSchema:
    """The schema of this class; `{}` if its text does not tell."""
    kind = kind_of(definition, names)
    lineage = _lineage(definition, names)
    if kind is None or any(_option(ancestor, word, names) for ancestor in lineage for word in _NOT_AN_OBJECT):
        return {}
    if kind is ClassKind.ENUM:
        members = enum_values(definition, names)
        return enum_schema(list(dict.fromkeys(members.values()))) if members else {}
    fields = _fields(lineage, kind, names, schema_of)
    schema = _array(fields) if kind is ClassKind.NAMED_TUPLE else _object(fields)
    if any(_option(ancestor, "forbid_unknown_fields", names) for ancestor in lineage):
        schema["additionalProperties"] = False
    if description := split_docstring(ast.get_docstring(definition)).description:
        schema["description"] = description.partition("\n\n")[0]
    return schema


def enum_values(definition: ast.ClassDef, names: FileNames) -> dict[str, Any] | None:
    """The members of an enum by name; None if one of them is not a literal."""
    words = {names.full_name(base) for base in definition.bases}
    members: dict[str, Any] = {}
    for node in definition.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if not name.startswith("_"):
            members[name] = _member(name, node.value, members, words, names)
    return None if any(value is UNKNOWN for value in members.values()) else members


def enum_schema(values: list[Any]) -> JsonSchema:
    """One of these values, with their type if they share one."""
    if all(isinstance(value, str) for value in values):
        return {"type": "string", "enum": values}
    if all(type(value) is int for value in values):
        return {"type": "integer", "enum": values}
    return {"enum": values}


def _member(name: str, node: ast.expr, before: dict[str, Any], words: set[str | None], names: FileNames) -> Any:
    if isinstance(node, ast.Call) and names.full_name(node.func) == "enum.auto":
        if "enum.StrEnum" in words:
            return name.lower()
        numbers = [value for value in before.values() if type(value) is int]
        return UNKNOWN if "str" in words else max(numbers, default=0) + 1
    value = names.value(node)
    return value if isinstance(value, str | int | float) else UNKNOWN


def _object(fields: list[ClassField]) -> JsonSchema:
    return {
        "type": "object",
        "properties": {field.name: field.schema for field in fields},
        "required": [field.name for field in fields if field.required],
    }


def _array(fields: list[ClassField]) -> JsonSchema:
    return {
        "type": "array",
        "prefixItems": [{"title": field.name, **field.schema} for field in fields],
        "items": False,
        "minItems": sum(field.required for field in fields),
    }


def _lineage(definition: ast.ClassDef, names: FileNames) -> list[ast.ClassDef]:
    """The class's ancestors in this file, base first, then itself; each once."""
    found: list[ast.ClassDef] = []
    waiting = [definition]
    while waiting:
        ancestor = waiting.pop()
        if ancestor not in found:
            found.append(ancestor)
            waiting.extend(local for base in ancestor.bases if (local := names.class_of(_head(base))) is not None)
    return found[::-1]


def _own_kind(definition: ast.ClassDef, names: FileNames) -> ClassKind | None:
    if any(names.full_name(_called(node)) in _DATACLASS_DECORATORS for node in definition.decorator_list):
        return ClassKind.DATACLASS
    kinds = (_BASES.get(names.full_name(_head(base)) or "") for base in definition.bases)
    return next((kind for kind in kinds if kind is not None), None)


def _fields(lineage: list[ast.ClassDef], kind: ClassKind, names: FileNames, schema_of: SchemaOf) -> list[ClassField]:
    """The fields in order, inherited ones first; a redefined field keeps its place."""
    found: dict[str, ClassField] = {}
    for definition in lineage:
        if kind is ClassKind.DATACLASS and _own_kind(definition, names) is not kind:
            continue  # annotations become fields by the decorator alone
        documented = split_docstring(ast.get_docstring(definition)).parameters
        total = not _is_false(_keyword(definition.keywords, "total"))
        for node in _declarations(definition, kind, names):
            assert isinstance(node.target, ast.Name)
            name = node.target.id
            schema = described(schema_of(node.annotation), documented.get(name), node.annotation, names)
            if kind is ClassKind.TYPED_DICT:
                required = _says_required(node.annotation, names, otherwise=total)
                found[name] = ClassField(name=name, schema=schema, required=required)
            else:
                found[name] = _field(name, node, schema, names)
    return list(found.values())


def _declarations(definition: ast.ClassDef, kind: ClassKind, names: FileNames) -> Iterator[ast.AnnAssign]:
    """The annotations that are fields; not class variables, private attributes and markers."""
    for node in definition.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if names.full_name(_head(node.annotation)) in ("ClassVar", "dataclasses.KW_ONLY", "dataclasses.InitVar"):
            continue
        if kind is ClassKind.MODEL and node.target.id.startswith("_"):
            continue
        if _is_false(_keyword(_call_keywords(node.value), "init")):
            continue
        yield node


def _field(name: str, node: ast.AnnAssign, schema: JsonSchema, names: FileNames) -> ClassField:
    """A field whose value is a default, or a call such as `field(default_factory=list)`."""
    value = node.value
    if value is None:
        return ClassField(name=name, schema=schema, required=True)
    if not isinstance(value, ast.Call):
        return ClassField(name=name, schema=_with_default(schema, value, names), required=False)
    keywords = value.keywords
    default = _keyword(keywords, "default") or (value.args[0] if value.args else None)
    is_missing = default is None or (isinstance(default, ast.Constant) and default.value is ...)
    alias = _keyword(keywords, "alias") or _keyword(keywords, "name")
    renamed = names.value(alias) if alias is not None else name
    schema = constrained(schema, [value], names)
    return ClassField(
        name=renamed if isinstance(renamed, str) else name,
        schema=schema if is_missing or default is None else _with_default(schema, default, names),
        required=is_missing and not any(_keyword(keywords, word) for word in ("default_factory", "factory")),
    )


def _with_default(schema: JsonSchema, node: ast.expr, names: FileNames) -> JsonSchema:
    value = names.value(node)
    return schema if value is UNKNOWN else {**schema, "default": value}


def _says_required(annotation: ast.expr, names: FileNames, *, otherwise: bool) -> bool:
    return {"Required": True, "NotRequired": False}.get(names.full_name(_head(annotation)) or "", otherwise)


def _option(definition: ast.ClassDef, word: str, names: FileNames) -> bool:
    node = _keyword(definition.keywords, word)
    return node is not None and names.value(node) not in (False, None)


def _keyword(keywords: list[ast.keyword], word: str) -> ast.expr | None:
    return next((keyword.value for keyword in keywords if keyword.arg == word), None)


def _call_keywords(node: ast.expr | None) -> list[ast.keyword]:
    return node.keywords if isinstance(node, ast.Call) else []


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _head(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def constrained(schema: JsonSchema, metadata: Iterable[ast.expr], names: FileNames) -> JsonSchema:
    """`schema` with the constraints in `metadata`; unknown ones are ignored."""
    result = dict(schema)
    for key, value in (pair for node in metadata for pair in _facts(node, names)):
        if key in _KEYWORDS:
            result[_KEYWORDS[key]] = value
        elif key in _LENGTHS:
            result |= {word: value for kind, word in _LENGTHS[key].items() if kind in _types(schema)}
        elif key in _EXTRA and isinstance(value, dict):
            result |= value
    return result


def described(schema: JsonSchema, text: str | None, annotation: ast.expr | None, names: FileNames) -> JsonSchema:
    """`schema` with its description from the docstring, unless its `Annotated` has one."""
    is_annotated = isinstance(annotation, ast.Subscript) and names.full_name(annotation.value) == "Annotated"
    if not text or (is_annotated and "description" in schema):
        return schema
    return {**schema, "description": text}


def _facts(node: ast.expr, names: FileNames) -> Iterator[tuple[str, Any]]:
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
    """The JSON types that `schema` accepts; without a type, all that have a length."""
    if "anyOf" in schema:
        return {kind for branch in schema["anyOf"] for kind in _types(branch)}
    kind = schema.get("type")
    if kind is None:
        return {"string", "array", "object"}
    return {kind} if isinstance(kind, str) else set(kind)
