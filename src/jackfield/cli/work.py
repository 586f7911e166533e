"""`jackfield work`: run tool files on this machine for a gateway that is elsewhere."""

import asyncio
import logging
import os
import signal
from argparse import Namespace
from pathlib import Path
from typing import Any

from msgspec import Struct

from jackfield.cli.options import UsageError, argument, command
from jackfield.cli.remote_files import RemoteFiles
from jackfield.errors import ConfigError, Unauthenticated
from jackfield.gateway.logs import set_up_logging
from jackfield.model.text import counted
from jackfield.sdk import Client
from jackfield.sdk.address import Address, find_address
from jackfield.sdk.connection import GatewayConnection
from jackfield.sdk.serving import ServeOptions, ToolServer
from jackfield.sdk.tools import server_id
from jackfield.settings import ToolSource, is_source_name, load_tool_source, no_source
from jackfield.sources.watching import Globs

log = logging.getLogger("jackfield.work")

CONCURRENCY = 16
NAME = "work"


class Plan(Struct, frozen=True, kw_only=True):
    """What is served, and how."""

    name: str
    """The source, as the gateway lists it."""
    options: dict[str, Any]
    """Those of a files source."""
    place: ToolSource
    concurrency: int
    grace: float | None
    """Seconds for calls that run when it is drained; None: as long as they take."""


@command(
    """\
Run tool files on this machine for a gateway that is elsewhere: as a tool server, with the files' environments and
sandbox. Start it on as many machines as you like; a call goes to one of them. Changed files are taken up while it runs.

SIGTERM and Ctrl-C drain it: it takes no more calls, finishes those that it has, and ends. The second time it ends at
once.

environment: JACKFIELD_URL, JACKFIELD_KEY (scope worker:GLOB), JACKFIELD_DATA (default .jackfield), JACKFIELD_LOG (text
or json)""",
    argument("files", nargs="*", metavar="FILE", help="tool files, or globs in quotes, which find new files too"),
    argument("--gateway", "--url", dest="url", metavar="URL", help="the gateway (default: JACKFIELD_URL)"),
    argument("--key", help="its key, with the scope worker:GLOB for these tools (default: JACKFIELD_KEY)"),
    argument("--config", metavar="CONFIG", help="take a files source of this config, with its options and overrides"),
    argument("--source", metavar="NAME", help="which files source of the config, if it has several"),
    argument(
        "--name",
        help=f"the source as the gateway lists it ({NAME}, or the name in the config); the same on "
        "machines with the same files",
    ),
    argument("--concurrency", type=int, default=CONCURRENCY, metavar="N", help=f"calls at once ({CONCURRENCY})"),
    argument("--processes", type=int, metavar="N", help="worker processes of a file, at most (1)"),
    argument("--sandbox", action="store_true", help="confine the files, which need '# /// script' blocks then"),
    argument("--secret", action="append", default=[], metavar="NAME", help="a secret that the tools may read"),
    argument("--grace", type=float, metavar="SECONDS", help="when drained, abandon calls that run longer (no limit)"),
    examples="""\
  jackfield work --gateway https://tools.example.org 'tools/*.py'
  jackfield work --gateway http://10.0.0.5:8420 --name reports --processes 4 --concurrency 64 reports.py
  jackfield work --gateway http://10.0.0.5:8420 --config jackfield.toml --source local""",
)
def work(options: Namespace) -> int:
    plan = plan_of(options)
    secrets = plan.place.secrets
    set_up_logging(os.environ.get("JACKFIELD_LOG", "text"), secrets=lambda: secrets.used, tokens=secrets.tokens)
    address = find_address(options.url, options.key)
    if address.key is not None and not (address.key.isascii() and address.key.isprintable()):
        raise UsageError("The key has a line break or another character that no key has. Give its first line only.")
    return asyncio.run(Work(plan, address).run())


