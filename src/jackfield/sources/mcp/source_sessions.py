"""The sessions that a source has with its server, by whose login its requests are made with.

Without a login there is one for all, which sources with the same url and headers share. With one for all there is one
too; where each caller has a login of their own there is one for each, and one without any to see what the server shows
to everybody.
Above: `source.py`. Below: `sessions.py`, `login_listing.py`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from jackfield.sources.authorization import Authorization, NoLogins, WithoutLogin
from jackfield.sources.base import SourceContext
from jackfield.sources.logs import SourceLogs
from jackfield.sources.mcp.login_listing import LoginListing
from jackfield.sources.mcp.options import McpOptions
from jackfield.sources.mcp.sessions import PrincipalSessions, ServerSession
from jackfield.sources.mcp.transport_maker import TransportMaker
from jackfield.sources.mcp.upstream import Upstream, User, upstream_for

MakeUpstream = Callable[..., Upstream]
"""Takes what makes transports, and `logs`."""


class SourceSessions:
    """All sessions of one source. `user` is told when the server's lists should be read anew."""

    def __init__(
        self,
        name: str,
        options: McpOptions,
        source_context: SourceContext,
        *,
        make_transport: TransportMaker,
        make_upstream: MakeUpstream,
        user: User,
        from_config: bool,
        owner: str,
    ) -> None:
        self._name = name
        self._make_transport = make_transport
        self._make_upstream = make_upstream
        self._user = user
        self._logins = NoLogins() if owner else source_context.logins
        self.own: PrincipalSessions | None = None
        """Where each caller has a login of their own. All calls are made in these then."""
        self.listing: LoginListing | None = None
        """Reads the lists where there is a login."""
        if (login := self._logins.of(name, "")) is None:
            make = partial(make_upstream, make_transport, logs=source_context.logs)
            upstream = upstream_for(source_context.shared, options, owner=owner, from_config=from_config, make=make)
            self.shared = ServerSession(name, upstream, user=user)
            """The one for all."""
            return
        anonymous = self._with(WithoutLogin(name))
        if self._logins.is_per_user(name):
            self.own, self.shared = PrincipalSessions(self._of), anonymous
        else:
            self.shared = self._with(login, logs=source_context.logs)
        self.listing = LoginListing(
            name,
            session=self.shared,
            anonymous=anonymous,
            own=self.own,
            logins=self._logins,
            kept=source_context.kept,
        )

    def of(self, principal: str) -> AbstractContextManager[ServerSession]:
        """The session for what this principal asks; it stays open while the block runs."""
        return nullcontext(self.shared) if self.own is None else self.own.using(principal)

    def login_changed(self, principal: str | None, *, is_over: bool) -> None:
        if self.own is not None and principal is not None:
            self.own.end(principal) if is_over else self.own.renew(principal)
        elif self.own is None and is_over and self.listing is not None:
            self.shared.upstream.disconnect()

    async def close(self) -> None:
        await self.shared.close()
        if self.listing is not None:
            await self.listing.close()
        if self.own is not None:
            await self.own.close()

    def _of(self, principal: str) -> ServerSession:
        session = self._with(self._logins.of(self._name, principal) or WithoutLogin(self._name))
        session.skills.take_over(self.shared.skills)
        return session

    def _with(self, login: Authorization, *, logs: SourceLogs | None = None) -> ServerSession:
        """A session whose requests have this login. `logs` takes what its server says outside calls; None: nobody."""
        upstream = self._make_upstream(partial(self._make_transport, authorization=login), logs=logs)
        return ServerSession(self._name, upstream, user=self._user)
