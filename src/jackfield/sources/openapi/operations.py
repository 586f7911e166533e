"""The operations of a document as tools, and a sentence for each that cannot be one. Pure.

Above: `source.py`. Below: `arguments.py`, `servers.py`. What a document says of its operations is foreign text: hidden
characters are taken out, and a tool is pinned by what it is and where its request goes.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.tool import Category, Metadata, Tool
from jackfield.sources.base import Listing
from jackfield.sources.hidden import cleaned
from jackfield.sources.openapi.arguments import Inputs, free_name, inputs_of
from jackfield.sources.openapi.credentials import Credentials
from jackfield.sources.openapi.document import (
    Document,
    Node,
    Unreadable,
    Unusable,
    list_in,
    read_document,
    shown,
    text_in,
)
from jackfield.sources.openapi.options import Choice, OpenApiOptions, matcher
from jackfield.sources.openapi.schemas import Schemas
from jackfield.sources.openapi.servers import Base, base_of, own_base

METHODS = ("get", "head", "options", "put", "delete", "post", "patch")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
IDEMPOTENT = READING | {"PUT", "DELETE"}
OVERWRITING = frozenset({"PUT", "PATCH", "DELETE"})
MAX_TOOLS = 5_000
MAX_DEFINITIONS = 32 * 1024 * 1024
"""Bytes that the definitions of all tools may have together."""
LONGEST_DESCRIPTION = 2_000
MOST_TAGS = 20
MOST_LEFT_OUT = 1_000
"""Faults after which a document is not read further."""
MOST_FAULTS = 100
"""Faults that are told."""
MOST_NAMED = 10
FIELDS = {
    "type": "array",
    "items": {"type": "string"},
    "description": (
        "Only these fields of the answer, as dotted paths like 'owner.name'; within lists they mean each entry. "
        "Everything if left out."
    ),
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")


class Operation(Struct, frozen=True, kw_only=True):
    """One operation, ready to be called."""

    method: str
    path: str
    base: Base
    inputs: Inputs
    fields_argument: str | None = None
    """The argument that says which fields of the answer are wanted."""
    select: tuple[str, ...] = ()
    """The fields that its answers are always trimmed to."""
    definition: Raw | None = None
    """What the tool is pinned by. A call of any other version of it is not this operation's."""


class Offer(Struct, frozen=True, kw_only=True):
    """What a document offers."""

    listing: Listing = Listing()
    operations: dict[str, Operation] = {}


def offer_of(content: bytes, *, source: str, options: OpenApiOptions, credentials: Credentials) -> Offer:
    """The tools of a document. Raises `Unreadable`; the text stands after the name of the document."""
    try:
        document = read_document(content)
        base = base_of(document.root, url=options.url, base_url=options.base_url)
        return _Reading(document, base, source=source, options=options, credentials=credentials).offer()
    except RecursionError:
        raise Unreadable("is nested too deep to be read.") from None


class _Found(Struct, frozen=True, kw_only=True):
    """An operation as the document has it."""

    name: str
    method: str
    path: str
    node: Node
    item: Node

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(cleaned(tag) for tag in list_in(self.node, "tags")[:MOST_TAGS] if isinstance(tag, str))

    def __str__(self) -> str:
        return f"{self.method} {shown(self.path)[1:-1]}"


