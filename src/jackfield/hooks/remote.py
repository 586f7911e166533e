"""A hook at a URL: the event is posted, the decision is the body of the response."""

import time
from http import HTTPStatus

from jackfield.hooks.types import MAX_MESSAGE, HookFailed
from jackfield.model.ids import new_id
from jackfield.outgoing import Outgoing
from jackfield.outgoing.errors import OutgoingError
from jackfield.protocol.webhook_signatures import signed_headers

JSON_HEADERS = {"content-type": "application/json"}


class UrlHook:
    """Asks one URL of the config, which may be a private address."""

    def __init__(self, url: str, *, secret: str | None, outgoing: Outgoing) -> None:
        self._url = url
        self._secret = secret
        self._outgoing = outgoing

    async def ask(self, event: bytes, *, timeout: float) -> bytes:
        headers = JSON_HEADERS
        if self._secret is not None:
            signed = signed_headers(event, secret=self._secret, message_id=new_id("msg"), timestamp=int(time.time()))
            headers = headers | signed
        try:
            response = await self._outgoing.request(
                "POST",
                self._url,
                headers=headers,
                content=event,
                timeout=timeout,
                max_bytes=MAX_MESSAGE,
                named_by=self._url,
                max_redirects=0,
            )
        except OutgoingError as fault:
            raise HookFailed("it could not be asked", detail=fault.message) from None
        if response.status != HTTPStatus.OK:
            raise HookFailed(f"it answered with HTTP {response.status}")
        return response.content
