"""Bearer tokens at `/mcp`: whose they are and what for. From memory, so that a call costs no read of the store.

Above: the authenticator. Below: rows of the store; a grant that ends is forgotten at every gateway by its topic, and
a wake-up that was lost costs `REMEMBER_SECONDS` at most.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from jackfield.errors import Unauthenticated
from jackfield.http.request import Request
from jackfield.identity.keys import digest_of
from jackfield.identity.oauth import transactions as tx
from jackfield.identity.oauth.grants import narrowed
from jackfield.identity.oauth.transactions import GRANT_TOPIC, AccessToken
from jackfield.identity.oauth.types import ACCESS_PREFIX
from jackfield.identity.principals import Principals
from jackfield.model.principal import GroupBook, Principal
from jackfield.store import Store

REMEMBER_SECONDS = 30.0
MOST_REMEMBERED = 10_000
_PREFIX = ACCESS_PREFIX.encode()


class _Known:
    """A token in memory, and the principal that was last made of it."""

    __slots__ = ("ends", "holder", "principal", "token", "until")

    def __init__(self, token: AccessToken, *, now: float) -> None:
        self.token = token
        self.ends = now + token.left_ms / 1000
        self.until = min(self.ends, now + REMEMBER_SECONDS)
        self.holder: Principal | None = None
        self.principal: Principal | None = None


class BuiltinTokens:
    """Tokens of the built-in authorization server."""

    def __init__(
        self,
        store: Store,
        principals: Principals,
        *,
        groups: GroupBook,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._principals = principals
        self._groups = groups
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._by_grant: dict[str, set[str]] = {}
        self._changes = 0
        """Counts what was heard, so that nothing read before is remembered after."""
        self.on_ended: list[Callable[[str], None]] = []
        """Told the ids of grants that have ended, at whichever gateway, or that lost a token."""
        store.bus.watch(GRANT_TOPIC, self._hear)
        store.bus.on_foreign(self._hear_foreign)

    def may_be_token(self, given: bytes) -> bool:
        return given.startswith(_PREFIX)

    async def find(self, token: bytes, request: Request) -> Principal | None:
        digest = digest_of(token)
        known = self._known.get(digest)
        if known is None or known.until <= self._clock():
            known = await self._read(digest)
            if known is None:
                return None
        path = request.scope["path"]
        if known.token.resource != path:
            raise Unauthenticated(f"This token is for {known.token.resource} and is not taken at {path[:200]}.")
        holder = self._principals.holder(known.token.credential, name=known.token.principal)
        if holder is None:
            raise Unauthenticated(f"'{known.token.principal}', who allowed this token, is signed out. Log in again.")
        if known.principal is None or known.holder is not holder:
            known.holder = holder
            rights = known.token
            known.principal = narrowed(holder, rights.scopes, rights.groups, self._groups, grant=rights.grant_id)
        return known.principal

    async def _read(self, digest: str) -> _Known | None:
        self._forget(digest)
        changes = self._changes
        token = await self._store.read(partial(tx.find_access_token, digest))
        if token is None:
            return None
        if token.left_ms <= 0:
            raise Unauthenticated("The token has expired. Refresh it, or log in again.")
        if self._principals.holder(token.credential, name=token.principal) is None:
            await self._principals.read(token.principal)  # they may have signed in elsewhere a moment ago
        known = _Known(token, now=self._clock())
        if changes == self._changes:
            self._remember(digest, known)
        return known

    def _remember(self, digest: str, known: _Known) -> None:
        self._known[digest] = known
        self._by_grant.setdefault(known.token.grant_id, set()).add(digest)
        if len(self._known) > MOST_REMEMBERED:
            self._forget(next(iter(self._known)))

    def _forget(self, digest: str) -> None:
        known = self._known.pop(digest, None)
        if known is None:
            return
        same = self._by_grant.get(known.token.grant_id, set())
        same.discard(digest)
        if not same:
            self._by_grant.pop(known.token.grant_id, None)

    def _hear(self, topic: str) -> None:
        """A grant has changed or ended, here or at another gateway."""
        self._changes += 1
        grant_id = topic.removeprefix(GRANT_TOPIC)
        for digest in tuple(self._by_grant.get(grant_id, ())):
            self._forget(digest)
        for tell in self.on_ended:
            tell(grant_id)

    def _hear_foreign(self, topics: Sequence[str] | None) -> None:
        if topics is None:  # some were lost
            self._changes += 1
            self._known.clear()
            self._by_grant.clear()
