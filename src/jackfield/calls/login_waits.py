"""Calls that wait for somebody to log in at their source: put on record as `pending_login`, joined, and let go.

A source that raises `LoginNeeded` has refused a call before anything happened, so the call can wait and run later, in
its caller's name. Above: the executor parks here, the pipeline joins here, `answers.py` lets go. Below: the store.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from jackfield.calls import login_transactions as login_tx
from jackfield.calls import operation_transactions as operation_tx
from jackfield.calls.messages import login_refused
from jackfield.calls.running import Running
from jackfield.calls.transactions import Moved
from jackfield.calls.waiting import wait_until_final
from jackfield.errors import LoginNeeded
from jackfield.model.call import Call, CallStatus, Failed, LoginWait
from jackfield.model.principal import Principal
from jackfield.model.trace_context import via
from jackfield.sources.authorization import SourceLogins
from jackfield.store import Store

MOST_TIMES = 3
"""How often one call may wait for a login; a source that wants yet another one is not asked again."""
JOIN_SECONDS = 600.0
"""How long after the login the same request still gets the outcome of the call that waited."""
SETTLED_MS = 3_000
"""After so long every gateway knows of a login that was made, or of one that ended."""
STEP = 200
MOST_LOGINS = 5_000


OpenLogin = Callable[[str, Principal], Awaitable[str | None]]
"""Makes a link to a login at a source, for this principal; None: it may not make one."""


class LoginWaits:
    """What waits for a login, as far as this gateway has to know. Used on the event loop only."""

    def __init__(self, store: Store, *, public_url: str, open_link: OpenLogin | None = None) -> None:
        self._store = store
        self._public_url = public_url
        self._open_link = open_link
        self.joinable: dict[tuple[str, str], float] = {}
        """Of which source and principal calls wait, or waited not long ago, and until when that counts. Mostly empty:
        no other call pays anything for this.
        """

    async def linked(self, need: LoginNeeded, principal: Principal) -> LoginNeeded:
        """The same for who reads, and does not wait: with a link to make the login, if this principal may."""
        url = None if self._open_link is None else await self._open_link(need.source, principal)
        if url is None:
            return need
        said = f"{need.message} Or open {url} in a browser, log in, and read again."
        return LoginNeeded(said, source=need.source, principal=need.principal, scopes=need.scopes, login_url=url)

    def url_of(self, call_id: str) -> str:
        """Where the login can be made that this call waits for. Holds no secret: who opens it has to be signed in."""
        return f"{self._public_url}/connect/{call_id}"

    async def park(self, running: Running, need: LoginNeeded) -> Moved | Failed:
        """The call waits on record from now on; not moved: it joins another, or is over. Or how it fails instead."""
        # T13
        call = running.call
        if call.login is not None and call.login.times >= MOST_TIMES:
            return login_refused(need.source, call.login.times)
        login = LoginWait(source=need.source, principal=need.principal, scopes=need.scopes)
        if (way := via.get()) or running.config:
            await self._store.write(partial(operation_tx.keep_way, call.id, way, config=running.config))
        digest = login_tx.join_digest(call) if running.may_join else None
        self._note(call.source, call.principal)
        if running.writing is None:
            script = partial(login_tx.start_waiting, call, login, age_ms=int(running.age_ms), digest=digest)
            running.writing = written = self._store.write(script)
            return await written
        await running.writing
        moved = await self._store.write(partial(login_tx.park_for_login, call.id, login, attempt=call.attempt))
        if moved.moved and digest is not None:
            await self._store.write(partial(login_tx.keep_join, digest, call.id))
        return moved

    async def joined(self, call: Call) -> Call | None:
        """The call that the same request made before, if that waits, or if nobody has its outcome yet; else None."""
        until = self.joinable.get((call.source, call.principal))
        if until is None or until < time.monotonic():
            return None
        digest = login_tx.join_digest(call)
        earlier = await self._store.read(partial(login_tx.joined_call, digest))
        if earlier is None or earlier.status is CallStatus.PENDING_LOGIN:
            return earlier
        if earlier.agent is not None:
            return None  # its outcome goes to the inbox
        if not earlier.status.is_final:
            earlier = await wait_until_final(self._store, earlier.id, seconds=earlier.timeout_ms / 1000)
            await self.collected(earlier)
            return earlier
        is_mine = await self._store.write(partial(login_tx.take_outcome, digest, earlier.id))
        return earlier if is_mine and await self._is_fresh(earlier) else None

    async def _is_fresh(self, call: Call) -> bool:
        """Whether the outcome answers a request that is made now: the tool ran, and not long ago."""
        if call.status not in (CallStatus.COMPLETED, CallStatus.FAILED) or call.finished_at is None:
            return False
        return await self._store.now_ms() - call.finished_at < JOIN_SECONDS * 1000

    async def collected(self, call: Call) -> None:
        """Whoever made the call has its outcome: the same request again is a new call."""
        if call.login is not None and call.status.is_final:
            await self._store.write(partial(login_tx.forget_join, call.id))

    async def let_go(self, source: str, principal: str | None) -> AsyncIterator[Call]:
        """The login is there: the calls that waited for it and may run now; each is given to one gateway."""
        # T4'
        after = ""
        while True:
            ids = await self._store.read(partial(login_tx.waiting_for, source, principal, after=after, limit=STEP))
            for written in [self._store.write(partial(login_tx.login_done, call_id)) for call_id in ids]:
                moved = await written
                if moved.moved and moved.call is not None:
                    yield moved.call
            if len(ids) < STEP:
                return
            after = ids[-1]

    async def missed(self, logins: SourceLogins) -> list[tuple[str, str | None]]:
        """Logins that are there though calls still wait for them: a gateway died before it said so."""
        found: dict[tuple[str, str | None], None] = {}
        script = partial(login_tx.logins_waited_for, settled_ms=SETTLED_MS, limit=MOST_LOGINS)
        for one in await self._store.read(script):
            self._note(one.source, one.principal)
            login = one.login
            whose = login.principal or one.principal
            if one.is_settled and not logins.is_missing(login.source, whose, login.scopes):
                found[login.source, login.principal] = None
        self._forget_old()
        return [*found]

    def _note(self, source: str, principal: str) -> None:
        self.joinable[source, principal] = time.monotonic() + JOIN_SECONDS

    def _forget_old(self) -> None:
        if self.joinable:
            now = time.monotonic()
            self.joinable = {pair: until for pair, until in self.joinable.items() if until >= now}
