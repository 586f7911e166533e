"""Schemas of a document as self-contained JSON Schema: what they refer to is added under `$defs`. Pure.

References are not expanded: a part that many operations refer to, or that refers to itself, is converted once and
shared. OpenAPI 3.0's own keywords (`nullable`, `exclusiveMinimum: true`) are translated; what is not about the value
(`xml`, `discriminator`, `example`, `x-…`) is dropped, and so are `readOnly` properties, since this describes what is
sent. A schema that grows past `MAX_SCHEMA` is left open at its far ends: the service checks what it gets anyway.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.sources.foreign import Unremovable, cleaned_schema
from jackfield.sources.openapi.document import MOST_HOPS, Document, Node, Unreadable, Unusable, shown

MAX_SCHEMA = 64 * 1024
"""Bytes of what one operation's schema brings along. More than that helps no model."""
MAX_NODES = MAX_SCHEMA // 8
"""Values in a schema, past which it is not looked at further: it would have more than `MAX_SCHEMA` bytes."""
MAX_WORK = 16 * 1024 * 1024
"""Bytes of schemas that one document may make us write."""
MAX_DEPTH = 100
LEFT_OPEN = {"description": "Not described further here, because the whole would be too large."}

_ONES = frozenset(
    {
        "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedItems",
        "unevaluatedProperties", "additionalItems",
    }
)  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_PLAIN = frozenset(
    {
        "type", "enum", "const", "title", "description", "default", "examples", "deprecated", "format", "pattern",
        "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
        "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties",
        "required", "dependentRequired", "contentEncoding", "contentMediaType",
    }
)  # fmt: skip
_STEP = 8
"""What it costs to bring one part along, as bytes written."""
_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 80
_USUAL = "#/components/schemas/"
_USUAL_IN_SWAGGER = "#/definitions/"
_DEFINITIONS = "#/$defs/"


class Converted(Struct, frozen=True):
    """A converted schema, and the parts that it refers to."""

    schema: Node
    parts: tuple[str, ...] = ()
    """As the document refers to them."""


class _Part(Struct, frozen=True):
    schema: Node
    parts: tuple[str, ...]
    size: int


class _TooLarge(Exception):
    """The schema has more than can be used."""


LARGE = _Part(LEFT_OPEN, (), MAX_SCHEMA + 1)
"""Takes the place of every part that is too large."""


class Schemas:
    """All schemas of one document, each converted when it is first needed."""

    def __init__(self, document: Document, *, max_work: int = MAX_WORK) -> None:
        self._document = document
        self._parts: dict[str, _Part | str] = {}
        """A text: why the part cannot be used."""
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._usual = _USUAL_IN_SWAGGER if document.is_swagger else _USUAL
        self._most = max_work
        self._work = 0

    def converted(self, schema: Any) -> Converted:
        """A schema that stands in an operation. Raises `Unusable`."""
        part = self._made(schema, what="its schema")
        if part is LARGE:
            raise Unusable(f"its schema has more than {MAX_SCHEMA:,} bytes")
        return Converted(part.schema, part.parts)

    def part(self, reference: str) -> Converted:
        """The schema that a `$ref` means; an open one where that is too large. Raises `Unusable`."""
        part = self._part(reference)
        return Converted(part.schema, part.parts)

    def meant(self, schema: Node) -> Node:
        """A converted schema with its reference resolved. Raises `Unusable`."""
        for _ in range(MOST_HOPS):
            reference = self._references.get(schema.get("$ref", "").removeprefix(_DEFINITIONS))
            if reference is None:
                break
            schema = {**self._part(reference).schema, **{key: schema[key] for key in ("description",) if key in schema}}
        return schema

    def definitions(self, parts: Iterable[str]) -> tuple[dict[str, Any], bool]:
        """These parts and all that they refer to, by name for `$defs`; and whether some had to be left open."""
        waiting = deque(dict.fromkeys(parts))
        found: dict[str, Any] = {}
        seen = set(waiting)
        left, is_cut = MAX_SCHEMA, False
        while waiting:
            reference = waiting.popleft()
            part = self._part(reference)
            self._spend(_STEP)
            if part.size > left:
                found[self._name(reference)] = LEFT_OPEN
                is_cut = True
                continue
            left -= part.size
            self._spend(len(part.parts))
            found[self._name(reference)] = part.schema
            new = [inner for inner in part.parts if inner not in seen]
            seen.update(new)
            waiting.extend(new)
        return found, is_cut

    def _part(self, reference: str) -> _Part:
        made = self._parts.get(reference)
        if made is None:
            try:
                made = self._made(self._document.at(reference), what=shown(reference))
            except Unusable as fault:
                made = str(fault)
            self._parts[reference] = made
        if isinstance(made, str):
            raise Unusable(made)
        return made

    def _made(self, schema: Any, *, what: str) -> _Part:
        conversion = _Conversion(self._name)
        try:
            made = cleaned_schema(conversion.schema(schema, 0))
        except Unremovable:
            raise Unusable(f"hidden characters stand in the names or values of {what}") from None
        except _TooLarge:
            self._spend(MAX_SCHEMA)
            return LARGE
        size = len(msgspec.json.encode(made))
        self._spend(size)
        return _Part(made, tuple(conversion.parts), size) if size <= MAX_SCHEMA else LARGE

    def _spend(self, size: int) -> None:
        self._work += size
        if self._work > self._most:
            raise Unreadable(
                "has schemas within schemas that come to too much. Choose fewer operations with 'include'."
            )

    def _name(self, reference: str) -> str:
        """What a part is called under `$defs`: as in the document, and the same whatever else is in there.

        Tools are pinned by their schemas, so that one more part must not change another's name.
        """
        known = self._names.get(reference)
        if known is None:
            plain = _NAME.sub("_", reference.rpartition("/")[2])[:_LONGEST_NAME]
            if reference != f"{self._usual}{plain}":
                plain = f"{plain}_{hashlib.sha256(reference.encode()).hexdigest()[:8]}"
            known = self._names[reference] = plain
            self._references[plain] = reference
        return known


