"""Calls that wait for a login: T13 to `pending_login`, T4' when somebody has logged in, and requests that join a call.

Above: `login_waits.py`, and the login flows, which ask what a call waits for. Below: the transactions of calls.
"""

import hashlib

import msgspec
from msgspec import Struct

from jackfield.calls.rows import call_from
from jackfield.calls.transactions import Moved, get_call, ids_in, insert_values, shown_move
from jackfield.model.call import Call, CallStatus, LoginWait
from jackfield.store.scripts import Script, one

_encode = msgspec.json.Encoder(order="sorted").encode


class WaitedFor(Struct, frozen=True, kw_only=True):
    """A login that calls wait for, and whose calls of which source they are."""

    login: LoginWait
    source: str
    principal: str
    is_settled: bool
    """Whether one of them has waited for a while: by now every gateway knows which logins there are."""


def join_digest(call: Call) -> str:
    """The same for calls that ask for the same, by the same principal in the same agent's name."""
    arguments = msgspec.json.decode(call.arguments)
    asked = (call.principal, call.agent, call.source, call.tool, call.space_id, call.chat_id, arguments)
    return hashlib.sha256(_encode(asked)).hexdigest()


def park_for_login(call_id: str, login: LoginWait, *, attempt: int) -> Script[Moved]:
    """The source of a running call refused it before it acted, and wants this login."""
    # T13
    return shown_move("park_for_login", call_id, attempt=attempt, **_values(login))


def start_waiting(call: Call, login: LoginWait, *, age_ms: int, digest: str | None) -> Script[Moved]:
    """The same for a call that is not on record: it becomes so now, unless it is one that waits already.

    Not moved: that one.
    """
    # T1 and T13
    earlier = None if digest is None else (yield from keep_join(digest, call.id))
    if earlier is not None:
        return Moved(earlier, moved=False)
    yield "insert_call", insert_values(call, age_ms=age_ms)
    return (yield from shown_move("park_for_login", call.id, attempt=call.attempt, **_values(login)))


def _values(login: LoginWait) -> dict[str, str | None]:
    return {"source": login.source, "principal": login.principal, "scopes": " ".join(login.scopes)}


def keep_join(digest: str, call_id: str) -> Script[Call | None]:
    """From now on the same request joins this call; or the call that waits already, which it joins itself.

    Never after other rows in one transaction: the digest is not among those that a batch locks in order.
    """
    values = {"digest": digest, "call_id": call_id}
    if (yield "insert_login_join", values):
        return None
    row = yield from one("login_join", digest=digest)
    if row is None or (row["id"] is not None and row["status"] == CallStatus.PENDING_LOGIN.value):
        return None if row is None else call_from(row)
    yield "replace_login_join", {**values, "seen": row["joined"]}
    return None


def joined_call(digest: str) -> Script[Call | None]:
    """The call that the same request made before, if it waited for a login and nobody has its outcome yet."""
    row = yield from one("login_join", digest=digest)
    return None if row is None or row["id"] is None else call_from(row)


def take_outcome(digest: str, call_id: str) -> Script[bool]:
    """Whoever takes it has the outcome of a call that waited; nobody else joins it."""
    return (yield from one("take_login_join", digest=digest, call_id=call_id)) is not None


def forget_join(call_id: str) -> Script[None]:
    """Whoever made the call has its outcome: the same request is a new call."""
    yield "forget_login_join", {"call_id": call_id}


def login_done(call_id: str) -> Script[Moved]:
    """The login that this call waited for is there: any gateway may run it."""
    # T4'
    return shown_move("login_to_run", call_id)


def waiting_for(source: str, principal: str | None, *, after: str = "", limit: int) -> Script[list[str]]:
    """Calls that wait for this login, the oldest first; with no principal, for any at the source."""
    return ids_in("calls_waiting_for_login", source=source, principal=principal, after=after, limit=limit)


def logins_waited_for(*, settled_ms: int, limit: int) -> Script[list[WaitedFor]]:
    """Every login that calls wait for now."""
    rows = yield "logins_waited_for", {"settled_ms": settled_ms, "limit": limit}
    return [
        WaitedFor(
            login=LoginWait(
                source=row["login_source"],
                principal=row["login_principal"],
                scopes=tuple(str(row["login_scopes"] or "").split()),
            ),
            source=row["source"],
            principal=row["principal"],
            is_settled=bool(row["is_settled"]),
        )
        for row in rows
    ]


def call_that_waits(call_id: str) -> Script[Call | None]:
    """The call, while it waits for a login; for whoever is to make that."""
    call = yield from get_call(call_id)
    return call if call is not None and call.status is CallStatus.PENDING_LOGIN else None
