"""Resources and templates of resources, as a source offers them (MCP's words). Pure.

A resource is identified by its URI. Prompts and templates are `Tool`s with another `operation`, because they are named,
pinned and called as tools are.
"""

from typing import Any
from urllib.parse import quote, unquote

from msgspec import Struct

from jackfield.model.tool import CallKind, Metadata, Tool, ToolKind

SCHEME = "jackfield://"
"""Begins the URI of a resource whose own URI another source has."""


REPEATABLE = Metadata(idempotent=True)
"""Of reads and prompts: one that was cut off is made again."""


class Resource(Struct, frozen=True, kw_only=True):
    """Something that can be read."""

    source: str
    uri: str
    listed: dict[str, Any]
    """As clients are shown it: its definition, without hidden characters."""
    is_foreign: bool = True


def read_of(source: str, uri: str, *, timeout_ms: int | None = None) -> Tool:
    """What a call that reads this resource uses."""
    return Tool(
        source=source,
        name=uri,
        kind=ToolKind.MCP,
        type="mcp",
        operation=CallKind.RESOURCE,
        timeout_ms=timeout_ms,
        metadata=REPEATABLE,
    )


def qualified(source: str, uri: str) -> str:
    """The URI of a resource whose own URI another source has."""
    return f"{SCHEME}{source}/{quote(uri, safe='')}"


def unqualified(uri: str) -> tuple[str, str] | None:
    """The source and the resource's own URI; None for a URI of any other form."""
    if not uri.startswith(SCHEME):
        return None
    source, _, rest = uri[len(SCHEME) :].partition("/")
    return (source, unquote(rest)) if source and rest else None
