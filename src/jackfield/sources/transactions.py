"""Tools that live in the store: made by an admin, or declared by a tool server."""

from msgspec import Struct

from jackfield.store.scripts import Script, one, wake

TOOLS_TOPIC = "tools"


class Declaration(Struct, frozen=True, kw_only=True):
    """All tools of one tool server, as it declared them."""

    source: str
    principal: str
    definitions: str
    """A JSON array in seed 003's shape."""


def stored_tools() -> Script[dict[str, str]]:
    """Every tool made over the API: name → definition."""
    rows = yield "all_tools", {}
    return {row["name"]: row["definition"] for row in rows}


def put_tool(name: str, definition: str, *, created_by: str, replace: bool) -> Script[bool]:
    """Store a tool. False: it exists, and was not to be replaced."""
    values = {"name": name, "definition": definition, "created_by": created_by, "replace": int(replace)}
    row = yield from one("put_tool", **values)
    yield wake(TOOLS_TOPIC)
    return row is not None


def delete_tool(name: str) -> Script[bool]:
    row = yield from one("delete_tool", name=name)
    yield wake(TOOLS_TOPIC)
    return row is not None


def declarations() -> Script[list[Declaration]]:
    rows = yield "all_declarations", {}
    return [
        Declaration(source=row["source"], principal=row["principal"], definitions=row["definitions"]) for row in rows
    ]


def declare(source: str, definitions: str, *, principal: str, any_owner: bool) -> Script[bool]:
    """Replace all tools of a source at once. False: the source is another key's."""
    values = {"source": source, "definitions": definitions, "principal": principal, "any_owner": int(any_owner)}
    row = yield from one("put_declaration", **values)
    yield wake(TOOLS_TOPIC)
    return row is not None


def kept_listing(source: str) -> Script[str | None]:
    """What a source with a login listed last."""
    row = yield from one("get_listing", source=source)
    return None if row is None else row["listing"]


def keep_listing(source: str, listing: str) -> Script[None]:
    yield "put_listing", {"source": source, "listing": listing}
