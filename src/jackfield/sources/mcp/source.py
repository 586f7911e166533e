"""The tools of one MCP server: `kind = "mcp"`.

When the connection breaks, the supervisor is asked to refresh the source; that opens a new one, or shows the source as
down, and the supervisor tries again with growing pauses.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from jackfield.errors import ConfigError, SourceUnavailable
from jackfield.model.call import Done, Failed, Outcome, Pending, on_one_line
from jackfield.model.content import Content, collapse, text_of, without_connection
from jackfield.model.redaction import cut
from jackfield.model.skill import Skill
from jackfield.model.tool import CallKind, Tool, ToolKind
from jackfield.outgoing import OutgoingError
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.mcp import MISSING_CAPABILITY, URL_REQUIRED
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
from jackfield.sources.mcp.capabilities import (
    missing_capability,
    sent_meta,
    shown_capabilities,
    url_required,
    with_tasks,
)
from jackfield.sources.mcp.connection import CallHandlers, Connection
from jackfield.sources.mcp.core_questions import CoreQuestions
from jackfield.sources.mcp.handlers import sampler
from jackfield.sources.mcp.http import SseTransport, StreamableHttpTransport
from jackfield.sources.mcp.listing import McpListing, may_be_repeated, mcp_listing
from jackfield.sources.mcp.offers import with_offers
from jackfield.sources.mcp.options import OURS, SSE, STDIO, McpOptions, parse_options
from jackfield.sources.mcp.reading import (
    completion_of,
    completion_params,
    contents_of,
    failed_read,
    messages_of,
)
from jackfield.sources.mcp.skills import ServerSkills, read_directory
from jackfield.sources.mcp.stdio import NO_SCRIPTS, ServerLog, StdioTransport, environment
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
from jackfield.sources.mcp.transport import (
    GROUP,
    ClientTransport,
    McpClientError,
    NotDelivered,
    PluginTransport,
    SessionLost,
    TransportFactory,
    TransportListener,
    UpstreamLost,
)
from jackfield.sources.mcp.upstream import ConnectOptions, Offered, Upstream, upstream_for
from jackfield.sources.plugins import foreign_factory
from jackfield.workers.sandbox.kinds import LaunchPlan, plain

T = TypeVar("T")
SLACK_SECONDS = 5.0
READ_ASIDE = 200
"""Longer lists are read in a thread."""
_MAX_FAULT = 500


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
        sample = sampler(source_context, model=model) if options.sampling else None
        self._upstream = upstream_for(
            source_context.shared,
            options,
            owner=owner,
            from_config=from_config,
            make=lambda: Upstream(name, make_transport, options=connecting, sample=sample, logs=source_context.logs),
        )
        self._offered = McpListing()
        self._skills = ServerSkills(name, changed=self._request_refresh)
        self._names: frozenset[str] = frozenset()
        self._sample = sample
        self._core_questions = CoreQuestions()
        self._task_only: set[str] = set()
        """Tools that a server of 2026-07-28 refused to run but as a task; its list does not say so."""

    async def open(self) -> None:
        self._upstream.sources.add(self.name)
        await self._upstream.connect(self._request_refresh)

    async def refresh(self) -> Listing:
        options = self._options
        rules = ListingRules(
            source=self.name, server=options.server, allowed=options.allowed_tools, timeout_ms=options.timeout_ms
        )
        offered = await self._upstream.list(self._request_refresh)
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
        listing = self._skills.take(listing, offered.of("skills"), offered.agreement)
        return replace(listing, about=About(instructions=instructions)) if instructions else listing

    @property
    def open_seconds(self) -> float:
        return self._upstream.connect_seconds + self._options.connect_seconds + SLACK_SECONDS

    def doing(self) -> str | None:
        """How long its process has been starting, and what may take so long."""
        busy, allowed = self._upstream.opening_for, self._upstream.connect_seconds
        if busy is None or self._options.carrier != STDIO:
            return None
        hint = " Its command may be installing it." if self._options.first_seconds == allowed else ""
        return f"Starting '{self._options.argv[0]}' for {busy:.0f} s; it has {allowed:g} s.{hint}"

    def last_words(self) -> tuple[str, ...]:
        return self._server_log.last_words()

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and (tool.name in self._names or tool.operation is not CallKind.TOOL)

    async def execute(self, invocation: Invocation) -> Outcome | Begun:
        try:
            return await self._call(invocation)
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
            return await self._call(invocation)
        except (McpClientError, RpcError, OutgoingError) as fault:
            return self._failed(fault, invocation)

    async def close(self) -> None:
        self._core_questions.close()
        self._upstream.sources.discard(self.name)
        await self._upstream.release(self._request_refresh)

    async def _call(self, invocation: Invocation) -> Outcome | Begun:
        connection = await self._connected(invocation)
        name, operation = invocation.tool.name, invocation.tool.operation
        if operation is CallKind.TOOL:
            return await self._call_tool(connection, invocation)
        handlers = self._handlers(invocation)
        if operation is CallKind.RESOURCE:
            read = await connection.call("resources/read", {"uri": name}, name=name, handlers=handlers)
            return await self._skills.verified(name, contents_of(read), connection)
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
            return await self._asked(partial(_complete, request))
        except (McpClientError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' cannot complete: {fault} Try again later.") from None

    async def skill(self, uri: str) -> Skill | None:
        try:
            return await self._asked(partial(self._skills.get, uri))
        except (McpClientError, RpcError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' cannot say what the skill is: {fault}") from None

    async def directory(self, uri: str, cursor: str | None) -> Raw:
        try:
            return await self._asked(partial(read_directory, uri, cursor))
        except (McpClientError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' cannot read the directory: {fault}") from None

    async def subscribe(self, uri: str, updated: Updated) -> None:
        try:
            await self._asked(lambda _: self._upstream.subscriptions.add(uri, updated))
        except (McpClientError, OutgoingError) as fault:
            raise SourceUnavailable(f"Source '{self.name}' is down: {fault} Try again later.") from None

    def unsubscribe(self, uri: str, updated: Updated) -> None:
        self._upstream.subscriptions.remove(uri, updated)

    async def _asked(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """What the server answers; one that has forgotten the session is asked again in a new one."""
        connection = await self._upstream.connect(self._request_refresh)
        try:
            return await ask(connection)
        except SessionLost:
            return await ask(await self._upstream.connect(self._request_refresh))

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

    async def _connected(self, invocation: Invocation) -> Connection:
        try:
            return await self._upstream.connect(self._request_refresh)
        except (McpClientError, RpcError) as fault:
            self._request_refresh()
            raise self._down(fault, invocation) from None

    async def begin(self, invocation: Invocation) -> Done | Failed | Begun:
        outcome = await self.execute(invocation)
        assert not isinstance(outcome, Pending)
        return outcome

    async def look(self, invocation: Invocation, reference: Raw) -> Look:
        with self._asking_of_task(invocation):
            connection = await self._connected(invocation)
            found = await look_at(connection, reference, sample=self._sample, core_questions=self._core_questions)
        return found if isinstance(found, Look) else Look(outcome=outcome_of(found))

    async def halt(self, invocation: Invocation, reference: Raw) -> None:
        with self._asking_of_task(invocation):
            await cancel(await self._connected(invocation), reference)

    async def answer(self, invocation: Invocation, reference: Raw, answers: dict[str, ElicitAnswer]) -> None:
        with self._asking_of_task(invocation):
            connection = await self._connected(invocation)
            await give_answers(connection, reference, answers, core_questions=self._core_questions)

    def begins_once(self, tool: Tool) -> bool:
        return tool.metadata.idempotent

    @contextmanager
    def _asking_of_task(self, invocation: Invocation) -> Iterator[None]:
        """A server that is away is asked again later."""
        try:
            yield
        except (UpstreamLost, OutgoingError) as fault:
            raise self._down(fault, invocation) from None

    def _down(self, fault: McpClientError | RpcError | OutgoingError, invocation: Invocation) -> SourceUnavailable:
        return SourceUnavailable(f"Source '{self.name}' of {_what(invocation.tool)} is down: {fault} Try again later.")

    def _failed(self, fault: McpClientError | RpcError | OutgoingError, invocation: Invocation) -> Failed:
        name = invocation.tool.name
        if isinstance(fault, SessionLost):
            text = f"The server of '{name}' was restarted and has not run this call. Call it again."
        elif isinstance(fault, UpstreamLost) and invocation.tool.operation is not CallKind.TOOL:
            text = f"The connection to '{self.name}' broke before {_what(invocation.tool)} was read: {fault} Try again."
        elif isinstance(fault, UpstreamLost):
            text = (
                f"The connection to '{self.name}' broke while '{name}' ran, so it may or may not have taken effect: "
                f"{fault} Check before you call it again."
            )
        elif isinstance(fault, RpcError) and fault.number == MISSING_CAPABILITY:
            return missing_capability(fault, name)
        elif (
            isinstance(fault, RpcError) and fault.number == URL_REQUIRED and invocation.tool.operation is CallKind.TOOL
        ):
            return url_required(fault, name)
        elif isinstance(fault, RpcError) and invocation.tool.operation is not CallKind.TOOL:
            return failed_read(fault)
        elif isinstance(fault, RpcError):
            text = f"The server of '{name}' answered with error {fault.number}: {fault.message}"
        else:
            text = fault.message
        return Failed(fault.code, text)


def _what(tool: Tool) -> str:
    return f"{tool.operation.value} '{tool.name}'"


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


class TransportMaker:
    """Makes the transport of each new connection. Another package's factory is looked up at once."""

    def __init__(
        self, name: str, options: McpOptions, source_context: SourceContext, *, from_config: bool = True
    ) -> None:
        self._name = name
        self._from_config = from_config
        self._options = options
        self._source_context = source_context
        self._cwd = source_context.folder / Path(options.cwd).expanduser()
        self.log = ServerLog(name, redact=source_context.worker_host.redact)
        """What the server's processes write to stderr, one after the other."""
        self._factory: TransportFactory | None = None
        if options.carrier not in OURS:
            self._factory = foreign_factory(GROUP, options.carrier, key=f"sources.{name}.transport", ours=OURS)

    def __call__(self, listener: TransportListener) -> ClientTransport:
        options, given = self._options, self._source_context
        if self._factory is not None:
            return PluginTransport(self._factory(self._name, options.for_plugin, given))
        if options.carrier == STDIO:
            return StdioTransport(self._name, self._plan, supervisor=given.supervisor, listener=listener, log=self.log)
        assert options.url is not None
        transport = SseTransport if options.carrier == SSE else StreamableHttpTransport
        return transport(
            self._name,
            options.url,
            headers=options.headers,
            outgoing=given.outgoing,
            named_by=options.url if self._from_config else None,
            listener=listener,
        )

    async def _plan(self) -> LaunchPlan:
        """How its process is started, in a sandbox or in none. Raises `SandboxUnavailable`."""
        options, given = self._options, self._source_context
        if options.confinement is None:
            return plain(options.argv, env=environment(options.env), cwd=self._cwd)
        return await given.worker_host.sandboxes.plan(
            options.confinement,
            command=options.argv,
            env=environment(NO_SCRIPTS | options.env),
            folder=self._cwd,
            name=f"jackfield-{self._name}",
        )


