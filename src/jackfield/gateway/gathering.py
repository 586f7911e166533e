"""Lists of what lives in one process, for a port that several processes share: one response has those of all of them.

Above: `server.py`. Below: the app, and `siblings.py`, which asks the others.
"""

import msgspec
from msgspec import Raw
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jackfield.gateway.siblings import Siblings

LISTS = {"/api/sessions": "sessions", "/api/v1/workers": "workers"}
"""Paths whose responses are one list, and the name of the list."""


class Gathering:
    """The app of one of several processes, with its lists completed."""

    def __init__(self, app: ASGIApp, siblings: Siblings) -> None:
        self._app = app
        self._siblings = siblings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = LISTS.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if name is None:
            await self._app(scope, receive, send)
            return
        own = _Held()
        await self._app({**scope, "extensions": {}}, receive, own.take)  # no response as one message
        if own.start["status"] == 200:  # noqa: PLR2004 - HTTP
            others = await self._siblings.ask(scope["path"], scope["headers"])
            pages = [msgspec.json.decode(page, type=dict[str, list[Raw]]) for page in (own.body, *others)]
            own.body = msgspec.json.encode({name: [one for page in pages for one in page[name]]})
        await own.send(send)


class _Held:
    """A response that is not sent yet."""

    def __init__(self) -> None:
        self.start: Message = {}
        self.body = b""

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.start = message
        else:
            self.body += message.get("body", b"")

    async def send(self, send: Send) -> None:
        headers = [(name, value) for name, value in self.start["headers"] if name != b"content-length"]
        length = (b"content-length", str(len(self.body)).encode())
        await send({**self.start, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": self.body})
