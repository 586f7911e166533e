"""Serves a gateway over HTTP, from the bound port to the last stream closed.

Above: `jackfield serve`. Below: uvicorn, the app, and the gateway itself, which starts while the routes already answer
and stopped after the last request.
"""

import asyncio
import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Awaitable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
import uvloop
from msgspec import Struct, json

from jackfield.catalog.catalog import Entry
from jackfield.errors import ConfigError
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.logs import set_up_logging
from jackfield.gateway.routes import all_routes, all_sockets
from jackfield.http.app import App
from jackfield.http.cors import Cors
from jackfield.http.counters import HttpCounters
from jackfield.http.hosts import Hosts
from jackfield.http.response import Sanitizer
from jackfield.http.server_protocol import ServerProtocol
from jackfield.http.streams import Streams
from jackfield.identity.authentication import Authenticator, Logins, Throttle
from jackfield.identity.browser import Browser
from jackfield.mcp.core_tasks import CoreTasks
from jackfield.mcp.server import McpServer
from jackfield.mcp.tasks import Tasks
from jackfield.model.text import counted
from jackfield.responses.run import Responder
from jackfield.responses.service import ResponseService
from jackfield.settings import ServerSettings, Settings, listens_on_all
from jackfield.settings.tools import RESERVED_SOURCES
from jackfield.sources.supervisor import SourceState

