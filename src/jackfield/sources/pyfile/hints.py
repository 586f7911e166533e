"""Type hints in a syntax tree as JSON Schema 2020-12. An unknown hint accepts anything.

Above: `reader.py`. Below: `classes.py` for classes of the file and `Annotated`, `names.py`.
"""

import ast
from collections.abc import Callable

from jackfield.model.tool import JsonSchema
from jackfield.sources.pyfile.classes import ClassKind, class_schema, constrained, enum_schema, kind_of
from jackfield.sources.pyfile.names import UNKNOWN, FileNames, parse_expression

_PLAIN: dict[str, JsonSchema] = {
    "str": {"type": "string"},
    "LiteralString": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "bytearray": {"type": "string", "contentEncoding": "base64"},
    "datetime.datetime": {"type": "string", "format": "date-time"},
    "datetime.date": {"type": "string", "format": "date"},
    "datetime.time": {"type": "string", "format": "time"},
    "datetime.timedelta": {"type": "string", "format": "duration"},
    "uuid.UUID": {"type": "string", "format": "uuid"},
    "decimal.Decimal": {"type": ["string", "number"], "format": "decimal"},
    "pathlib.Path": {"type": "string", "format": "path"},
    "pathlib.PurePath": {"type": "string", "format": "path"},
    "pydantic.AnyUrl": {"type": "string", "format": "uri"},
    "pydantic.HttpUrl": {"type": "string", "format": "uri"},
    "pydantic.EmailStr": {"type": "string", "format": "email"},
}
_LENIENT_IN_RESULTS = frozenset({"date-time", "time", "duration"})
"""Python writes these in forms that the format does not allow (a time without an offset)."""

