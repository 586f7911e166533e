"""Serves a gateway over HTTP, from the bound port to the last stream closed.

Above: `jackfield serve`. Below: uvicorn, the app, and the gateway itself, which starts while the routes already answer
and stopped after the last request.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
import uvloop
from msgspec import Struct
from starlette.types import ASGIApp

from jackfield.errors import ConfigError
from jackfield.gateway.banner import banner
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.gathering import Gathering
from jackfield.gateway.handed import DECLARED_DEAD, HandedConnections, Place
from jackfield.gateway.logs import set_up_logging
from jackfield.gateway.processes import Ended, GatewayProcesses
from jackfield.gateway.routes import all_routes, all_sockets
from jackfield.gateway.siblings import News, SiblingApp, Siblings
from jackfield.http.app import App
from jackfield.http.cors import Cors
from jackfield.http.counters import HttpCounters
from jackfield.http.hosts import Hosts
from jackfield.http.neighbours import HandingOver
from jackfield.http.response import Sanitizer
from jackfield.http.server_protocol import ServerProtocol
from jackfield.http.streams import Streams
from jackfield.identity.authentication import Authenticator, Logins, Throttle
from jackfield.identity.browser import Browser
from jackfield.mcp.core_tasks import CoreTasks
from jackfield.mcp.server import McpServer
from jackfield.mcp.tasks import Tasks
from jackfield.responses.run import Responder
from jackfield.responses.service import ResponseService
from jackfield.settings import ServerSettings, Settings, load_again
from jackfield.store import gateways as gateway_tx

log = logging.getLogger(__name__)

NOTE = "gateway.json"
BACKLOG = 2048
SERVED_SAID_EVERY = 2.0
CALLS_END_WITHIN = 5.0
CONNECTIONS_END_WITHIN = 6
WORK_ENDS_WITHIN = 1.0
GATEWAY_STOPS_WITHIN = 2.0
IDLE_CONNECTION_SECONDS = 75


class RunningNote(Struct, frozen=True, kw_only=True):
    """`gateway.json` in the data folder: where the CLI finds the gateway that runs here."""

    url: str
    pid: int


def build_app(
    gateway: Gateway,
    *,
    streams: Streams | None = None,
    engine: Responder | None = None,
    siblings: Siblings | None = None,
) -> App:
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
        gateway_id=gateway.id,
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
        siblings=siblings,
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
    _log_as(settings)
    with bind(settings.server) as listener:
        settings = _on_port(settings, listener.getsockname()[1])
        if settings.server.workers > 1:
            return _serve_in_processes(settings, listener)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, listener))
    return 0


def _serve_in_processes(settings: Settings, listener: socket.socket) -> int:
    """Run several gateways that share the port. Comes back in each of them, and in their parent."""
    with ExitStack() as noted:
        parent = ProcessesOfGateway(settings, listener, noted)
        place = parent.processes.run()
        if isinstance(place, Ended):
            return place.code
    _log_as(parent.settings, worker=place.number)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve_place(parent.settings_of(place), place))


class ProcessesOfGateway:
    """The parent of several gateways, and the settings with which it starts them."""

    def __init__(self, settings: Settings, listener: socket.socket, noted: ExitStack) -> None:
        self.settings = settings
        self._noted = noted
        self.processes = GatewayProcesses(
            settings.server.workers, listener, on_ready=self._note, on_reload=self._load_again
        )

    def settings_of(self, place: Place) -> Settings:
        """One that takes another's place reads the config as it is now."""
        if not place.announces:
            self._load_again()
        return self.settings

    def _note(self) -> None:
        self._noted.enter_context(_running_note(self.settings))

    def _load_again(self) -> None:
        """A file with a fault changes nothing; the processes say what is wrong with it."""
        try:
            again = load_again(self.settings)
        except ConfigError as fault:
            log.debug("the config is left as it was: %s", fault)
        else:
            self.settings = _on_port(again, self.settings.server.port)


def _on_port(settings: Settings, port: int) -> Settings:
    return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=port))


def _log_as(settings: Settings, *, worker: int | None = None) -> None:
    secrets = settings.secrets
    set_up_logging(settings.log_format, secrets=lambda: secrets.used, tokens=secrets.tokens, worker=worker)


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


async def _serve_place(settings: Settings, place: Place) -> int:
    """Run one of several gateways. One that was declared dead is replaced by the parent, as if it were."""
    try:
        gateway = await _serve_one(settings, place)
        return DECLARED_DEAD if gateway.declared_dead.is_set() else 0
    finally:
        await _leave_the_stubborn()


async def _serve_one(settings: Settings, at: socket.socket | Place) -> Gateway:
    """Run one gateway to its end. It listens, or has connections handed to it."""
    gateway = Gateway(settings)
    noted = ExitStack()
    server = _Server(gateway, noted, at if isinstance(at, Place) else None)
    watching = asyncio.create_task(_stop_when_dead(gateway, server))
    try:
        await server.serve(sockets=[] if isinstance(at, Place) else [at])
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
    if note.pid != os.getpid():
        return  # a child of the process that wrote it
    try:
        if msgspec.json.decode(path.read_bytes(), type=RunningNote) == note:
            path.unlink()
    except (OSError, msgspec.MsgspecError):
        log.debug("%s was gone already.", path)


