"""Whose a session is, and the gateway that it lives in. What happens in a session is in that gateway's memory.

Above: `sessions/registry.py`. Below: the named statements in `sql/sessions.sql`.
"""

from functools import partial

from msgspec import Struct

from jackfield.store import moves
from jackfield.store.access import Read, Write


class KeptSession(Struct, frozen=True, kw_only=True):
    """What is known of a session outside its gateway."""

    owner: str
    """The key that opened it."""
    agent: str | None
    """What ran in it; None where it was opened before that was kept."""


class KeptSessions:
    """The sessions part of a store."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def begin(self, session_id: str, *, owner: str, agent: str, gateway: str) -> None:
        """A new session lives here."""
        values = {"session_key": session_id, "owner": owner, "agent": agent, "gateway": gateway}
        await self._write(partial(moves.run, "insert_session", **values))

    async def reopen(self, session_id: str, *, owner: str, agent: str, gateway: str) -> bool:
        """A session that is over, or lost with its gateway, lives here from now on. False: it is not, or not theirs."""
        values = {"session_key": session_id, "owner": owner, "agent": agent, "gateway": gateway}
        return bool(await self._write(partial(moves.run, "reopen_session", **values)))

    async def end(self, session_id: str, *, gateway: str) -> None:
        """It is over, if it still lives here."""
        await self._write(partial(moves.run, "end_session", session_key=session_id, gateway=gateway))

    async def find(self, session_id: str) -> KeptSession | None:
        """What is kept of it; None: there never was such a session, or it is long over."""
        row = await self._read(partial(moves.one, "get_session", session_key=session_id))
        return None if row is None else KeptSession(owner=row["owner"], agent=row["agent"])