def plan_of(options: Namespace) -> Plan:
    """What the command line and the config say. Raises `UsageError` or `ConfigError`."""
    if options.concurrency < 1:
        raise UsageError("--concurrency must be at least 1.")
    if options.files and (options.config or options.source):
        raise UsageError("Give files, or a config that names them, and not both.")
    place = no_source() if options.files else load_tool_source(options.config, kind="files", name=options.source)
    given = {} if place.settings is None else place.settings.options
    named = {"path": tuple(options.files), "processes": options.processes, "sandbox": options.sandbox or None}
    table = {"eager": True, **given, **{key: value for key, value in named.items() if value}}
    if options.secret:
        table["secrets"] = (*given.get("secrets", ()), *options.secret)
    name = options.name or (NAME if place.settings is None else place.settings.name)
    if not is_source_name(name):
        raise UsageError(f"--name '{name}' is not a name for a source: 1 to 32 letters, digits, '_' or '-'.")
    _check_files(table["path"], place.folder)
    return Plan(name=name, options=table, place=place, concurrency=options.concurrency, grace=options.grace)


def _check_files(path: str | tuple[str, ...] | list[str], folder: Path) -> None:
    patterns = (path,) if isinstance(path, str) else tuple(path)
    for pattern in Globs(patterns, folder=folder).unmatched():
        if (folder / pattern).is_dir():
            raise ConfigError(f"'{pattern}' is a folder. Write '{pattern.rstrip('/')}/*.py' for the files in it.")
        raise ConfigError(f"No file matches '{pattern}' in {folder}. Correct the path, or put a tool file there.")


class Work:
    """One run, from the first reading of the files to the last answer."""

    def __init__(self, plan: Plan, address: Address) -> None:
        self._plan = plan
        self._address = address
        self._server: ToolServer | None = None
        self._running: asyncio.Task[None] | None = None
        self._first: int | None = None
        """The signal that ended it."""
        self._is_abandoned = False

    async def run(self) -> int:
        """The exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, number)
        self._running = asyncio.create_task(self._work())
        try:
            await self._running
        except asyncio.CancelledError:
            if self._first is None:
                raise
        return 128 + self._first if self._is_abandoned and self._first is not None else 0

    async def _work(self) -> None:
        plan = self._plan
        async with Client(self._address.url, self._address.key) as client:
            files = RemoteFiles(plan.name, plan.options, plan.place, client, on_change=lambda: self._renew(files))
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, files.reload)
            try:
                await files.open()
                if not files.tools:
                    raise ConfigError(
                        "These files have no tools that can be served: the lines above say why, or they have no public "
                        "functions."
                    )
                await self._serve(files)
            finally:
                await files.close()

    async def _serve(self, files: RemoteFiles) -> None:
        plan, address = self._plan, self._address
        connection = GatewayConnection(address)
        try:
            with server_id(address.url, (), source=plan.name) as known_by:
                options = ServeOptions(
                    client_id=known_by,
                    concurrency=plan.concurrency,
                    declare=plan.name,
                    grace=0.0,
                    on_connected=self._connected,
                )
                self._server = ToolServer(connection, files.tools, options)
                await self._server.run()
        except Unauthenticated as fault:
            raise Unauthenticated(
                f"{fault.message} The gateway at {address.url} wants a key with the scope worker:GLOB for these tools: "
                "--key or JACKFIELD_KEY."
            ) from None
        finally:
            await connection.close()

    def _connected(self) -> None:
        if self._first is None:
            most = counted(self._plan.concurrency, "call")
            log.info("%s: connected as source '%s'; it takes %s at once.", self._address.url, self._plan.name, most)

    def _renew(self, files: RemoteFiles) -> None:
        if self._server is not None and files.tools:
            log.info("The tools have changed: %s.", ", ".join(files.tools))
            self._server.replace(files.tools)

    def _end(self, number: int) -> None:
        """The first time it is drained; the second time what runs is abandoned."""
        assert self._running is not None
        if self._first is not None or self._server is None:
            self._is_abandoned = self._first is not None
            self._first = number
            self._running.cancel()
            return
        self._first = number
        log.info("Draining: no more calls are taken; %s to finish.", counted(self._server.running, "call"))
        self._server.drain()
        if self._plan.grace is not None:
            asyncio.get_running_loop().call_later(self._plan.grace, self._running.cancel)
