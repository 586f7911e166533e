"""The list of an MCP server whose source has a login. Some servers hide what they offer from whoever has none.

It is read with the login for all, or first without any and then with the login of a caller: the last one that was made
or used. Where there is no login yet, the last known list is shown, from the store after a restart.
Above: `source.py`. Below: `sessions.py`.
"""

import logging
from collections.abc import AsyncIterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.authorization import SourceLogins
from jackfield.sources.kept_listings import KeptListings
from jackfield.sources.mcp.handshake import Agreement
from jackfield.sources.mcp.sessions import PrincipalSessions, ServerSession
from jackfield.sources.mcp.transport import LoginRequired, McpClientError
from jackfield.sources.mcp.upstream import Offered

log = logging.getLogger("jackfield.sources")

RESOURCES = "resources"


class _KeptOffer(Struct):
    """What the store has of a server's lists."""

    agreement: Agreement
    lists: dict[str, list[Raw]] = {}


def _for_all(offered: Offered) -> Offered:
    """What one caller's login shows, without what may be that caller's own: everybody sees this list."""
    return replace(offered, lists={member: listed for member, listed in offered.lists.items() if member != RESOURCES})


class LoginListing:
    """Reads one server's lists, with whatever login there is.

    `session` has the login for all, or where each has their own, `own`, none; `anonymous` has none.
    """

    def __init__(
        self,
        source: str,
        *,
        session: ServerSession,
        anonymous: ServerSession,
        own: PrincipalSessions | None,
        logins: SourceLogins,
        kept: KeptListings,
    ) -> None:
        self._source = source
        self._session = session
        self._anonymous = anonymous
        self._own = own
        self._logins = logins
        self._kept = kept
        self._is_hidden = False
        """Without a login the server showed nothing, when it was asked last."""
        self._known: Offered | None = None

    async def read(self) -> Offered:
        """All that the server offers now. Raises `LoginRequired`, or why it cannot be read."""
        offered = await (self._read_shared() if self._own is None else self._read_own(self._own))
        kept = _KeptOffer(agreement=offered.agreement, lists=offered.lists)
        await self._kept.keep(self._source, msgspec.json.encode(kept))
        self._known = offered
        return offered

    async def close(self) -> None:
        await self._anonymous.close()

    async def last_known(self) -> Offered | None:
        """What was read last, here, or at any gateway before the start."""
        if self._known is not None:
            return self._known
        raw = await self._kept.read(self._source)
        if raw is None:
            return None
        try:
            kept = msgspec.json.decode(raw, type=_KeptOffer)
        except msgspec.DecodeError:  # of another version
            return None
        self._known = Offered(agreement=kept.agreement, lists=kept.lists)
        return self._known

    async def _read_shared(self) -> Offered:
        """What the login shows is what calls can use, so it is asked for first."""
        try:
            offered = await self._session.list()
        except LoginRequired:
            return await self._anonymous.list()
        await self._anonymous.close()
        return offered

    async def _read_own(self, own: PrincipalSessions) -> Offered:
        fault: McpClientError | RpcError | None = None
        if not self._is_hidden:
            try:
                return await self._anonymous.list()
            except (McpClientError, RpcError) as refusal:
                fault = refusal
        async for principal in self._who_lists(own):
            with own.using(principal) as session:
                try:
                    offered = await session.list()
                except (McpClientError, RpcError) as refusal:
                    log.info("source %s cannot be listed with the login of %s: %s", self._source, principal, refusal)
                    if await self._counts(refusal):
                        fault = refusal
                else:
                    self._is_hidden, own.last_user = True, principal
                    return _for_all(offered)
        if fault is not None:
            raise fault
        self._is_hidden = False  # nobody's login is good any more
        return await self._anonymous.list()

    async def _counts(self, refusal: McpClientError | RpcError) -> bool:
        """Whether what one caller's login came to says how the server is.

        A server that refuses a login for another reason than that it is missing would refuse the next one too; but
        where a list is known, that is one caller's affair, and the others go on. The same holds for a login that cannot
        be refreshed now.
        """
        return not isinstance(refusal, LoginRequired) and await self.last_known() is None

    async def _who_lists(self, own: PrincipalSessions) -> AsyncIterator[str]:
        """The callers whose logins are tried, the likeliest first."""
        used = own.last_user
        if used is not None:
            yield used
        last = await self._logins.last_principal(self._source)
        if last is not None and last != used:
            yield last
