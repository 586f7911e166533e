"""The tools of one MCP server: `kind = "mcp"`.

When the connection breaks, the supervisor is asked to refresh the source; that opens a new one, or shows the source as
down, and the supervisor tries again with growing pauses.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from jackfield.errors import ConfigError, SourceUnavailable
from jackfield.model.call import Done, Failed, Outcome, Pending
from jackfield.model.skill import Skill
from jackfield.model.tool import CallKind, Tool, ToolKind
from jackfield.outgoing import OutgoingError
from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.authorization import how_to_log_in
from jackfield.sources.base import (
    NO_COMPLETION,
    About,
    Begun,
    CompletionRequest,
    Invocation,
    Listing,
    Look,
    SourceContext,
    TaskUse,
    Updated,
)
from jackfield.sources.client import ElicitAnswer
from jackfield.sources.foreign import ListingRules
from jackfield.sources.mcp.capabilities import sent_meta, shown_capabilities, with_tasks
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.faults import failure_of, what
from jackfield.sources.mcp.handlers import sampler
from jackfield.sources.mcp.listing import McpListing, may_be_repeated, mcp_listing
from jackfield.sources.mcp.offers import with_offers
from jackfield.sources.mcp.open_calls import CallHandlers
from jackfield.sources.mcp.options import HTTP, SSE, STDIO, McpOptions, parse_options
from jackfield.sources.mcp.reading import completion_of, completion_params, contents_of, messages_of
from jackfield.sources.mcp.results import outcome_of
from jackfield.sources.mcp.sessions import ServerSession
from jackfield.sources.mcp.skills import read_directory
from jackfield.sources.mcp.source_sessions import SourceSessions
from jackfield.sources.mcp.tasks import (
    AS_TASK,
    cancel,
    created_task,
    give_answers,
    is_refused_without_tasks,
    is_task_wanted,
    look_at,
    only_as_task,
)
from jackfield.sources.mcp.transport import LoginRequired, McpClientError, NotDelivered, SessionLost, UpstreamLost
from jackfield.sources.mcp.transport_maker import TransportMaker
from jackfield.sources.mcp.upstream import ConnectOptions, Offered, Upstream

T = TypeVar("T")
SLACK_SECONDS = 5.0
LIST_AGAIN_SECONDS = 10.0
MOST_LISTERS = 3
"""Connections that a list may take where it needs a login: without one, and with two callers' own."""
READ_ASIDE = 200
"""Longer lists are read in a thread."""


def mcp_source(name: str, options: dict[str, Any], source_context: SourceContext) -> "McpSource":
    """The factory of this kind."""
    return McpSource(name, parse_options(options, where=f"sources.{name}"), source_context)


def server_of_a_request(name: str, *, url: str, headers: dict[str, str], source_context: SourceContext) -> "McpSource":
    """A server that a caller names. Its url is the caller's choice, so no closed address is open to it.

    Nor may it set `Host`: an address that the operator opened may serve several hosts.
    """
    if any(header.lower() == "host" for header in headers):
        raise ConfigError("The header 'Host' cannot be set; it follows from the url. Remove it.")
    options = parse_options({"url": url, "headers": headers}, where="The server")
    return McpSource(name, options, source_context, from_config=False, owner=name)