class _Conversion:
    """Converts one schema."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._left = MAX_NODES
        self.parts: dict[str, None] = {}
        """In the order of appearance."""

    def schema(self, node: Any, depth: int) -> Node:
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        if not isinstance(node, dict):
            raise Unusable("one of its schemas is not an object")
        if depth > MAX_DEPTH:
            raise Unusable(f"its schema is nested more than {MAX_DEPTH} levels deep")
        self._count(1)
        if "$ref" in node:
            return self._reference(node)
        made: Node = {}
        for key, value in node.items():
            if key in _PLAIN:
                made[key] = self._plain(value)
            elif key in _ONES and isinstance(value, (dict, bool)):
                made[key] = value if isinstance(value, bool) else self.schema(value, depth + 1)
            elif key in _LISTS and isinstance(value, list):
                made[key] = [self.schema(inner, depth + 1) for inner in value]
            elif key in _MAPS and isinstance(value, dict):
                made[key] = self._map(value, depth, sent=key == "properties")
        return _in_json_schema(node, _without_unsent(node, made))

    def _plain(self, value: Any) -> Any:
        """A value as it is, counted: a list of names may be longer than any schema."""
        waiting = [value]
        while waiting:
            inner = waiting.pop()
            self._count(len(inner) // 8 if isinstance(inner, str) else 1)
            if isinstance(inner, (list, dict)):
                self._count(len(inner))
                waiting += inner.values() if isinstance(inner, dict) else inner
        return value

    def _count(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise _TooLarge

    def _map(self, schemas: Node, depth: int, *, sent: bool) -> Node:
        return {
            name: self.schema(inner, depth + 1)
            for name, inner in schemas.items()
            if not (sent and isinstance(inner, dict) and inner.get("readOnly") is True)
        }

    def _reference(self, node: Node) -> Node:
        reference = node["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise Unusable(f"it refers to {shown(reference)}, and nothing outside the document is fetched")
        self.parts[reference] = None
        made: Node = {"$ref": f"{_DEFINITIONS}{self._name_of(reference)}"}
        if isinstance(node.get("description"), str):
            made["description"] = node["description"]
        return made


def _without_unsent(node: Node, made: Node) -> Node:
    """`required` without what was left out of `properties`."""
    declared, required = node.get("properties"), made.get("required")
    if not isinstance(declared, dict) or not isinstance(required, list):
        return made
    unsent = declared.keys() - made.get("properties", {}).keys()
    if not unsent:
        return made
    return {**made, "required": [name for name in required if not isinstance(name, str) or name not in unsent]}


def _in_json_schema(node: Node, made: Node) -> Node:
    """OpenAPI 3.0's own keywords as those of JSON Schema."""
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(word), bool):
            is_exclusive = made.pop(word)
            if is_exclusive and bound in made:
                made[word] = made.pop(bound)
    if node.get("nullable") is not True and node.get("x-nullable") is not True:
        return made
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        return made
    return {"anyOf": [made, {"type": "null"}]}
