"""Who owns a session, and which gateway it lives in. Its events stay in that gateway's memory."""

from msgspec import Struct

from jackfield.runs import model_steps
from jackfield.store.scripts import Script, one


class KeptSession(Struct, frozen=True, kw_only=True):
    """What is stored of a session."""

    owner: str
    """The key that opened it."""
    agent: str | None
    """What ran in it; None in rows older than the column."""
    gateway: str | None
    """Where it lives; None: it is over."""


def begin_session(session_id: str, *, owner: str, agent: str, gateway: str) -> Script[None]:
    """A new session of this gateway."""
    yield "insert_session", {"session_key": session_id, "owner": owner, "agent": agent, "gateway": gateway}


def reopen_session(session_id: str, *, owner: str, agent: str, gateway: str) -> Script[bool]:
    """Move a session that ended, or lost its gateway, here. False: it is still open, or another key's."""
    values = {"session_key": session_id, "owner": owner, "agent": agent, "gateway": gateway}
    return bool((yield "reopen_session", values))


def end_session(session_id: str, *, gateway: str) -> Script[None]:
    """End it, if it still belongs to this gateway."""
    yield "end_session", {"session_key": session_id, "gateway": gateway}


def find_session(session_id: str) -> Script[KeptSession | None]:
    """The stored session; None: unknown, or pruned."""
    row = yield from one("get_session", session_key=session_id)
    return (
        None
        if row is None
        else KeptSession(
            owner=row["owner"], agent=row["agent"], gateway=row["gateway"] if row["ended_at"] is None else None
        )
    )


def prune(*, before: int, limit: int) -> Script[None]:
    """Forget a few of the sessions that were opened before and are over."""
    gone = yield "prune_sessions", {"before": before, "limit": limit}
    yield from model_steps.forget([row["id"] for row in gone])
