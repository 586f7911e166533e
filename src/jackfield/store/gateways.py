"""Heartbeats of the gateways that share a database, and values that they have in common."""

import secrets
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from jackfield.model.ids import new_id
from jackfield.store.base import Store
from jackfield.store.scripts import Row, Script, one


class Cluster:
    """What all gateways of one database have in common; known once the store is open."""

    def __init__(self) -> None:
        self.id = ""
        """What other gateways know these by."""
        self.signing_key = secrets.token_hex(32)

    async def load(self, store: Store) -> None:
        self.signing_key = await store.write(partial(shared_value, "callback_key", otherwise=self.signing_key))
        self.id = await store.write(partial(shared_value, "house", otherwise=new_id("house")))


def enter(gateway: str, *, is_shared: bool, announce: Callable[[Row], Script[None]] | None = None) -> Script[None]:
    """A gateway is alive. Where only one can be, all others are dead, and whoever waited there is gone.

    What is answered from then on goes to the inbox. `announce` is told of each such call.
    """
    if is_shared:
        yield "insert_gateway", {"id": gateway}
        return
    yield "bury_other_gateways", {"id": gateway}
    yield "insert_gateway", {"id": gateway}
    for call in (yield "abandon_all_waits", {}):
        if announce is not None:
            yield from announce(call)


def beat(gateway: str) -> Script[bool]:
    """Still alive. False: this gateway has been declared dead and must stop its work."""
    return (yield from one("beat", id=gateway)) is not None


def put_config(gateway: str, digests: Mapping[str, str]) -> Script[None]:
    """The config that is in force at a gateway, by table."""
    yield "put_gateway_config", {"id": gateway, "config": msgspec.json.encode(digests).decode()}


def other_configs(gateway: str) -> Script[dict[str, dict[str, str]]]:
    """The same of every other gateway that lives and has said so."""
    rows = yield "other_gateway_configs", {"id": gateway}
    return {str(row["id"]): msgspec.json.decode(row["config"], type=dict[str, str]) for row in rows}


def leave(gateway: str) -> Script[None]:
    """A gateway has stopped for good: others may go on with what it left."""
    yield "bury_gateway", {"id": gateway}


def bury_late(*, besides: str = "") -> Script[list[str]]:
    """Declare those gateways dead that have not beaten in time, except the one that asks; which they are."""
    rows = yield "bury_late_gateways", {"besides": besides}
    return [str(row["id"]) for row in rows]


def shared_value(name: str, *, otherwise: str) -> Script[str]:
    """The value that all gateways of this database have in common; `otherwise` if there is none yet."""
    yield "put_shared_value", {"name": name, "value": otherwise}
    rows = yield "get_shared_value", {"name": name}
    return str(rows[0]["value"])
