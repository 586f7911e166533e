"""The login with which a source makes its requests. Above: sources that speak HTTP. Below: `connections/`, lent by the
gateway as `SourceContext.logins`.

A source asks for headers before each request, and says so when the server refuses them. Both raise `LoginNeeded` when
only a person can help; the call that needed it then waits as `pending_login`.
"""

from collections.abc import Mapping
from typing import Protocol


class Authorization(Protocol):
    """One login at one source: a principal's own, or the one for all."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers that authorize one request. Raises `LoginNeeded`."""

    async def refused(self, status: int, headers: Mapping[str, str], *, sent: Mapping[str, str]) -> bool:
        """The server refused a request (401, or 403) before it acted; `headers` are its answer's, `sent` ours.

        True: there are other headers now, send it again. False: that was not about the login. Raises `LoginNeeded`.
        """


class SourceLogins(Protocol):
    """Knows every source's logins."""

    def of(self, source: str, principal: str) -> Authorization | None:
        """What authorizes this principal's requests to the source; None: the source has `auth = "none"`."""

    def is_per_user(self, source: str) -> bool:
        """Whether each caller has a login of their own there."""


class NoLogins:
    """Where no source needs a login."""

    def of(self, source: str, principal: str) -> None:  # noqa: ARG002
        return None

    def is_per_user(self, source: str) -> bool:  # noqa: ARG002
        return False