class _Reading:
    """One document on its way to tools."""

    def __init__(
        self, document: Document, base: Base, *, source: str, options: OpenApiOptions, credentials: Credentials
    ) -> None:
        self._document = document
        self._base = base
        self._source = source
        self._options = options
        self._credentials = credentials
        self._schemas = Schemas(document)
        self._include = _Chosen(options.include)
        self._exclude = _Chosen(options.exclude)
        self._faults: list[str] = []
        self._cut: list[str] = []
        self._room = MAX_DEFINITIONS

    def offer(self) -> Offer:
        tools: dict[str, Tool] = {}
        operations: dict[str, Operation] = {}
        for found in self._operations():
            if len(tools) >= MAX_TOOLS or self._room <= 0:
                self._faults.append(
                    f"The document has more operations than are taken (up to {MAX_TOOLS:,} tools and "
                    f"{MAX_DEFINITIONS:,} bytes); the first {len(tools):,} are. Choose some with 'include'."
                )
                break
            try:
                tools[found.name], operations[found.name] = self._tool(found)
            except Unusable as fault:
                self._faults.append(f"The operation {found} is left out: {fault}.")
            if len(self._faults) > MOST_LEFT_OUT:
                self._faults.insert(0, "So many operations cannot be used that the rest is not looked at.")
                break
        self._faults += self._unmatched(tools)
        if self._cut:
            self._faults.append(
                f"Schemas that are too large are left open at their far ends: {', '.join(self._cut[:MOST_NAMED])}"
                f"{f' and {len(self._cut) - MOST_NAMED:,} more' if len(self._cut) > MOST_NAMED else ''}."
            )
        return Offer(
            listing=Listing(
                tools=tuple(tools.values()),
                categories=tuple(self._categories(tools.values())),
                faults=tuple(_shortened(self._faults)),
            ),
            operations=operations,
        )

    def _operations(self) -> Iterator[_Found]:
        """The chosen operations, each with a name of its own, in the order of the document."""
        taken: dict[str, int] = {}
        for path, raw in self._document.paths.items():
            try:
                item = self._document.resolved(raw, what="path")
            except Unusable as fault:
                self._faults.append(f"The path {shown(path)} is left out: {fault}.")
                continue
            for method in METHODS:
                node = item.get(method)
                if not isinstance(node, dict):
                    continue
                found = _found(method, path, node, item, taken)
                is_in, is_out = self._include.fits_all(found), self._exclude.fits_any(found)
                if is_in and not is_out:
                    yield found

    def _tool(self, found: _Found) -> tuple[Tool, Operation]:
        if not found.path.startswith("/"):
            raise Unusable("its path does not begin with '/'")
        nodes = (found.node, found.item)
        base = own_base(nodes, self._base)
        inputs = inputs_of(
            found.path, nodes, document=self._document, schemas=self._schemas, credentials=self._credentials
        )
        if inputs.is_cut:
            self._cut.append(str(found))
        select = self._options.select.get(found.name, ())
        tool = self._described(found, base, inputs)
        operation = Operation(
            method=found.method,
            path=found.path,
            base=base,
            inputs=inputs,
            select=select,
            definition=tool.definition,
        )
        if not self._options.fields or select:
            return tool, operation
        properties = inputs.schema["properties"]
        argument = free_name("fields", taken=properties, otherwise="answer")
        schema = {**inputs.schema, "properties": {**properties, argument: FIELDS}}
        return (
            msgspec.structs.replace(tool, input_schema=schema),
            msgspec.structs.replace(operation, fields_argument=argument),
        )

    def _described(self, found: _Found, base: Base, inputs: Inputs) -> Tool:
        reading, idempotent = found.method in READING, found.method in IDEMPOTENT
        tags = found.tags
        tool = Tool(
            source=self._source,
            name=found.name,
            title=cleaned(text_in(found.node, "summary")) or None,
            description=_description(found),
            input_schema=inputs.schema,
            timeout_ms=self._options.timeout_ms,
            category=_slug(tags[0]) if tags else None,
            metadata=Metadata(idempotent=idempotent, modifies_state=not reading, tags=tags),
            annotations={
                "readOnlyHint": reading,
                "destructiveHint": found.method in OVERWRITING,
                "idempotentHint": idempotent,
                "openWorldHint": True,
            },
        )
        definition = msgspec.json.encode(
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "method": found.method,
                "path": found.path,
                "server": base.url if base.by_document else None,
                "inputSchema": inputs.schema,
                "places": inputs.places,
                "contentType": inputs.content_type,
            }
        )
        self._room -= len(definition)
        return msgspec.structs.replace(tool, definition=Raw(definition))

    def _categories(self, tools: Any) -> Iterator[Category]:
        """Tags as categories: those that are the first of a tool."""
        used = dict.fromkeys(tool.category for tool in tools if tool.category is not None)
        described = {
            _slug(cleaned(text_in(tag, "name"))): tag
            for tag in list_in(self._document.root, "tags")
            if isinstance(tag, dict)
        }
        for slug in used:
            tag = described.get(slug, {})
            text = cleaned(text_in(tag, "description"))[:LONGEST_DESCRIPTION]
            yield Category(id=slug, name=cleaned(text_in(tag, "name")) or slug, description=text or None)

    def _unmatched(self, tools: dict[str, Tool]) -> list[str]:
        faults = [
            f"sources.{self._source}.{key}.{kind} names '{glob}', which no operation fits. Correct or remove it."
            for key, chosen in (("include", self._include), ("exclude", self._exclude))
            for kind, glob in chosen.unmatched()
        ]
        faults += [
            f"sources.{self._source}.select names '{name}', which is no tool of it. Correct or remove it."
            for name in self._options.select
            if name not in tools
        ]
        return faults if tools or faults or self._faults else ["The document has no operations."]


