"""The tools of one MCP server: `kind = "mcp"`.

Above: the keeper. Below: `upstream.py`, the connection; `listing.py` and `results.py`, which put the server's words
into ours. When the connection breaks, the keeper is asked to read the tools anew; that makes a new one, or shows the
source as down, and the keeper tries again with growing pauses.
"""

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from jackfield.errors import ConfigError, SourceUnavailable
from jackfield.model.call import Failed, Outcome
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import About, Invocation, Listing, Surroundings
from jackfield.sources.mcp.connection import CallHandlers
from jackfield.sources.mcp.handlers import Sample, sampler
from jackfield.sources.mcp.http import SseTransport, StreamableHttpTransport
from jackfield.sources.mcp.listing import ListingRules, McpListing, may_be_repeated, mcp_listing
from jackfield.sources.mcp.options import OURS, SSE, STDIO, McpOptions, parse_options
from jackfield.sources.mcp.results import outcome_of
from jackfield.sources.mcp.stdio import NO_SCRIPTS, ServerLog, StdioTransport, environment
from jackfield.sources.mcp.transport import (
    GROUP,
    ClientTransport,
    McpClientError,
    NotDelivered,
    PluginTransport,
    RpcError,
    SessionLost,
    TransportFactory,
    TransportListener,
    UpstreamLost,
)
from jackfield.sources.mcp.upstream import ConnectOptions, Upstream, share_of
from jackfield.sources.outgoing import OutgoingError
from jackfield.sources.plugins import foreign_factory
from jackfield.workers.sandbox.kinds import LaunchPlan, plain

SLACK_SECONDS = 5.0


def mcp_source(name: str, options: dict[str, Any], surroundings: Surroundings) -> "McpSource":
    """The factory of this kind."""
    return McpSource(name, parse_options(options, where=f"sources.{name}"), surroundings)


def server_of_a_request(name: str, *, url: str, headers: dict[str, str], surroundings: Surroundings) -> "McpSource":
    """A server that a caller names. Its address is nobody's choice but the caller's, so it gets no exception.

    Nor may it be said to be another host's: an address that the operator opened may serve several.
    """
    if any(header.lower() == "host" for header in headers):
        raise ConfigError("The header 'Host' cannot be set; it follows from the url. Remove it.")
    options = parse_options({"url": url, "headers": headers}, where="The server")
    return McpSource(name, options, surroundings, from_config=False, owner=name)


class McpSource:
    """One server's tools, and a share in the connection to it. `owner`: whose server it is; nobody's: the config's."""

    kind: ClassVar[str] = "mcp"
    tool_kind: ClassVar[ToolKind] = ToolKind.MCP

    def __init__(
        self,
        name: str,
        options: McpOptions,
        surroundings: Surroundings,
        *,
        from_config: bool = True,
        owner: str = "",
    ) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._ask_for_refresh = partial(surroundings.changed, name)
        self._rules = ListingRules(
            source=name, server=options.server, allowed=options.allowed_tools, timeout_ms=options.timeout_ms
        )
        self._options = options
        make_wire = wire_maker(name, options, surroundings, from_config=from_config)
        self._server_log = make_wire.log
        terms = ConnectOptions(
            seconds=options.connect_seconds,
            first_seconds=options.first_seconds,
            is_process=options.carrier == STDIO,
            handshake_only=options.era == "handshake",
        )
        sample = _sampler(options, surroundings)
        self._share = share_of(
            surroundings.shared,
            options,
            owner=owner,
            from_config=from_config,
            make=lambda changed: Upstream(name, make_wire, terms=terms, changed=changed, sample=sample),
            changed=self._ask_for_refresh,
        )
        self._offer = McpListing()
        self._names: frozenset[str] = frozenset()

    async def open(self) -> None:
        await self._share.connect()

    async def refresh(self) -> Listing:
        self._offer = mcp_listing(await self._share.list_tools(), self._rules)
        self._names = frozenset(tool.name for tool in self._offer.listing.tools)
        instructions = self._share.upstream.instructions
        if not instructions:
            return self._offer.listing
        return replace(self._offer.listing, about=About(instructions=instructions))

    @property
    def open_seconds(self) -> float:
        return self._share.upstream.patience + self._options.connect_seconds + SLACK_SECONDS

    def doing(self) -> str | None:
        """That it is being started, how long that has taken, and what may take so long."""
        busy = self._share.upstream.opening_for
        if busy is None or self._options.carrier != STDIO:
            return None
        hint = (
            " Its command may be installing it." if self._options.first_seconds == self._share.upstream.patience else ""
        )
        return f"Starting '{self._options.argv[0]}' for {busy:.0f} s; it has {self._share.upstream.patience:g} s.{hint}"

    def last_words(self) -> tuple[str, ...]:
        return self._server_log.last_words()

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._names

    async def execute(self, invocation: Invocation) -> Outcome:
        try:
            return await self._call(invocation)
        except NotDelivered as fault:
            raise self._down(fault, invocation) from None
        except UpstreamLost as fault:
            if not _may_repeat(fault, invocation.tool):
                return self._failed(fault, invocation)
        except (McpClientError, OutgoingError) as fault:
            return self._failed(fault, invocation)
        try:
            return await self._call(invocation)
        except (McpClientError, OutgoingError) as fault:
            return self._failed(fault, invocation)

    async def close(self) -> None:
        await self._share.close()

    async def _call(self, invocation: Invocation) -> Outcome:
        try:
            await self._share.connect()
        except McpClientError as fault:
            self._ask_for_refresh()
            raise self._down(fault, invocation) from None
        name = invocation.tool.name
        answer = await self._share.upstream.call(
            name,
            invocation.arguments,
            headers=self._offer.headers.get(name, {}),
            talk=CallHandlers(
                report=invocation.report,
                note=invocation.note,
                elicit=invocation.elicit,
                principal=invocation.principal,
            ),
        )
        return outcome_of(answer)

    def _down(self, fault: McpClientError, invocation: Invocation) -> SourceUnavailable:
        return SourceUnavailable(
            f"Source '{self.name}' of tool '{invocation.tool.name}' is down: {fault} Try again later."
        )

    def _failed(self, fault: McpClientError | OutgoingError, invocation: Invocation) -> Failed:
        name = invocation.tool.name
        if isinstance(fault, SessionLost):
            text = f"The server of '{name}' was restarted and has not run this call. Call it again."
        elif isinstance(fault, UpstreamLost):
            text = (
                f"The connection to '{self.name}' broke while '{name}' ran, so it may or may not have taken effect: "
                f"{fault} Check before you call it again."
            )
        elif isinstance(fault, RpcError):
            text = f"The server of '{name}' answered with error {fault.number}: {fault.message}"
        else:
            text = fault.message
        return Failed(fault.code, text)


