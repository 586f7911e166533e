"""Logins as a source is lent them: bearer tokens that a test gives and takes."""

import asyncio
from collections.abc import Collection, Mapping

from jackfield.errors import LoginNeeded

SHARED = "everybody"


class Login:
    """One principal's login at the guarded server. A refused token is replaced once by `fresh`, if there is one."""

    def __init__(self, source: str, principal: str, token: str | None) -> None:
        self.source, self.principal, self.token = source, principal, token
        self.fresh: str | None = None
        self.refusals: list[tuple[int, str]] = []

    async def headers(self, method: str, url: str) -> Mapping[str, str]:  # noqa: ARG002 - the promise's shape
        await asyncio.sleep(0)
        if self.token is None:
            raise self._needed()
        return {"Authorization": f"Bearer {self.token}"}

    async def refused(self, status: int, headers: Mapping[str, str], *, sent: Mapping[str, str]) -> bool:
        self.refusals.append((status, headers.get("www-authenticate", "")))
        if self.token is not None and sent["Authorization"] != f"Bearer {self.token}":
            return True
        if self.fresh is None:
            raise self._needed()
        self.token, self.fresh = self.fresh, None
        return True

    def _needed(self) -> LoginNeeded:
        return LoginNeeded(f"'{self.source}' needs a login.", source=self.source, principal=self.principal)


class Logins:
    """The logins of sources; `user` ones by principal, a shared one under `SHARED`."""

    def __init__(self, source: str, **tokens: str) -> None:
        self._source = source
        self.last: str | None = None
        self.of_principal = {name: Login(source, name, token) for name, token in tokens.items()}

    def of(self, source: str, principal: str) -> Login | None:
        if source != self._source:
            return None
        name = SHARED if SHARED in self.of_principal else principal
        return self.of_principal.setdefault(name, Login(source, name, None))

    def is_per_user(self, source: str) -> bool:
        return source == self._source and SHARED not in self.of_principal

    def is_missing(self, source: str, principal: str, scopes: Collection[str] = ()) -> bool:
        assert not scopes
        login = self.of(source, principal)
        return login is not None and login.token is None

    async def last_principal(self, source: str) -> str | None:
        assert source == self._source
        return self.last