class _Server(uvicorn.Server):
    """uvicorn with our signals: the first stops gracefully, the second at once; and streams end with the server."""

    def __init__(self, gateway: Gateway, noted: ExitStack, place: Place | None) -> None:
        self._gateway = gateway
        self._noted = noted
        self._place = place
        self._handed: HandedConnections | None = None
        self._saying: asyncio.Task[None] | None = None
        self._streams = Streams()
        self._siblings = None if place is None else Siblings(place, gateway.id)
        self._app: ASGIApp = build_app(gateway, streams=self._streams, siblings=self._siblings)
        app: ASGIApp = self._app
        if self._siblings is not None:
            app = HandingOver(Gathering(app, self._siblings), self._siblings)
        super().__init__(_config(app, gateway.settings.server))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """The port opens first, so that probes are answered while the gateway starts."""
        await super().startup(sockets)
        if self._place is not None and self._siblings is not None:
            self._handed = await self._join(self._place, self._siblings)
        await self._gateway.start()
        if self._siblings is not None:
            # Sooner than when their leases end: who is known to be dead need not be waited for.
            for killed in self._siblings.take_killed():
                await self._gateway.store.write(partial(gateway_tx.leave, killed))
                log.info("what gateway %s left is taken over", killed)
        if self._place is None:
            # Not before: a gateway that is refused its database must leave the note of the one that has it.
            self._noted.enter_context(_running_note(self._gateway.settings))
        if self._place is None or self._place.announces:
            sys.stderr.write(banner(self._gateway, workers=1 if self._place is None else self._place.count))
            sys.stderr.flush()
        if self._handed is not None:
            self._handed.say_ready()

    async def _join(self, place: Place, siblings: Siblings) -> HandedConnections:
        """Take connections from the parent, and requests from the other processes."""
        loop = asyncio.get_running_loop()
        behind = _config(SiblingApp(self._app, hear=self._hear), self._gateway.settings.server, is_behind_us=True)
        behind.load()

        def protocol(config: uvicorn.Config) -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state={}, _loop=loop
            )

        def stop() -> None:
            self.should_exit = True

        self.servers.append(await loop.create_unix_server(partial(protocol, behind), siblings.own_socket))
        self._gateway.call_events.on_passing(lambda event: siblings.tell(News(event=event)))
        handed = HandedConnections(
            place,
            make_protocol=partial(protocol, self.config),
            count=lambda: len(self.server_state.connections),
            on_orphaned=stop,
        )
        handed.open()
        self._saying = asyncio.create_task(self._say_what_is_served(siblings), name="what is served")
        return handed

    def _hear(self, news: News) -> None:
        """Another process of this port tells something."""
        if news.event is not None:
            self._gateway.call_events.pass_on(news.event)
        if news.reload is not None:
            self._gateway.reloader.request(news.reload)
        if news.serves is not None:
            self._gateway.servers.note_elsewhere(*news.serves)

    async def _say_what_is_served(self, siblings: Siblings) -> None:
        while True:
            await asyncio.sleep(SERVED_SAID_EVERY)
            siblings.tell(News(serves=(self._gateway.id, self._gateway.servers.served)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Callers of sessions are told, and streams end; calls that run get their grace, so that whoever waits for one
        still has an answer.
        """
        if self._handed is not None:
            await self._handed.close()
        if self._saying is not None:
            self._saying.cancel()
        if self._siblings is not None:
            self._siblings.own_socket.unlink(missing_ok=True)
            await self._siblings.close()
        await _ended(self._gateway.sessions.close())
        await _ended(self._gateway.leave_runs())
        self._streams.close()
        await _ended(super().shutdown(sockets), self._gateway.pipeline.close(grace=CALLS_END_WITHIN))
        await self._streams.finish(within=WORK_ENDS_WITHIN)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Uvicorn would raise the signal again at the end, before the gateway has stopped."""
        loop = asyncio.get_running_loop()
        # Ctrl-C reaches every process of a terminal; of several gateways, the parent says when to end.
        ends = (signal.SIGTERM,) if self._place is not None else (signal.SIGINT, signal.SIGTERM)
        for number in ends:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        # A terminal that closes sends it too, which does no harm.
        loop.add_signal_handler(signal.SIGHUP, self._gateway.reloader.request, "SIGHUP")
        try:
            yield
        finally:
            for number in (*ends, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's own interface
        if not self.should_exit:
            self.should_exit = True
            return
        log.warning("Stopped at once; calls that were running are settled at the next start.")
        logging.shutdown()
        if self._place is None:
            (self._gateway.settings.data / NOTE).unlink(missing_ok=True)
        os._exit(128 + sig)


def _config(app: ASGIApp, server: ServerSettings, *, is_behind_us: bool = False) -> uvicorn.Config:
    """`is_behind_us`: who makes a request is said by another process of ours, not by a proxy."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=ServerProtocol,
        ws="websockets-sansio",
        ws_max_size=server.max_body,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(server.trusted_proxies) and not is_behind_us,
        forwarded_allow_ips=list(server.trusted_proxies),
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_CONNECTION_SECONDS,
        timeout_graceful_shutdown=CONNECTIONS_END_WITHIN,
    )


async def _ended(*ends: Awaitable[None]) -> None:
    """See them all to their end; one that fails keeps nothing else from stopping."""
    for fault in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(fault, Exception):
            log.error("Some tasks did not stop cleanly; the next start recovers them.", exc_info=fault)
