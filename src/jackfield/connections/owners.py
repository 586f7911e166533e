"""Whose logins an agent uses: those of who made it.

Above: the gateway, which gives sources and tools their logins by this. Below: `Connections`.
"""

from collections.abc import Callable, Collection

from jackfield.sources.authorization import Authorization, SourceLogins


class LoginsOfOwners:
    """The same for callers that use another's logins: an agent those of who made it."""

    def __init__(self, logins: SourceLogins, owner_of: Callable[[str], str]) -> None:
        self._logins = logins
        self._owner_of = owner_of

    def of(self, source: str, principal: str) -> Authorization | None:
        return self._logins.of(source, self._owner_of(principal))

    def is_per_user(self, source: str) -> bool:
        return self._logins.is_per_user(source)

    def is_missing(self, source: str, principal: str, scopes: Collection[str] = ()) -> bool:
        return self._logins.is_missing(source, self._owner_of(principal), scopes)

    async def last_principal(self, source: str) -> str | None:
        return await self._logins.last_principal(source)