class _Chosen:
    """A choice of the config, and which of its globs have fitted something."""

    def __init__(self, choice: Choice) -> None:
        self._globs = [
            (kind, glob, matcher((glob.upper() if kind == "methods" else glob,)))
            for kind in Choice.__struct_fields__
            for glob in getattr(choice, kind)
        ]
        self._kinds = frozenset(kind for kind, _, _ in self._globs)
        self._matched: set[tuple[str, str]] = set()

    def fits_all(self, found: _Found) -> bool:
        return self._kinds <= self._fitting(found)

    def fits_any(self, found: _Found) -> bool:
        return bool(self._fitting(found))

    def unmatched(self) -> list[tuple[str, str]]:
        return [(kind, glob) for kind, glob, _ in self._globs if (kind, glob) not in self._matched]

    def _fitting(self, found: _Found) -> set[str]:
        texts = {
            "operations": (found.name, text_in(found.node, "operationId")),
            "tags": found.tags,
            "paths": (found.path,),
            "methods": (found.method,),
        }
        fitting = {(kind, glob) for kind, glob, fits in self._globs if any(map(fits, texts[kind]))}
        self._matched |= fitting
        return {kind for kind, _ in fitting}


def _found(method: str, path: str, node: Node, item: Node, taken: dict[str, int]) -> _Found:
    """The operation under its operationId, or under its method and path if it has none or another has the same.

    `taken` has the names so far, and how often each would have been given.
    """
    made = _NOT_IN_NAMES.sub("_", f"{method} {path}").strip("_")
    name = cleaned(text_in(node, "operationId")).strip() or made
    if name in taken:
        name = made
        while name in taken:
            taken[made] = taken.get(made, 1) + 1
            name = f"{made}_{taken[made]}"
    taken[name] = 1
    return _Found(name=name, method=method.upper(), path=path, node=node, item=item)


def _description(found: _Found) -> str:
    summary, text = (cleaned(text_in(found.node, key)).strip() for key in ("summary", "description"))
    whole = "\n\n".join(dict.fromkeys(part for part in (summary, text) if part)) or str(found)
    if found.node.get("deprecated") is True:
        whole = f"Deprecated. {whole}"
    return whole if len(whole) <= LONGEST_DESCRIPTION else f"{whole[: LONGEST_DESCRIPTION - 1]}…"


def _shortened(faults: list[str]) -> list[str]:
    more = len(faults) - MOST_FAULTS
    return faults if more <= 0 else [*faults[:MOST_FAULTS], f"And {more:,} more of the kind."]


def _slug(tag: str) -> str:
    return _NOT_IN_NAMES.sub("_", tag).strip("_").lower() or "other"