_SAMPLES = {"string": "hello", "number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}


def banner(gateway: Gateway) -> str:
    """The lines to print, with a fresh login link in them."""
    settings, keyring = gateway.settings, gateway.keyring
    entries = gateway.catalog.view(keyring.host.principal).entries
    lines = [
        f"Jackfield is up at {settings.url} with {counted(len(entries), 'tool')}.",
        f"  open  {settings.url}/#code={keyring.new_code(keyring.host)}",
        f"  key   {keyring.key_file or 'as configured'}",
    ]
    if listens_on_all(settings.server) and not settings.server.public_url:
        lines.append(
            "  note  Other devices cannot open this link. Set [server] public_url to an address of this machine; "
            "links and QR codes then use it."
        )
    if entries:
        lines.append(f"  try   {_curl(gateway, _simplest(entries))}")
    lines += _chat(gateway)
    if {status.name for status in gateway.source_registry.statuses()} <= RESERVED_SOURCES and not entries:
        lines += _first_steps(settings)
    for source in gateway.source_registry.statuses():
        if source.status is SourceState.DOWN:
            lines.append(f"  down  source '{source.name}': {source.error}")
        if source.status is SourceState.LOGIN_NEEDED:
            lines.append(f"  login source '{source.name}': {source.error}")
        if source.status is SourceState.STARTING:
            doing = f" {source.doing}" if source.doing else ""
            lines.append(f"  wait  source '{source.name}' is still starting; its tools appear when it is up.{doing}")
        lines += [f"  fault source '{source.name}': {fault}" for fault in source.faults]
    lines += [f"  note  {notice.message}" for notice in gateway.catalog.notices]
    return "\n".join(lines) + "\n"


def _first_steps(settings: Settings) -> list[str]:
    """What to do with a gateway that has no sources."""
    in_console = "  next  Open the link to add MCP servers and REST services under Sources."
    if settings.path is not None:
        return [in_console, f"        Or add a table [sources.NAME] to {settings.path}."]
    return [
        in_console,
        "        Or create a small project here; in another terminal, in this folder:",
        "        jackfield init && jackfield reload",
    ]


def _chat(gateway: Gateway) -> list[str]:
    """How to chat with the first agent of the config that is in a space."""
    for agent_id, settings in gateway.settings.agents.items():
        if settings.spaces:
            where = f"JACKFIELD_DATA={shlex.quote(str(gateway.settings.data))}"
            return [
                f"  chat  {where} jackfield chat {settings.spaces[0]}",
                f"        to chat with {settings.name or agent_id}",
            ]
    return []


def _simplest(entries: tuple[Entry, ...]) -> Entry:
    """`hello` where there is one, else a tool with an example, else the one that asks for least."""

    def effort(entry: Entry) -> tuple[bool, bool, int]:
        required = entry.tool.input_schema.get("required", ())
        return entry.name != "hello", not entry.tool.metadata.examples, len(required)

    return min(entries, key=effort)


def _curl(gateway: Gateway, entry: Entry) -> str:
    key_file = gateway.keyring.key_file
    key = f"$(cat {shlex.quote(str(key_file))})" if key_file else "$KEY"
    body = json.encode({"arguments": sample_arguments(entry)}).decode()
    url = f"{gateway.settings.url}/api/v1/tools/{entry.name}/execute"
    return f'curl -s -H "x-api-key: {key}" -H "content-type: application/json" -d {shlex.quote(body)} {url}'


def sample_arguments(entry: Entry) -> dict[str, object]:
    """Arguments that should do: the tool's first example, else something of the right kind for what it requires."""
    tool = entry.tool
    if tool.metadata.examples:
        return tool.metadata.examples[0].input
    properties = tool.input_schema.get("properties", {})
    return {name: _sample(properties.get(name, {})) for name in tool.input_schema.get("required", ())}


def _sample(schema: object) -> object:
    if not isinstance(schema, dict):
        return None
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    return _SAMPLES.get(kind) if isinstance(kind, str) else None


log = logging.getLogger(__name__)

NOTE = "gateway.json"
BACKLOG = 2048
CALLS_END_WITHIN = 5.0
CONNECTIONS_END_WITHIN = 6
WORK_ENDS_WITHIN = 1.0
GATEWAY_STOPS_WITHIN = 2.0
IDLE_CONNECTION_SECONDS = 75


class RunningNote(Struct, frozen=True, kw_only=True):
    """`gateway.json` in the data folder: where the CLI finds the gateway that runs here."""

    url: str
    pid: int


def build_app(gateway: Gateway, *, streams: Streams | None = None, engine: Responder | None = None) -> App:
    """Every route of this gateway as one ASGI app; `engine` makes its responses instead of its own."""
    streams = streams or Streams()
    counters = HttpCounters()
    gateway.principals.on_ended(streams.end)
    gateway.oauth.on_ended(streams.end_grant)
    settings = gateway.settings
    logins, throttle = Logins(gateway.store, gateway.principals, audit=gateway.audit), Throttle()
    logins.on_closed = streams.end_login
    authenticator = Authenticator(
        gateway.keyring,
        logins,
        throttle,
        public_reader=settings.discovery.reader,
        is_live_session=gateway.sessions.is_live,
        tokens=None if gateway.oauth.mode == "off" else gateway.oauth,
    )
    tasks = Tasks(
        store=gateway.store,
        catalog=gateway.catalog,
        pipeline=gateway.pipeline,
        answers=gateway.answers,
        keep_days=settings.keep_days,
    )
    mcp_server = McpServer(
        catalog=gateway.catalog,
        pipeline=gateway.pipeline,
        sources=gateway.source_registry,
        session_tools=gateway.session_tools,
        tasks=tasks,
        core_tasks=CoreTasks(tasks, gateway.pipeline, gateway.store),
        scenario=settings.scenario,
        url=settings.url,
        groups=gateway.groups,
        logs=gateway.source_logs,
        redactor=gateway.redactor,
        code_mode=settings.mcp.code_mode,
    )
    response_service = ResponseService(
        store=gateway.store,
        engine=engine or gateway.engine,
        gateway_id=gateway.id,
        streams=streams,
        settings=settings.responses,
        find_principal=gateway.principals.look_up,
        pipeline=gateway.pipeline,
        sources_listed=gateway.sources_listed,
    )
    gateway.sweeps.append(response_service.sweep)
    routes = all_routes(
        gateway,
        authenticator=authenticator,
        logins=logins,
        throttle=throttle,
        browser=Browser(logins),
        mcp_server=mcp_server,
        response_service=response_service,
        http_counters=counters,
    )
    app = App(
        routes,
        all_sockets(gateway, response_service),
        authenticator=authenticator,
        availability=gateway.availability,
        hosts=Hosts(settings.server),
        streams=streams,
        sanitizer=Sanitizer.of(settings),
        max_body=settings.server.max_body,
        cors=Cors(settings.server.cors_origins),
        counters=counters,
    )

    def apply(settings: Settings) -> None:
        app.apply(hosts=Hosts(settings.server), cors=Cors(settings.server.cors_origins))
        response_service.apply(settings.responses)
        tasks.apply(settings.keep_days)
        mcp_server.code_mode = settings.mcp.code_mode and settings.programs.enabled

    gateway.reloader.on_applied(apply)
    return app


def serve(settings: Settings) -> int:
    """Run a gateway until it is told to stop; the exit code. What cannot be served raises `ConfigError`."""
    set_up_logging(settings.log_format, secrets=lambda: settings.secrets.used, tokens=settings.secrets.tokens)
    with bind(settings.server) as listener:
        server = msgspec.structs.replace(settings.server, port=listener.getsockname()[1])
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(msgspec.structs.replace(settings, server=server), listener))
    return 0


