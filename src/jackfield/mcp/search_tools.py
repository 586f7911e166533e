"""`search_tools`: for catalogs that are too large to be listed whole. A model then sees one tool and what it found.

Above: `methods.py`. Below: the built-in tool of the same name, which searches. In the handshake era
what was found joins the session's list. From 2026-07-28 on a list may not depend on what was asked before, so the
answer has the whole definitions, and any tool of the catalog can be called by its name.
"""

from collections.abc import Container
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jackfield.calls.requests import CallRequest
from jackfield.catalog.merge import Entry, named_entry
from jackfield.catalog.view import View
from jackfield.errors import BadRequest
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.model.tool import BUILTIN, Tool
from jackfield.model.words import counted

SEARCH_TOOLS = "search_tools"
HEADER = b"jackfield-search-above"
"""Asks for another size than `[mcp] search_tools_above`, for this request; 0: list everything."""
DEFAULT_LIMIT = 5
MAX_LIMIT = 50


class _Named(Struct, frozen=True):
    name: str


class _Found(Struct, frozen=True):
    tools: tuple[_Named, ...]


class Wanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `search_tools`."""

    query: Annotated[str, Meta(max_length=1000)]
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT


def search_above(header: bytes | None, *, configured: int) -> int:
    """The size past which this client wants to search; a header that is no number changes nothing."""
    return int(header) if header is not None and header.isdigit() and len(header) < len("1000000") else configured


def is_searched(view: View, above: int) -> bool:
    """Whether this catalog is searched and not listed."""
    return 0 < above < len(view.entries)


def among(view: View, names: Container[str]) -> tuple[Entry, ...]:
    """The tools of these names, in the catalog's order. What is gone or out of sight is not there."""
    return tuple(entry for entry in view.entries if entry.name in names)


def search_definition(count: int) -> dict[str, Any]:
    """The tool as it is listed, with the size of the catalog it stands for."""
    return {
        "name": SEARCH_TOOLS,
        "description": (
            f"Find tools by what they do. This server has {counted(count, 'tool')} and lists none of them until you "
            "search. The answer has the definition of each tool that fits, best first; call one by its name."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in a few words"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True},
    }


ENTRY = named_entry(SEARCH_TOOLS, Tool(source=BUILTIN, name=SEARCH_TOOLS))
"""As it is called: `search_request` checks its arguments."""


def search_request(arguments: dict[str, Any], *, principal: Principal) -> CallRequest:
    """The call of a search, or the refusal that a model can act on. It needs no scope: it reads what is listed."""
    try:
        wanted = msgspec.convert(arguments, Wanted)
    except msgspec.ValidationError as fault:
        raise BadRequest(f"search_tools cannot take these arguments: {fault}") from None
    return CallRequest(
        tool=SEARCH_TOOLS,
        arguments=msgspec.to_builtins(wanted),
        principal=principal,
        entry=ENTRY,
        needs=None,
        only_reads=True,
    )


def found_in(call: Call, view: View) -> tuple[Entry, ...]:
    """What a search came to, as far as it is still there."""
    assert call.result is not None
    names = [found.name for found in msgspec.json.decode(call.result, type=_Found).tools]
    seen = among(view, names)
    return tuple(sorted(seen, key=lambda entry: names.index(entry.name)))
