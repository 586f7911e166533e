"""Tools that live in the store: made by an admin, or declared by a tool server; and values that all gateways share."""

from functools import partial

from msgspec import Struct

from jackfield.store import moves
from jackfield.store.access import Read, Write
from jackfield.store.moves import Script

TOOLS_TOPIC = "tools"


class Declaration(Struct, frozen=True, kw_only=True):
    """All tools of one tool server, as it declared them."""

    source: str
    principal: str
    definitions: str
    """A JSON array in seed 003's shape."""


class KeptTools:
    """The tools part of a store. Definitions are JSON text; what they mean is not this room's business."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def all(self) -> dict[str, str]:
        """Every tool made over the API: name → definition."""
        rows = await self._read(partial(moves.run, "all_tools"))
        return {row["name"]: row["definition"] for row in rows}

    async def put(self, name: str, definition: str, *, created_by: str, replace: bool) -> bool:
        """Keep a tool. False: it exists, and was not to be replaced."""
        values = {"name": name, "definition": definition, "created_by": created_by, "replace": int(replace)}
        return await self._write(partial(moves.one, "put_tool", **values), wakes=TOOLS_TOPIC) is not None

    async def delete(self, name: str) -> bool:
        return await self._write(partial(moves.one, "delete_tool", name=name), wakes=TOOLS_TOPIC) is not None

    async def declarations(self) -> list[Declaration]:
        rows = await self._read(partial(moves.run, "all_declarations"))
        return [
            Declaration(source=row["source"], principal=row["principal"], definitions=row["definitions"])
            for row in rows
        ]

    async def declare(self, source: str, definitions: str, *, principal: str, any_owner: bool) -> bool:
        """Replace all tools of a source at once. False: the source is another key's."""
        values = {
            "source": source,
            "definitions": definitions,
            "principal": principal,
            "any_owner": int(any_owner),
        }
        return await self._write(partial(moves.one, "put_declaration", **values), wakes=TOOLS_TOPIC) is not None

    async def shared_value(self, name: str, *, otherwise: str) -> str:
        """The value that all gateways of this database have in common; `otherwise` if there is none yet."""

        def script() -> Script[str]:
            yield "put_shared_value", {"name": name, "value": otherwise}
            rows = yield "get_shared_value", {"name": name}
            return str(rows[0]["value"])

        return await self._write(script)
