"""`client.agents`: what waits in an agent's inbox, and waking an agent with an event of one's own.

Above: the client. Below: `connection.py`.
"""

from typing import Any
from urllib.parse import quote

import msgspec

from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.types import InboxPage, Triggered


class Agents:
    """The agents of the gateway, by name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def inbox(
        self, name: str, status: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> InboxPage:
        """Events in the order they came: all of them, or those that are `pending`, `processing` or `processed`."""
        message = get(f"{_path_of(name)}/inbox", {"status": status, "limit": limit, "cursor": cursor})
        response = await self._connection.ask(message)
        return self._connection.decode(response.content, InboxPage)

    async def trigger(self, name: str, service: str, payload: Any = None) -> Triggered:
        """Put an event of `service` into the agent's inbox; `payload` is anything that JSON holds."""
        body = msgspec.json.encode({"serviceName": service, "payload": payload})
        response = await self._connection.ask(Message(method="POST", path=f"{_path_of(name)}/trigger", body=body))
        return self._connection.decode(response.content, Triggered)


def _path_of(agent: str) -> str:
    return f"/api/agents/{quote(agent, safe='')}"
