"""Who owns a session, and which gateway it lives in. Its events stay in that gateway's memory."""

from msgspec import Struct

from jackfield.store.scripts import Script, one


class KeptSession(Struct, frozen=True, kw_only=True):
    """What is known of a session outside its gateway."""

    owner: str
    """The key that opened it."""
    agent: str | None
    """What ran in it; None where it was opened before that was kept."""


def begin_session(session_id: str, *, owner: str, agent: str, gateway: str) -> Script[None]:
    """A new session lives here."""
    yield "insert_session", {"session_key": session_id, "owner": owner, "agent": agent, "gateway": gateway}


def reopen_session(session_id: str, *, owner: str, agent: str, gateway: str) -> Script[bool]:
    """A session that is over, or lost with its gateway, lives here from now on. False: it is not, or not theirs."""
    values = {"session_key": session_id, "owner": owner, "agent": agent, "gateway": gateway}
    return bool((yield "reopen_session", values))


def end_session(session_id: str, *, gateway: str) -> Script[None]:
    """It is over, if it still lives here."""
    yield "end_session", {"session_key": session_id, "gateway": gateway}


def find_session(session_id: str) -> Script[KeptSession | None]:
    """What is kept of it; None: there never was such a session, or it is long over."""
    row = yield from one("get_session", session_key=session_id)
    return None if row is None else KeptSession(owner=row["owner"], agent=row["agent"])