class _CallResult(Struct):
    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    is_error: bool | None = msgspec.field(default=None, name="isError")
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    tool_result: Raw | UnsetType = msgspec.field(default=UNSET, name="toolResult")
    """What servers before 2024-11-05 gave instead of content."""


_decode_result = msgspec.json.Decoder(_CallResult).decode


def outcome_of(answer: Raw) -> Done | Failed:
    """The outcome of a call with this raw result of `tools/call`."""
    try:
        # Into Python values once, because only that validates every string and number.
        msgspec.json.decode(answer)
        parts = _decode_result(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        return Failed("bad_response", f"The server's response is not valid MCP: {cut(str(fault), _MAX_FAULT)}.")
    if parts.content is UNSET and parts.structured is UNSET and parts.tool_result is not UNSET:
        return Done(on_one_line(parts.tool_result))
    structured = None if parts.structured is UNSET or bytes(parts.structured) == b"null" else parts.structured
    content = Content(
        blocks=Raw(b"[]") if parts.content is UNSET else on_one_line(parts.content),
        structured=None if structured is None else on_one_line(structured),
        meta=without_connection(parts.meta) if parts.meta else None,
    )
    if not bytes(content.blocks).startswith(b"["):
        return Failed("bad_response", "The server's response is not valid MCP: its content is not a list.")
    result = collapse(content)
    if parts.is_error:
        return Failed("tool_error", text_of(content) or "The tool failed without saying why.", result)
    return Done(result)