def bind(server: ServerSettings) -> socket.socket:
    """The listening socket, or a `ConfigError` that says why there is none and what to do."""
    where = f"{server.host}:{server.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server.host or None, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as fault:
        raise ConfigError(
            f"The host '{server.host}' cannot be used: {fault.strerror}. Choose another with --host."
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the socket's own interface
    except OSError as fault:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {where}: {(fault.strerror or str(fault)).lower()}. "
            "Stop what uses it, or choose another port with --port."
        ) from None
    return listener


async def _serve(settings: Settings, listener: socket.socket) -> None:
    """One gateway after another: one that was declared dead stops its work and a new one takes the port."""
    try:
        while (gateway := await _serve_one(settings, listener)).declared_dead.is_set():
            log.warning("Starting again under a new id.")
            settings = gateway.settings  # as last reloaded
            listener = bind(settings.server)
    finally:
        await _leave_the_stubborn()


async def _leave_the_stubborn() -> None:
    """A tool that will not be cancelled must not keep the process: the loop would wait for it for ever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others and (await asyncio.wait(others, timeout=WORK_ENDS_WITHIN))[1]:
        log.warning("Some tools would not stop; the gateway ends without them.")
        logging.shutdown()
        os._exit(0)


async def _serve_one(settings: Settings, listener: socket.socket) -> Gateway:
    """Run one gateway to its end."""
    gateway = Gateway(settings)
    noted = ExitStack()
    server = _Server(gateway, noted)
    watching = asyncio.create_task(_stop_when_dead(gateway, server))
    try:
        await server.serve(sockets=[listener])
        return gateway
    finally:
        watching.cancel()
        noted.close()
        try:
            async with asyncio.timeout(GATEWAY_STOPS_WITHIN):
                await gateway.stop()
        except TimeoutError:
            log.warning("The gateway did not stop in time; unfinished work is recovered at the next start.")


async def _stop_when_dead(gateway: Gateway, server: "_Server") -> None:
    await gateway.declared_dead.wait()
    server.should_exit = True


@contextmanager
def _running_note(settings: Settings) -> Generator[None]:
    """Says in the data folder where this gateway is, as long as it is there."""
    path = settings.data / NOTE
    note = RunningNote(url=settings.url, pid=os.getpid())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(note))
    try:
        yield
    finally:
        _remove_note(path, note)


def _remove_note(path: Path, note: RunningNote) -> None:
    """Another gateway may have written its own in the meantime; that one stays."""
    try:
        if msgspec.json.decode(path.read_bytes(), type=RunningNote) == note:
            path.unlink()
    except (OSError, msgspec.MsgspecError):
        log.debug("%s was gone already.", path)


class _Server(uvicorn.Server):
    """uvicorn with our signals: the first stops gracefully, the second at once; and streams end with the server."""

    def __init__(self, gateway: Gateway, noted: ExitStack) -> None:
        self._gateway = gateway
        self._noted = noted
        self._streams = Streams()
        server = gateway.settings.server
        super().__init__(
            uvicorn.Config(
                build_app(gateway, streams=self._streams),
                loop="uvloop",
                http=ServerProtocol,
                ws="websockets-sansio",
                ws_max_size=server.max_body,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(server.trusted_proxies),
                forwarded_allow_ips=list(server.trusted_proxies),
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_CONNECTION_SECONDS,
                timeout_graceful_shutdown=CONNECTIONS_END_WITHIN,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """The port opens first, so that probes are answered while the gateway starts."""
        await super().startup(sockets)
        await self._gateway.start()
        # Not before: a gateway that is refused its database must leave the note of the one that has it.
        self._noted.enter_context(_running_note(self._gateway.settings))
        sys.stderr.write(banner(self._gateway))
        sys.stderr.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Callers of sessions are told, and streams end; calls that run get their grace, so that whoever waits for one
        still has an answer.
        """
        await _ended(self._gateway.sessions.close())
        await _ended(self._gateway.leave_runs())
        self._streams.close()
        await _ended(super().shutdown(sockets), self._gateway.pipeline.close(grace=CALLS_END_WITHIN))
        await self._streams.finish(within=WORK_ENDS_WITHIN)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Uvicorn would raise the signal again at the end, before the gateway has stopped."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        # A terminal that closes sends it too, which does no harm.
        loop.add_signal_handler(signal.SIGHUP, self._gateway.reloader.request, "SIGHUP")
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's own interface
        if not self.should_exit:
            self.should_exit = True
            return
        log.warning("Stopped at once; calls that were running are settled at the next start.")
        logging.shutdown()
        (self._gateway.settings.data / NOTE).unlink(missing_ok=True)
        os._exit(128 + sig)


async def _ended(*ends: Awaitable[None]) -> None:
    """See them all to their end; one that fails keeps nothing else from stopping."""
    for fault in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(fault, Exception):
            log.error("Some tasks did not stop cleanly; the next start recovers them.", exc_info=fault)
