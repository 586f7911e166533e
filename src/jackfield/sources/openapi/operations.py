"""The operations of a document as tools, and a sentence for each that cannot be offered. Pure.

Descriptions are foreign text: hidden characters are removed. A tool is pinned by its definition and its target.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct

from jackfield.model.tool import Category, Metadata, Tool
from jackfield.sources.base import Listing
from jackfield.sources.foreign import cleaned
from jackfield.sources.openapi.arguments import Inputs, free_name, inputs_of
from jackfield.sources.openapi.document import (
    MAX_DOCUMENT,
    Base,
    Document,
    Node,
    Unreadable,
    Unusable,
    base_of,
    list_in,
    operation_of,
    own_base,
    read_document,
    servers_of,
    shown,
    text_in,
)
from jackfield.sources.openapi.options import Credentials, OpenApiOptions, OperationGlobs, matcher
from jackfield.sources.openapi.schemas import MAX_WORK, Schemas

MOST_TAGS = 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
METHODS = ("get", "head", "options", "put", "delete", "post", "patch")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
IDEMPOTENT = READING | {"PUT", "DELETE"}
OVERWRITING = frozenset({"PUT", "PATCH", "DELETE"})
MAX_TOOLS = 5_000
MAX_DEFINITIONS = 32 * 1024 * 1024
"""Bytes that the definitions of all tools may have together."""
MAX_DESCRIPTION = 2_000
MAX_LEFT_OUT = 1_000
"""Faults after which the rest of a document is skipped."""
MAX_FAULTS = 100
"""Faults that are reported."""
MAX_NAMED = 10
FIELDS = {
    "type": "array",
    "items": {"type": "string"},
    "description": (
        "Only these fields of the answer, as dotted paths like 'owner.name'; within lists they mean each entry. "
        "Everything if left out."
    ),
}
_QUOTED = re.compile(r"'[^']*'")
_SEGMENTS = re.compile(r"[/\\]|%2[fF]|%5[cC]")


class FoundOperation(Struct, frozen=True, kw_only=True):
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


class OperationFilter:
    """`include` or `exclude` of the config, and which of its globs have matched something."""

    def __init__(self, choice: OperationGlobs) -> None:
        self._globs = [
            (kind, glob, matcher((glob.upper() if kind == "methods" else glob,)))
            for kind in OperationGlobs.__struct_fields__
            for glob in getattr(choice, kind)
        ]
        self._kinds = frozenset(kind for kind, _, _ in self._globs)
        self._matched: set[tuple[str, str]] = set()

    def fits_all(self, found: FoundOperation) -> bool:
        return self._kinds <= self._fitting(found)

    def fits_any(self, found: FoundOperation) -> bool:
        return bool(self._fitting(found))

    def unmatched(self) -> list[tuple[str, str]]:
        return [(kind, glob) for kind, glob, _ in self._globs if (kind, glob) not in self._matched]

    def _fitting(self, found: FoundOperation) -> set[str]:
        texts = {
            "operations": (found.name, text_in(found.node, "operationId")),
            "tags": found.tags,
            "paths": (found.path,),
            "methods": (found.method,),
        }
        fitting = {(kind, glob) for kind, glob, fits in self._globs if any(map(fits, texts[kind]))}
        self._matched |= fitting
        return {kind for kind, _ in fitting}


def found_operation(method: str, path: str, node: Node, item: Node, taken: dict[str, int]) -> FoundOperation:
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
    return FoundOperation(name=name, method=method.upper(), path=path, node=node, item=item)


class OpenApiOperation(Struct, frozen=True, kw_only=True):
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


class OpenApiListing(Struct, frozen=True, kw_only=True):
    """A document's tools and the operations behind them."""

    listing: Listing = Listing()
    operations: dict[str, OpenApiOperation] = {}


def openapi_listing(
    content: bytes, *, source: str, options: OpenApiOptions, credentials: Credentials
) -> OpenApiListing:
    """The tools of a document. Raises `Unreadable`; its message follows the document's name."""
    try:
        document = read_document(content)
        servers = servers_of(document.root) if document.is_swagger else list_in(document.root, "servers")
        base = base_of(servers, url=options.url, base_url=options.base_url)
        return _Converter(document, base, source=source, options=options, credentials=credentials).listing()
    except RecursionError:
        raise Unreadable("is nested too deep to be read.") from None