def _sampler(options: McpOptions, surroundings: Surroundings) -> Sample | None:
    if not options.sampling:
        return None
    return sampler(surroundings, model=options.sampling if isinstance(options.sampling, str) else None)


def _may_repeat(fault: UpstreamLost, tool: Tool) -> bool:
    """A call that the server refused unread may be sent again if somebody says that it does no harm; one that it may
    have begun, only if the config does.
    """
    if isinstance(fault, SessionLost):
        return may_be_repeated(tool)
    return tool.metadata.idempotent


def wire_maker(name: str, options: McpOptions, surroundings: Surroundings, *, from_config: bool = True) -> "_WireMaker":
    """What makes each new connection to this server. Another package's transport is looked up now, not later."""
    return _WireMaker(name, options, surroundings, from_config=from_config)


class _WireMaker:
    def __init__(self, name: str, options: McpOptions, surroundings: Surroundings, *, from_config: bool) -> None:
        self._name = name
        self._from_config = from_config
        self._options = options
        self._surroundings = surroundings
        self._cwd = surroundings.folder / Path(options.cwd).expanduser()
        self.log = ServerLog(name, redact=surroundings.worker_host.redact)
        """What the server's processes say, one after the other."""
        carrier = options.carrier
        self._foreign: TransportFactory | None = None
        if carrier not in OURS:
            self._foreign = foreign_factory(GROUP, carrier, key=f"sources.{name}.transport", ours=OURS)

    def __call__(self, listener: TransportListener) -> ClientTransport:
        options, lent = self._options, self._surroundings
        if self._foreign is not None:
            return PluginTransport(self._foreign(self._name, options.for_foreign, lent))
        if options.carrier == STDIO:
            return StdioTransport(self._name, self._plan, supervisor=lent.supervisor, listener=listener, log=self.log)
        assert options.url is not None
        wire = SseTransport if options.carrier == SSE else StreamableHttpTransport
        return wire(
            self._name,
            options.url,
            headers=options.headers,
            outgoing=lent.outgoing,
            named_by=options.url if self._from_config else None,
            listener=listener,
        )

    async def _plan(self) -> LaunchPlan:
        """How its process is started, in a sandbox or in none. Raises `SandboxUnavailable`."""
        options, lent = self._options, self._surroundings
        cwd = self._cwd
        if options.confinement is None:
            return plain(options.argv, env=environment(options.env), cwd=cwd)
        return await lent.worker_host.sandboxes.plan(
            options.confinement,
            command=options.argv,
            env=environment(NO_SCRIPTS | options.env),
            folder=cwd,
            name=f"jackfield-{self._name}",
        )