class McpSource:
    """One server's tools. `owner`: whose server it is; empty: the config's."""

    kind: ClassVar[str] = "mcp"
    tool_kind: ClassVar[ToolKind] = ToolKind.MCP

    def __init__(
        self,
        name: str,
        options: McpOptions,
        source_context: SourceContext,
        *,
        from_config: bool = True,
        owner: str = "",
    ) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._options = options
        self._request_refresh = partial(source_context.changed, name)
        make_transport = TransportMaker(name, options, source_context, from_config=from_config)
        self._server_log = make_transport.log
        connecting = ConnectOptions(
            seconds=options.connect_seconds,
            first_seconds=options.first_seconds,
            is_process=options.carrier == STDIO,
            handshake_only=options.era == "handshake",
        )
        model = options.sampling if isinstance(options.sampling, str) else None
        self._sample = sampler(source_context, model=model) if options.sampling else None
        self._sessions = SourceSessions(
            name,
            options,
            source_context,
            make_transport=make_transport,
            make_upstream=partial(Upstream, name, options=connecting, sample=self._sample),
            user=self._request_refresh,
            from_config=from_config,
            owner=owner,
        )
        self._session = self._sessions.shared
        self._own = self._sessions.own
        self._login_listing = self._sessions.listing
        self._list_again_at = math.inf
        """From when on a call that succeeds has a list read anew which could not be read for want of a login."""
        self.uses_login = options.carrier in (HTTP, SSE)
        self._offered = McpListing()
        self._names: frozenset[str] | None = None
        """None: nothing was ever listed, so nobody knows which tools there are."""
        self._task_only: set[str] = set()
        """Tools that a server of 2026-07-28 refused to run but as a task; its list does not say so."""

    async def open(self) -> None:
        self._session.upstream.sources.add(self.name)
        if self._login_listing is None:
            await self._session.connect()

    async def refresh(self) -> Listing:
        if self._login_listing is None:
            return await self._listing_of(await self._session.list())
        try:
            offered, login_needed = await self._login_listing.read(), None
            self._list_again_at = math.inf
        except LoginRequired:
            self._list_again_at = time.monotonic() + LIST_AGAIN_SECONDS
            known = await self._login_listing.last_known()
            login_needed = how_to_log_in(self.name, is_per_user=self._own is not None)
            if known is None:
                return Listing(login_needed=login_needed)
            offered = known
        listing = await self._listing_of(offered)
        for session in self._own or ():
            session.skills.take_over(self._session.skills)
        return replace(listing, login_needed=login_needed)

    async def _listing_of(self, offered: Offered) -> Listing:
        options = self._options
        rules = ListingRules(
            source=self.name, server=options.server, allowed=options.allowed_tools, timeout_ms=options.timeout_ms
        )
        is_large = sum(map(len, offered.lists.values())) > READ_ASIDE
        read = partial(_read_offers, offered, rules)
        self._offered = await asyncio.to_thread(read) if is_large else read()
        listing = self._offered.listing
        self._names = frozenset(tool.name for tool in listing.tools)
        instructions = offered.agreement.instructions
        if offered.failures:
            failures = (
                f"The server's {member} cannot be listed: {fault}" for member, fault in offered.failures.items()
            )
            listing = replace(listing, faults=(*listing.faults, *failures))
        listing = self._session.skills.take(listing, offered.of("skills"), offered.agreement)
        return replace(listing, about=About(instructions=instructions)) if instructions else listing

    @property
    def open_seconds(self) -> float:
        seconds = self._session.upstream.connect_seconds + self._options.connect_seconds
        return seconds * (1 if self._login_listing is None else MOST_LISTERS) + SLACK_SECONDS

    def doing(self) -> str | None:
        """How long its process has been starting, and what may take so long."""
        busy, allowed = self._session.upstream.opening_for, self._session.upstream.connect_seconds
        if busy is None or self._options.carrier != STDIO:
            return None
        hint = " Its command may be installing it." if self._options.first_seconds == allowed else ""
        return f"Starting '{self._options.argv[0]}' for {busy:.0f} s; it has {allowed:g} s.{hint}"

    def broken(self) -> tuple[str, ...]:
        return ()

    def last_words(self) -> tuple[str, ...]:
        return self._server_log.last_words()

    def can_execute(self, tool: Tool) -> bool:
        if tool.source != self.name:
            return False
        return self._names is None or tool.name in self._names or tool.operation is not CallKind.TOOL

    async def execute(self, invocation: Invocation) -> Outcome | Begun:
        if self._own is None:
            return await self._executed(self._session, invocation)
        with self._own.using(invocation.principal) as session:
            outcome = await self._executed(session, invocation)
        self._own.last_user = invocation.principal
        if time.monotonic() > self._list_again_at:
            self._list_again_at = time.monotonic() + LIST_AGAIN_SECONDS
            self._request_refresh()  # there is a login now that is good
        return outcome

    async def _executed(self, session: ServerSession, invocation: Invocation) -> Outcome | Begun:
        try:
            return await self._call(session, invocation)
        except LoginRequired as refusal:
            raise refusal.needed from None
        except NotDelivered as fault:
            raise self._down(fault, invocation) from None
        except UpstreamLost as fault:
            # A call that the server refused unread may be repeated if the config or the server says that it is
            # harmless; one that may have begun, only if the config does.
            tool = invocation.tool
            may_repeat = may_be_repeated(tool) if isinstance(fault, SessionLost) else tool.metadata.idempotent
            if not may_repeat:
                return self._failed(fault, invocation)
        except (McpClientError, RpcError, OutgoingError) as fault:
            return self._failed(fault, invocation)
        try:
            return await self._call(session, invocation)
        except LoginRequired as refusal:
            raise refusal.needed from None
        except (McpClientError, RpcError, OutgoingError) as fault:
            return self._failed(fault, invocation)

    async def close(self) -> None:
        self._session.upstream.sources.discard(self.name)
        await self._sessions.close()

    def login_changed(self, principal: str | None, *, is_over: bool) -> None:
        self._sessions.login_changed(principal, is_over=is_over)

    async def _call(self, session: ServerSession, invocation: Invocation) -> Outcome | Begun:
        connection = await self._connected(session, invocation)
        name, operation = invocation.tool.name, invocation.tool.operation
        if operation is CallKind.TOOL:
            return await self._call_tool(connection, invocation)
        handlers = self._handlers(invocation)
        if operation is CallKind.RESOURCE:
            read = await connection.call("resources/read", {"uri": name}, name=name, handlers=handlers)
            return await session.skills.verified(name, contents_of(read), connection)
        params = {"name": name, "arguments": invocation.arguments}
        return messages_of(await connection.call("prompts/get", params, name=name, handlers=handlers))

    async def _call_tool(self, connection: Connection, invocation: Invocation) -> Outcome | Begun:
        """The tool's outcome, or the task as which it goes on at the server."""
        use, tool, agreement = invocation.tasks, invocation.tool, connection.agreement
        if is_task_wanted(tool, use, agreement, needs_task=tool.name in self._task_only):
            return await self._begin_task(connection, invocation)
        if is_task_wanted(tool, TaskUse.REQUIRED, agreement, needs_task=False) and not agreement.is_modern:
            return only_as_task(tool)
        try:
            return outcome_of(await self._send_call(connection, invocation, self._handlers(invocation)))
        except RpcError as error:
            if use is TaskUse.NEVER or not is_refused_without_tasks(error):
                raise
        self._task_only.add(tool.name)  # refused unread, so it may be sent again
        return await self._begin_task(connection, invocation)

    async def _begin_task(self, connection: Connection, invocation: Invocation) -> Outcome | Begun:
        is_modern = connection.agreement.is_modern
        handlers = self._handlers(invocation)
        handlers = replace(handlers, capabilities=with_tasks(handlers.capabilities))
        answer = await self._send_call(connection, invocation, handlers, more={} if is_modern else AS_TASK)
        return created_task(answer, is_modern=is_modern) or outcome_of(answer)

    async def _send_call(
        self,
        connection: Connection,
        invocation: Invocation,
        handlers: CallHandlers,
        *,
        more: dict[str, Any] = {},  # noqa: B006 - never changed
    ) -> Raw:
        name = invocation.tool.name
        params = {"name": name, "arguments": invocation.arguments, **more}
        headers = self._offered.headers.get(name, ())
        return await connection.call("tools/call", params, name=name, headers=headers, handlers=handlers)

    async def complete(self, request: CompletionRequest) -> Raw:
        try:
            return await self._asked(request.principal, lambda _, connection: _complete(request, connection))
        except (McpClientError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' cannot complete: {fault} Try again later.") from None

    async def skill(self, uri: str, *, principal: str) -> Skill | None:
        try:
            return await self._asked(principal, lambda session, connection: session.skills.get(uri, connection))
        except (McpClientError, RpcError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' cannot say what the skill is: {fault}") from None

    async def directory(self, uri: str, cursor: str | None, *, principal: str) -> Raw:
        try:
            return await self._asked(principal, lambda _, connection: read_directory(uri, cursor, connection))
        except (McpClientError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' cannot read the directory: {fault}") from None

    async def subscribe(self, uri: str, updated: Updated, *, principal: str) -> None:
        try:
            if (own := self._own) is not None:
                await self._asked(principal, lambda *_: own.follow(principal, uri, updated))
            else:
                await self._asked(principal, lambda session, _: session.upstream.subscriptions.add(uri, updated))
        except (McpClientError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' is down: {fault} Try again later.") from None

    def unsubscribe(self, uri: str, updated: Updated, *, principal: str) -> None:
        if self._own is not None:
            self._own.unfollow(principal, uri, updated)
        else:
            self._session.upstream.subscriptions.remove(uri, updated)

    async def _asked(self, principal: str, ask: Callable[[ServerSession, Connection], Awaitable[T]]) -> T:
        """What the server answers; one that has forgotten the session is asked again in a new one."""
        with self._sessions.of(principal) as session:
            try:
                try:
                    return await ask(session, await session.connect())
                except SessionLost:
                    return await ask(session, await session.connect())
            except LoginRequired as refusal:
                raise refusal.needed from None

    def _handlers(self, invocation: Invocation) -> CallHandlers:
        return CallHandlers(
            report=invocation.report,
            note=invocation.note,
            ask=invocation.ask,
            capabilities=shown_capabilities(invocation.client, has_model=bool(self._options.sampling)),
            principal=invocation.principal,
            meta=sent_meta(invocation.client),
            log_level=None if invocation.client is None else invocation.client.log_level,
            opened=None if invocation.client is None else invocation.client.opened,
        )

    async def _connected(self, session: ServerSession, invocation: Invocation) -> Connection:
        try:
            return await session.connect()
        except LoginRequired:
            raise
        except (McpClientError, RpcError) as fault:
            self._request_refresh()
            raise self._down(fault, invocation) from None

    async def begin(self, invocation: Invocation) -> Done | Failed | Begun:
        outcome = await self.execute(invocation)
        assert not isinstance(outcome, Pending)
        return outcome

    async def look(self, invocation: Invocation, reference: Raw) -> Look:
        with self._asking_of_task(invocation) as session:
            connection = await self._connected(session, invocation)
            questions = session.core_questions
            found = await look_at(connection, reference, sample=self._sample, core_questions=questions)
        return found if isinstance(found, Look) else Look(outcome=outcome_of(found))

    async def halt(self, invocation: Invocation, reference: Raw) -> None:
        with self._asking_of_task(invocation) as session:
            await cancel(await self._connected(session, invocation), reference)

    async def answer(self, invocation: Invocation, reference: Raw, answers: dict[str, ElicitAnswer]) -> None:
        with self._asking_of_task(invocation) as session:
            connection = await self._connected(session, invocation)
            await give_answers(connection, reference, answers, core_questions=session.core_questions)

    def begins_once(self, tool: Tool) -> bool:
        return tool.metadata.idempotent

    @contextmanager
    def _asking_of_task(self, invocation: Invocation) -> Iterator[ServerSession]:
        """The session that a task is asked about in. A server that is away is asked again later."""
        try:
            with self._sessions.of(invocation.principal) as session:
                yield session
        except LoginRequired as refusal:
            raise refusal.needed from None
        except (UpstreamLost, OutgoingError) as fault:
            raise self._down(fault, invocation) from None

    def _down(self, fault: McpClientError | RpcError | OutgoingError, invocation: Invocation) -> SourceUnavailable:
        return SourceUnavailable(f"Source '{self.name}' of {what(invocation.tool)} is down: {fault} Try again later.")

    def _failed(self, fault: McpClientError | RpcError | OutgoingError, invocation: Invocation) -> Failed:
        return failure_of(fault, invocation.tool, source=self.name)


async def _complete(request: CompletionRequest, connection: Connection) -> Raw:
    if not connection.agreement.offers("completions"):
        return NO_COMPLETION
    return completion_of(await connection.complete(completion_params(request)))


def _read_offers(offered: Offered, rules: ListingRules) -> McpListing:
    """All that a server lists, as it is offered. Touches nothing, so it may run in a thread."""
    tools = mcp_listing(offered.of("tools"), rules)
    if not offered.agreement.offers("resources") and not offered.of("prompts"):
        return tools
    reads = offered.agreement.offers("resources")
    return replace(tools, listing=with_offers(tools.listing, offered.lists, rules, reads=reads))