class _Converter:
    """Makes the tools of one document."""

    def __init__(
        self, document: Document, base: Base, *, source: str, options: OpenApiOptions, credentials: Credentials
    ) -> None:
        self._document = document
        self._base = base
        self._source = source
        self._options = options
        self._credentials = credentials
        self._schemas = Schemas(document, max_work=MAX_WORK * max(1, options.max_document // MAX_DOCUMENT))
        self._include = OperationFilter(options.include)
        self._exclude = OperationFilter(options.exclude)
        self._faults: list[str] = []
        self._left_out: dict[tuple[str, str], list[tuple[str, str]]] = {}
        """By kind: what has the fault, and the fault."""
        self._cut: list[str] = []
        self._room = MAX_DEFINITIONS

    def listing(self) -> OpenApiListing:
        tools: dict[str, Tool] = {}
        operations: dict[str, OpenApiOperation] = {}
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
                self._leave_out("operation", str(found), fault)
            if sum(map(len, self._left_out.values())) > MAX_LEFT_OUT:
                self._faults.insert(0, "So many operations cannot be used that the rest is not looked at.")
                break
        self._faults += self._left_out_faults()
        self._faults += self._unmatched(tools)
        if self._cut:
            self._faults.append(
                f"Schemas that are too large are left open at their far ends: {', '.join(self._cut[:MAX_NAMED])}"
                f"{f' and {len(self._cut) - MAX_NAMED:,} more' if len(self._cut) > MAX_NAMED else ''}."
            )
        return OpenApiListing(
            listing=Listing(
                tools=tuple(tools.values()),
                categories=tuple(self._categories(tools.values())),
                faults=tuple(_shortened(self._faults)),
            ),
            operations=operations,
        )

    def _leave_out(self, what: str, name: str, fault: Unusable) -> None:
        """Faults that differ only in quoted names are of one kind."""
        kind = (what, _QUOTED.sub("'…'", str(fault)))
        self._left_out.setdefault(kind, []).append((name, str(fault)))

    def _left_out_faults(self) -> Iterator[str]:
        """One line for each kind of fault, with the first of those that have it."""
        for (what, _), found in self._left_out.items():
            (first, said), *others = found
            if not others:
                yield f"The {what} {first} is left out: {said}."
                continue
            names = ", ".join(name for name, _ in others[: MAX_NAMED - 1])
            more = f" and {len(found) - MAX_NAMED:,} more" if len(found) > MAX_NAMED else ""
            yield f"{len(found):,} {what}s are left out. {first}: {said}. Likewise {names}{more}."

    def _operations(self) -> Iterator[FoundOperation]:
        """The chosen operations, each with a name of its own, in the order of the document."""
        taken: dict[str, int] = {}
        for path, raw in self._document.paths.items():
            try:
                item = self._document.resolved(raw, what="path")
            except Unusable as fault:
                self._leave_out("path", shown(path), fault)
                continue
            for method in METHODS:
                node = item.get(method)
                if not isinstance(node, dict):
                    continue
                found = found_operation(method, path, node, item, taken)
                is_in, is_out = self._include.fits_all(found), self._exclude.fits_any(found)
                if is_in and not is_out:
                    yield found

    def _tool(self, found: FoundOperation) -> tuple[Tool, OpenApiOperation]:
        _check_path(found.path)
        nodes = (found.node, found.item)
        base = own_base(nodes, self._base)
        if self._document.is_swagger:
            nodes = (operation_of(found.node, found.item, self._document), {})
        inputs = inputs_of(
            found.path, nodes, document=self._document, schemas=self._schemas, credentials=self._credentials
        )
        if inputs.is_cut:
            self._cut.append(str(found))
        select = self._options.select.get(found.name, ())
        tool = self._described(found, base, inputs)
        operation = OpenApiOperation(
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

    def _described(self, found: FoundOperation, base: Base, inputs: Inputs) -> Tool:
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
                "places": [place.pinned() for place in inputs.places],
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
            text = cleaned(text_in(tag, "description"))[:MAX_DESCRIPTION]
            yield Category(id=slug, name=cleaned(text_in(tag, "name")) or slug, description=text or None)

    def _unmatched(self, tools: dict[str, Tool]) -> list[str]:
        faults = [
            f"sources.{self._source}.{key}.{kind} names '{glob}', which no operation fits. Correct or remove it."
            for key, chosen in (("include", self._include), ("exclude", self._exclude))
            for kind, glob in chosen.unmatched()
        ]
        faults += [
            f"sources.{self._source}.select names '{name}', which is not one of its tools. Correct or remove it."
            for name in self._options.select
            if name not in tools
        ]
        return faults if tools or faults or self._faults else ["The document has no operations."]


def _check_path(path: str) -> None:
    """The path is appended to the config's base and may not lead out of it."""
    if not path.startswith("/"):
        raise Unusable("its path does not begin with '/'")
    if "?" in path or "#" in path:
        raise Unusable("its path has a query or a fragment")
    if any(unquote(segment) in (".", "..") for segment in _SEGMENTS.split(path)):
        raise Unusable("its path has '.' or '..' as a segment")


def _description(found: FoundOperation) -> str:
    summary, text = (cleaned(text_in(found.node, key)).strip() for key in ("summary", "description"))
    whole = "\n\n".join(dict.fromkeys(part for part in (summary, text) if part)) or str(found)
    if found.node.get("deprecated") is True:
        whole = f"Deprecated. {whole}"
    return whole if len(whole) <= MAX_DESCRIPTION else f"{whole[: MAX_DESCRIPTION - 1]}…"


def _shortened(faults: list[str]) -> list[str]:
    more = len(faults) - MAX_FAULTS
    return faults if more <= 0 else [*faults[:MAX_FAULTS], f"And {more:,} more of the kind."]


def _slug(tag: str) -> str:
    return _NOT_IN_NAMES.sub("_", tag).strip("_").lower() or "other"