_ARRAYS = frozenset(
    [
        "list",
        "List",
        "Sequence",
        "MutableSequence",
        "Collection",
        "Iterable",
        "Iterator",
        "set",
        "Set",
        "frozenset",
        "FrozenSet",
        "AbstractSet",
        "MutableSet",
        "deque",
        "Deque",
    ]
)
_OBJECTS = frozenset(["dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "DefaultDict"])
_TUPLES = frozenset({"tuple", "Tuple"})
_WRAPPERS = frozenset({"Final", "Required", "NotRequired", "ReadOnly"})
_RESULT_CLASSES = frozenset({ClassKind.TYPED_DICT, ClassKind.DATACLASS, ClassKind.STRUCT})


class Hints:
    """Annotations of one file. `defs` collects recursive classes for the schema's `$defs`."""

    def __init__(self, names: FileNames, *, for_result: bool = False) -> None:
        self.defs: dict[str, JsonSchema] = {}
        self._names = names
        self._for_result = for_result
        self._open: list[str] = []
        self._recursive: set[str] = set()

    def schema(self, node: ast.expr | None) -> JsonSchema:
        """The schema of this annotation."""
        match node:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str() as text):
                return self._quoted(text)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return any_of(self.schema(left), self.schema(right))
            case ast.Name() | ast.Attribute():
                return self._named(node)
            case ast.Subscript(value=head, slice=inner):
                return self._subscripted(head, list(inner.elts) if isinstance(inner, ast.Tuple) else [inner])
            case _:
                return {}

    def object_schema(self, node: ast.expr | None) -> JsonSchema | None:
        """The schema of a result annotated as a TypedDict, dataclass or Struct of this file, or `dict[str, X]`."""
        if node is None or not self._is_object(node):
            return None
        schema = self.schema(node)
        if "$ref" in schema:
            schema = self.defs[schema["$ref"].rpartition("/")[2]]
        if schema.get("type") != "object":
            return None
        return {**schema, "$defs": self.defs} if self.defs else schema

    def _is_object(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=str() as text):
                parsed = _parsed(text)
                return parsed is not None and self._is_object(parsed)
            case ast.Name() if (definition := self._names.class_of(node)) is not None:
                return kind_of(definition, self._names) in _RESULT_CLASSES
            case ast.Name() if (alias := self._names.alias_of(node)) is not None and not isinstance(alias, ast.Name):
                return self._is_object(alias)
            case ast.Subscript(value=head, slice=ast.Tuple(elts=[key, _])):
                return self._names.full_name(head) in _OBJECTS and self.schema(key) == _PLAIN["str"]
            case _:
                return False

    def _quoted(self, text: str) -> JsonSchema:
        return self.schema(_parsed(text))

    def _named(self, node: ast.expr) -> JsonSchema:
        if (definition := self._names.class_of(node)) is not None:
            return self._class(definition)
        if (alias := self._names.alias_of(node)) is not None and isinstance(node, ast.Name):
            return self._alias(node.id, alias)
        word = self._names.full_name(node) or ""
        if word in _ARRAYS or word in _TUPLES:
            return {"type": "array"}
        if word in _OBJECTS:
            return {"type": "object"}
        plain = dict(_PLAIN.get(word, {}))
        if self._for_result and plain.get("format") in _LENIENT_IN_RESULTS:
            del plain["format"]
        return plain

    def _subscripted(self, head: ast.expr, inner: list[ast.expr]) -> JsonSchema:
        if (definition := self._names.class_of(head)) is not None:
            return self._class(definition)
        word = self._names.full_name(head) or ""
        build = _BUILDERS.get(word)
        return build(self, inner) if build and (inner or word in _TUPLES) else {}

    def _array(self, inner: list[ast.expr]) -> JsonSchema:
        items = self.schema(inner[0])
        return {"type": "array", "items": items} if items else {"type": "array"}

    def _object(self, inner: list[ast.expr]) -> JsonSchema:
        values = self.schema(inner[-1])
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}

    def _tuple(self, inner: list[ast.expr]) -> JsonSchema:
        if len(inner) > 1 and isinstance(inner[-1], ast.Constant) and inner[-1].value is ...:
            return self._array(inner)
        return {
            "type": "array",
            "prefixItems": [self.schema(node) for node in inner],
            "items": False,
            "minItems": len(inner),
        }

    def _wrapped(self, inner: list[ast.expr]) -> JsonSchema:
        return self.schema(inner[0])

    def _union(self, inner: list[ast.expr]) -> JsonSchema:
        return any_of(*(self.schema(node) for node in inner))

    def _optional(self, inner: list[ast.expr]) -> JsonSchema:
        return any_of(self.schema(inner[0]), {"type": "null"})

    def _literal(self, inner: list[ast.expr]) -> JsonSchema:
        values = [self._names.value(node) for node in inner]
        return {} if UNKNOWN in values else enum_schema(values)

    def _annotated(self, inner: list[ast.expr]) -> JsonSchema:
        return constrained(self.schema(inner[0]), inner[1:], self._names)

    def _alias(self, name: str, value: ast.expr) -> JsonSchema:
        if name in self._open:
            return {}
        self._open.append(name)
        try:
            match value:
                case ast.Call(func=func, args=[_, inner]) if self._names.full_name(func) == "NewType":
                    return self.schema(inner)
                case _:
                    return self.schema(value)
        finally:
            self._open.remove(name)

    def _class(self, definition: ast.ClassDef) -> JsonSchema:
        """Inlined where it is used, unless it is recursive: then it is in `defs`."""
        name = definition.name
        reference = {"$ref": f"#/$defs/{name}"}
        if name in self._open:
            self._recursive.add(name)
            return reference
        self._open.append(name)
        schema = class_schema(definition, self._names, self.schema)
        self._open.remove(name)
        if name not in self._recursive:
            return schema
        self.defs[name] = schema
        return reference


def any_of(*schemas: JsonSchema) -> JsonSchema:
    """A schema that accepts what any of these accepts, without duplicates."""
    branches: list[JsonSchema] = []
    for schema in schemas:
        for branch in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            if branch not in branches:
                branches.append(branch)
    if {} in branches:
        return {}
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def accepts_null(schema: JsonSchema) -> bool:
    """Whether the schema accepts null."""
    if "anyOf" in schema:
        return any(accepts_null(branch) for branch in schema["anyOf"])
    return schema.get("type") == "null" or None in schema.get("enum", ()) or not schema


def _parsed(text: str) -> ast.expr | None:
    try:
        return parse_expression(text.strip())
    except (SyntaxError, ValueError):
        return None


_BUILDERS: dict[str, Callable[[Hints, list[ast.expr]], JsonSchema]] = {
    **dict.fromkeys(_ARRAYS, Hints._array),  # noqa: SLF001 - the table of this class's own methods
    **dict.fromkeys(_OBJECTS, Hints._object),  # noqa: SLF001
    **dict.fromkeys(_TUPLES, Hints._tuple),  # noqa: SLF001
    **dict.fromkeys(_WRAPPERS, Hints._wrapped),  # noqa: SLF001
    "Union": Hints._union,  # noqa: SLF001
    "Optional": Hints._optional,  # noqa: SLF001
    "Literal": Hints._literal,  # noqa: SLF001
    "Annotated": Hints._annotated,  # noqa: SLF001
}
