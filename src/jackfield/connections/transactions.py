"""Connections and login flows on record: made, refreshed by one gateway, ended. Their secrets are rows of the vault."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from jackfield.connections.oauth import Tokens
from jackfield.connections.types import Connection, Flow, Wanted, connection_id
from jackfield.identity.vault_transactions import SealedRow, delete_sealed, put_sealed
from jackfield.store.scripts import Row, Script, json_list, one, run, wake

CONNECTION_TOPIC = "connection:"
"""And the id of a connection that was made, refreshed or ended."""
CONNECTION = "connection"
LOGIN_FLOW = "login_flow"
OAUTH_CLIENT = "oauth_client"
"""Kinds of sealed rows."""
MOST_FLOWS = 50
"""Links of one principal that nobody has used."""


class Held(Struct, frozen=True):
    """A connection, and its tokens as they are sealed; None: it has none."""

    connection: Connection
    sealed: str | None


def all_connections() -> Script[list[Connection]]:
    rows = yield from run("all_connections")
    return [_connection(row) for row in rows]


def connections_by_id(ids: Iterable[str]) -> Script[list[Connection]]:
    rows = yield from run("connections_by_id", ids=json_list(ids))
    return [_connection(row) for row in rows]


def get_held(source: str, principal: str) -> Script[Held | None]:
    """A connection with its sealed tokens."""
    row = yield from one("connection_tokens", id=connection_id(source, principal))
    return None if row is None else Held(_connection(row), row["sealed"])


def connect(
    source: str, principal: str, tokens: Tokens, sealed: SealedRow, *, wanted: Wanted, flow: str | None
) -> Script[Connection]:
    """Keep a login that was made. `flow`: its own, which ends with it; None: no person made it."""
    values = _token_values(tokens) | {"source": source, "principal": principal, "wanted": _encoded(wanted)}
    values["is_login"] = int(flow is not None)
    row = yield from one("put_connection", id=sealed.id, **values)
    assert row is not None
    yield from put_sealed(sealed)
    if flow is not None:
        yield from _drop_flow(flow)
    yield wake(CONNECTION_TOPIC + sealed.id)
    return _connection(row)


def lease_refresh(connection: Connection, *, gateway: str, lease_ms: int) -> Script[bool]:
    """Whether this gateway is the one to refresh these tokens."""
    values = {"id": connection.id, "version": connection.version, "gateway": gateway, "lease_ms": lease_ms}
    return (yield from one("lease_refresh", **values)) is not None


def finish_refresh(
    connection: Connection, tokens: Tokens, sealed: SealedRow, *, gateway: str
) -> Script[Connection | None]:
    """Keep the refreshed tokens; None: the connection has ended, or another gateway has refreshed it."""
    values = {"id": connection.id, "version": connection.version, "gateway": gateway}
    row = yield from one("finish_refresh", **values, **_token_values(tokens))
    if row is None:
        return None
    yield from put_sealed(sealed)
    yield wake(CONNECTION_TOPIC + connection.id)
    return _connection(row)


def release_refresh(connection: Connection, *, gateway: str) -> Script[None]:
    """This gateway could not refresh; another may try."""
    yield "release_refresh", {"id": connection.id, "version": connection.version, "gateway": gateway}
    yield wake(CONNECTION_TOPIC + connection.id)


def end_connection(connection: Connection) -> Script[Connection | None]:
    """Its tokens are not good any more; None: there are others already."""
    row = yield from one("end_connection", id=connection.id, version=connection.version)
    if row is None:
        return None
    yield from delete_sealed(CONNECTION, connection.id)
    yield wake(CONNECTION_TOPIC + connection.id)
    return _connection(row)


def want(source: str, principal: str, wanted: Wanted) -> Script[Connection]:
    """Keep what a server asked for, for the next login."""
    name = connection_id(source, principal)
    values = {"source": source, "principal": principal, "wanted": _encoded(wanted)}
    row = yield from one("want_connection", id=name, **values)
    assert row is not None
    yield wake(CONNECTION_TOPIC + name)
    return _connection(row)


def disconnect(source: str, principal: str) -> Script[Held | None]:
    """Forget a connection; what it was, so that it can be revoked at the server. None: there was none."""
    held = yield from get_held(source, principal)
    if held is not None:
        yield from _delete(held.connection)
    return held


def disconnect_principal(principal: str) -> Script[list[Held]]:
    """Forget all connections of somebody."""
    rows = yield from run("connections_of", principal=principal)
    gone: list[Held] = []
    for row in rows:
        held = yield from disconnect(row["source"], principal)
        gone += [] if held is None else [held]
    return gone


def _delete(connection: Connection) -> Script[None]:
    yield "delete_connection", {"id": connection.id}
    yield from delete_sealed(CONNECTION, connection.id)
    yield wake(CONNECTION_TOPIC + connection.id)


def open_flow(flow: Flow, *, lasts_ms: int) -> Script[None]:
    """Keep a link that leads to a login, opened by nobody yet. Who asks for very many loses the oldest."""
    rows = yield from run("flows_asked_by", asked_by=flow.asked_by)
    for row in rows[MOST_FLOWS - 1 :]:
        yield from _drop_flow(row["id"])
    yield (
        "put_flow",
        {
            "id": flow.id,
            "source": flow.source,
            "principal": flow.principal,
            "asked_by": flow.asked_by,
            "lasts_ms": lasts_ms,
        },
    )


def begin_flow(flow: Flow, state_digest: str, sealed: SealedRow, *, lasts_ms: int) -> Script[None]:
    """The person goes to the authorization server now. An earlier attempt by the same link counts no more."""
    yield (
        "begin_flow",
        {
            "id": flow.id,
            "source": flow.source,
            "principal": flow.principal,
            "asked_by": flow.asked_by,
            "state_digest": state_digest,
            "browser": flow.browser,
            "lasts_ms": lasts_ms,
        },
    )
    yield from put_sealed(sealed)


def get_flow(flow_id: str) -> Script[Flow | None]:
    row = yield from one("get_flow", id=flow_id)
    return None if row is None else _flow(row)


def flow_by_state(state_digest: str) -> Script[tuple[Flow, str | None] | None]:
    """The flow that an answer is for, with its sealed secrets."""
    row = yield from one("flow_by_state", state_digest=state_digest)
    return None if row is None else (_flow(row), row["sealed"])


def use_flow(flow: Flow, state_digest: str) -> Script[bool]:
    """Take the answer, once."""
    row = yield from one("use_flow", id=flow.id, state_digest=state_digest)
    yield from delete_sealed(LOGIN_FLOW, flow.id)
    return row is not None


def prune_flows(*, limit: int) -> Script[None]:
    """Forget logins that nobody finished."""
    rows = yield from run("old_flows", limit=limit)
    for row in rows:
        yield from _drop_flow(row["id"])


def _drop_flow(flow_id: str) -> Script[None]:
    yield "delete_flow", {"id": flow_id}
    yield from delete_sealed(LOGIN_FLOW, flow_id)


def _encoded(wanted: Wanted) -> str:
    return msgspec.json.encode(wanted).decode()


def _token_values(tokens: Tokens) -> dict[str, str | int | None]:
    return {
        "issuer": tokens.issuer,
        "scopes": json_list(tokens.scopes),
        "expires_at": None if tokens.expires_at is None else int(tokens.expires_at * 1000),
    }


def _connection(row: Row) -> Connection:
    return Connection(
        source=row["source"],
        principal=row["principal"],
        is_connected=bool(row["is_connected"]),
        version=row["version"],
        issuer=row["issuer"],
        scopes=tuple(msgspec.json.decode(row["scopes"], type=list[str])),
        wanted=msgspec.json.decode(row["wanted"], type=Wanted),
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _flow(row: Row) -> Flow:
    return Flow(
        id=row["id"],
        source=row["source"],
        principal=row["principal"],
        asked_by=row["asked_by"],
        browser=row["browser"],
    )
