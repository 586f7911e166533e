"""People who sign in with the provider of `[auth.oidc]`: who they are, what they may do, whether they still may.

Above: logins, tokens, and `users_api.py`. Below: rows of the store, which every gateway has in memory, so that a
request asks no database. A person has the roles of the last login; who is signed out everywhere has none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from msgspec import Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.identity import people_transactions as people_tx
from jackfield.identity.people_transactions import USER_TOPIC, Person, User
from jackfield.identity.roles import role_principal
from jackfield.model.principal import PERSON, GroupBook, Principal
from jackfield.protocol.backoff import RetryDelays
from jackfield.settings.identity import OidcSettings, RoleSettings
from jackfield.store import Store

log = logging.getLogger("jackfield")

USER_PREFIX = PERSON
LIFETIME_SECONDS = 86_400
"""Of a person's login: their roles are read when they sign in, so that must happen now and then."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class _Known(Struct, frozen=True):
    """A person as this gateway knows them."""

    user: User
    principal: Principal | None
    """None: not signed in anywhere, or without any role."""


class People:
    """Everybody who ever signed in, by `user:<sub>`."""

    def __init__(
        self,
        oidc: OidcSettings | None,
        roles: dict[str, RoleSettings],
        store: Store,
        *,
        audit: AuditLog,
        groups: GroupBook,
        end_calls: Callable[[str], Awaitable[None]],
        end_logins: Callable[[str], Awaitable[None]],
    ) -> None:
        """`end_calls`: cancels what a principal has waiting, once they are signed out everywhere; `end_logins` forgets
        their logins at sources.
        """
        self._issuer = None if oidc is None else oidc.issuer
        self._roles = roles
        self._store = store
        self._audit = audit
        self._groups = groups
        self._end_calls = end_calls
        self._end_logins = end_logins
        self._known: dict[str, _Known] = {}
        self._changed: set[str] = set()
        self._reads_all = False
        self._written = asyncio.Event()
        self.on_signed_out: Callable[[AbstractSet[str]], None] = lambda _: None
        """Told the names of people who are signed out everywhere, or whose roles are others now, by any gateway."""

    def apply(self, roles: dict[str, RoleSettings]) -> None:
        """Have these roles. Who may do something else by them is told to `on_signed_out`, and stays signed in."""
        self._roles = roles
        self._take([known.user for known in self._known.values()])

    @property
    def users(self) -> list[User]:
        """All of them, by name."""
        return [self._known[name].user for name in sorted(self._known)]

    def user(self, name: str) -> User | None:
        known = self._known.get(name)
        return None if known is None else known.user

    def find(self, name: str) -> Principal | None:
        """The person, with the roles of the last login; None: unknown, signed out everywhere, or without a role."""
        known = self._known.get(name)
        return None if known is None else known.principal

    def holder(self, credential: str, *, name: str) -> Principal | None:
        """The same, for a login that was opened since they were last signed out everywhere."""
        known = self._known.get(name)
        return known.principal if known is not None and credential == known.user.credential else None

    async def sign_in(self, person: Person, login_digest: str) -> User:
        """Keep who signed in, with what they may do now, and the login that it opened."""
        before = self.user(person.id)
        if before is not None and before.issuer != person.issuer:  # somebody else, of an earlier [auth.oidc]
            await self._end_calls(person.id)
            await self._end_logins(person.id)
        script = partial(people_tx.sign_in, person, login_digest, lifetime_ms=LIFETIME_SECONDS * 1000)
        change = Entry(actor=person.id, action="login.created", subject=person.id, after={"roles": person.roles})
        user = await self._store.write(self._audit.noting(script, lambda _: change))
        self._take([user])
        return user

    async def sign_out(self, name: str, *, by: str | None = None) -> bool:
        """End all logins and tokens of a person, and what they have waiting, at every gateway. False: nobody.

        `by`: who asked for it; None: the gateway.
        """
        change = Entry(actor=by or self._audit.actor, action="user.signed_out", subject=name)
        script = partial(people_tx.sign_out, name)
        user = await self._store.write(self._audit.noting(script, lambda user: None if user is None else change))
        if user is None:
            return False
        self._take([user])
        await self._end_calls(name)
        return True

    async def read(self, names: Iterable[str]) -> None:
        """Read these people anew."""
        self._take(await self._store.read(partial(people_tx.users_by_id, tuple(names))))

    async def reload(self) -> None:
        """Read everybody anew."""
        self._take(await self._store.read(people_tx.all_users))

    def _take(self, users: Sequence[User]) -> None:
        ended: set[str] = set()
        for user in users:
            before, now = self._known.get(user.id), _Known(user, self._principal_of(user))
            if before is not None and user.version < before.user.version:
                continue
            self._known[user.id] = now
            if before is not None and before.principal is not None:
                is_same = now.principal == before.principal and user.credential == before.user.credential
                ended |= set() if is_same else {user.id}
        if ended:
            self.on_signed_out(ended)

    def _principal_of(self, user: User) -> Principal | None:
        if user.signed_out_at is not None or user.issuer != self._issuer:
            return None
        return role_principal(user.id, user.roles, self._roles, groups=self._groups, title=user.name)

    async def follow(self) -> None:
        """Read whoever a gateway of this store has written; a store that fails is asked again."""
        self._store.bus.watch(USER_TOPIC, self._hear)
        self._store.bus.on_foreign(self._hear_foreign)
        self._reads_all = True  # what was written before this gateway listened
        self._written.set()
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            await self._written.wait()
            self._written.clear()
            changed, self._changed = self._changed, set()
            reads_all, self._reads_all = self._reads_all, False
            try:
                await (self.reload() if reads_all else self.read(changed))
                delays.reset()
            except Exception:
                log.exception("the people who are signed in could not be read; it is tried again")
                await asyncio.sleep(delays.next())
                self._reads_all = True
                self._written.set()

    def _hear(self, topic: str) -> None:
        self._changed.add(topic.removeprefix(USER_TOPIC))
        self._written.set()

    def _hear_foreign(self, topics: Sequence[str] | None) -> None:
        if topics is None:  # some were lost
            self._reads_all = True
            self._written.set()
