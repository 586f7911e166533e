"""A server's tool definitions as our tools, and a sentence for each that cannot be one. Pure.

Above: `source.py`. What a server says of its tools is foreign text: hidden characters are taken out and told of, and
its annotations are kept for callers to see but grant nothing.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.content import OF_THE_CONNECTION
from jackfield.model.tool import Tool, ToolKind
from jackfield.protocol.mcp import ParamHeader, declared_headers, header_fault
from jackfield.sources.base import Listing, Unoffered
from jackfield.sources.hidden import Unremovable, cleaned, cleaned_schema, has_hidden

MAX_DEFINITION = 256 * 1024
MAX_TOOLS = 10_000
LONGEST_NAME = 256


class Annotations(Struct, frozen=True):
    """The hints that we read. A server says them of itself, so they open nothing."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")


class Execution(Struct, frozen=True):
    """How a tool wants to be run."""

    task_support: Any = msgspec.field(default=None, name="taskSupport")


class Definition(Struct, frozen=True):
    """A tool as MCP spells it."""

    name: str
    input_schema: dict[str, Any] = msgspec.field(name="inputSchema")
    description: str | None = None
    title: str | None = None
    output_schema: dict[str, Any] | None = msgspec.field(default=None, name="outputSchema")
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    execution: Execution = Execution()


class McpListing(Struct, frozen=True, kw_only=True):
    """What a server offers, and what its calls need besides."""

    listing: Listing = Listing()
    headers: dict[str, tuple[ParamHeader, ...]] = {}
    """By tool: arguments that are said as headers too."""


class ListingRules(Struct, frozen=True, kw_only=True):
    """What the config says about a server's tools."""

    source: str
    server: str
    """Where it is, for people to see."""
    allowed: tuple[str, ...] | None = None
    timeout_ms: int | None = None


def mcp_listing(definitions: Sequence[Raw], rules: ListingRules) -> McpListing:
    """The tools of a server that may be offered."""
    tools: dict[str, Tool] = {}
    headers: dict[str, tuple[ParamHeader, ...]] = {}
    faults: list[str] = []
    unoffered: list[Unoffered] = []
    allowed = _Allowed(rules.allowed)
    for raw in definitions[:MAX_TOOLS]:
        try:
            definition = _parsed(raw)
            if not allowed.permits(definition.name):
                continue
            if definition.execution.task_support == "required":
                unoffered.append(_only_as_task(definition.name, rules.source))
                continue
            if definition.name in tools:
                raise _Unusable(f"Tool '{_shown(definition.name)}' is offered twice; the first is used.")  # noqa: TRY301 - said like the other faults
            tools[definition.name], notes = _tool(definition, raw, rules)
            headers[definition.name] = declared_headers(definition.input_schema)
            faults += notes
        except _Unusable as fault:
            faults.append(str(fault))
    if len(definitions) > MAX_TOOLS:
        faults.append(f"The server offers {len(definitions):,} tools; the first {MAX_TOOLS:,} are used.")
    faults += [*(one.why for one in unoffered), *allowed.unmatched(rules.source)]
    listing = Listing(tools=tuple(tools.values()), faults=tuple(faults), unoffered=tuple(unoffered))
    return McpListing(listing=listing, headers={name: wanted for name, wanted in headers.items() if wanted})


def _only_as_task(name: str, source: str) -> Unoffered:
    why = (
        f"Tool '{_shown(name)}' of '{source}' runs only as a task of MCP (execution.taskSupport is 'required'), and "
        "the gateway does not run tasks yet, so it is not offered. Use another tool of that server."
    )
    return Unoffered(names=(name,), why=why)


def may_be_repeated(tool: Tool) -> bool:
    """Whether a call that the server refused unread may be sent again: the config, or the server itself, says so."""
    try:
        hints = msgspec.convert(tool.annotations, Annotations)
    except msgspec.ValidationError:
        hints = Annotations()
    return tool.metadata.idempotent or bool(hints.idempotent) or bool(hints.read_only)


class _Unusable(Exception):
    """One definition that cannot be offered, as a sentence."""


def _parsed(raw: Raw) -> Definition:
    if len(bytes(raw)) > MAX_DEFINITION:
        raise _Unusable(f"A tool is left out: its definition has more than the {MAX_DEFINITION:,} bytes allowed.")
    try:
        definition = msgspec.json.decode(raw, type=Definition)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise _Unusable(f"{_whose(raw)} is left out: {fault}. Correct it at the server.") from None
    if not 0 < len(definition.name) <= LONGEST_NAME:
        raise _Unusable(f"A tool is left out: its name does not have 1 to {LONGEST_NAME} characters.")
    return definition


def _tool(definition: Definition, raw: Raw, rules: ListingRules) -> tuple[Tool, list[str]]:
    shown = _shown(definition.name)
    if (fault := header_fault(definition.input_schema)) is not None:
        raise _Unusable(f"Tool '{shown}' is left out: its schema {fault}. Correct it at the server.")
    try:
        input_schema = cleaned_schema(definition.input_schema)
        output_schema = None if definition.output_schema is None else cleaned_schema(definition.output_schema)
        annotations = cleaned_schema(definition.annotations or {})
        meta = cleaned_schema(_own_meta(definition.meta))
    except (Unremovable, RecursionError):
        raise _Unusable(
            f"Tool '{shown}' is left out: hidden characters stand in the names or values of its schema. "
            "Ask the server's owner why."
        ) from None
    title = definition.title or annotations.get("title")
    tool = Tool(
        source=rules.source,
        name=definition.name,
        title=cleaned(title) if isinstance(title, str) else None,
        description=cleaned(definition.description or ""),
        input_schema=input_schema,
        output_schema=output_schema,
        kind=ToolKind.MCP,
        type="mcp",
        server=rules.server,
        timeout_ms=rules.timeout_ms,
        annotations=annotations,
        meta=meta,
        definition=raw,
    )
    return tool, _flags(definition)


def _own_meta(meta: dict[str, Any] | None) -> dict[str, Any]:
    """What a server says about the tool, not about the connection to it."""
    return {key: value for key, value in (meta or {}).items() if key not in OF_THE_CONNECTION}


def _flags(definition: Definition) -> list[str]:
    """A sentence if something hidden was taken out."""
    if not has_hidden(msgspec.to_builtins(definition)):
        return []
    sentence = (
        f"Tool '{_shown(definition.name)}' has hidden characters in what it says of itself. They were taken out; "
        "ask the server's owner why they are there."
    )
    return [sentence]


class _Allowed:
    """`allowed_tools`: names and globs. None means all."""

    def __init__(self, patterns: Iterable[str] | None) -> None:
        self._all = patterns is None
        self._patterns = [(pattern, re.compile(translate(pattern))) for pattern in patterns or ()]
        self._matched: set[str] = set()

    def permits(self, name: str) -> bool:
        matching = [pattern for pattern, compiled in self._patterns if pattern == name or compiled.match(name)]
        self._matched.update(matching)
        return self._all or bool(matching)

    def unmatched(self, source: str) -> list[str]:
        return [
            f"sources.{source}.allowed_tools names '{pattern}', which the server does not offer. Correct or remove it."
            for pattern, _ in self._patterns
            if pattern not in self._matched
        ]


def _whose(raw: Raw) -> str:
    try:
        name = msgspec.json.decode(raw, type=_Named).name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "A tool"
    return f"Tool '{_shown(name)}'"


class _Named(Struct):
    name: str


def _shown(name: str) -> str:
    text = cleaned(name).replace("\n", " ")
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"
