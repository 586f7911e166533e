"""Makes the transports of one MCP server, one for each connection.

Above: `source.py`. Below: `http.py`, `sse.py`, `stdio.py`, and other packages' transports.
"""

from pathlib import Path

from jackfield.sources.authorization import Authorization
from jackfield.sources.base import SourceContext
from jackfield.sources.mcp.http import StreamableHttpTransport
from jackfield.sources.mcp.options import OURS, SSE, STDIO, McpOptions
from jackfield.sources.mcp.sse import SseTransport
from jackfield.sources.mcp.stdio import NO_SCRIPTS, ServerLog, StdioTransport, environment
from jackfield.sources.mcp.transport import (
    GROUP,
    ClientTransport,
    PluginTransport,
    TransportFactory,
    TransportListener,
)
from jackfield.sources.plugins import foreign_factory
from jackfield.workers.sandbox.kinds import LaunchPlan, plain


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

    def __call__(self, listener: TransportListener, *, authorization: Authorization | None = None) -> ClientTransport:
        """`authorization`: the login of its requests, over HTTP."""
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
            authorization=authorization,
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
