"""What `jackfield doctor` looks at, one function each: what was found, and what to do about it.

Above: `doctor.py`. Below: the settings, the store, the sources, the running gateway if there is one.
"""

import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec
from msgspec import Struct

from jackfield.agents.own_servers import servers_of, source_name
from jackfield.agents.persona import Agent
from jackfield.catalog.globs import Patterns
from jackfield.cli.inside import SOURCES_WITHIN
from jackfield.errors import ConfigError, JackfieldError
from jackfield.gateway.building import SPEAK_SO, mute_agents
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN, ADMIN_KEY_FILE
from jackfield.model.words import counted
from jackfield.sdk import Readiness, SourceReport
from jackfield.settings import RESERVED_SOURCES, Settings
from jackfield.settings.agents import AgentSettings
from jackfield.settings.parsing import nearest
from jackfield.settings.sessions import SandboxSettings
from jackfield.store import naming, open_store
from jackfield.workers.sandbox.kinds import SandboxUnavailable
from jackfield.workers.sandbox.sandboxes import Sandboxes
from jackfield.workers.supervisor import Supervisor

OLDEST_PYTHON = (3, 11)
SAID_LINES = 3
"""Of what a failing source's process said at last."""


class Level(Enum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    """It works, but somebody should look."""
    FAULT = "fault"
    """It does not work like this."""


class Finding(Struct, frozen=True, kw_only=True):
    """One line of the doctor's report."""

    level: Level
    subject: str
    says: str
    cure: str = ""


def ok(subject: str, says: str) -> Finding:
    return Finding(level=Level.OK, subject=subject, says=says)


def warning(subject: str, says: str, cure: str = "") -> Finding:
    return Finding(level=Level.WARNING, subject=subject, says=says, cure=cure)


def fault(subject: str, says: str, cure: str = "") -> Finding:
    return Finding(level=Level.FAULT, subject=subject, says=says, cure=cure)


def check_python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < OLDEST_PYTHON:
        return fault("python", f"Python {found} is too old.", "Install Python 3.11 or newer.")
    return ok("python", f"Python {found} at {sys.executable}")


def check_machine() -> Iterator[Finding]:
    """What is nice to have, and what this system does less well."""
    for program, use in (("uv", "tool files with dependencies of their own"), ("npm", "building the console")):
        path = shutil.which(program) or shutil.which(program, path=Path(sys.executable).parent)
        yield ok(program, path) if path else ok(program, f"not found; only needed for {use}")
    if Supervisor().best_effort:
        yield warning(
            "processes",
            "On this system what a tool's process started is ended by its process group: one that left it may stay.",
            "Prefer Linux where that matters.",
        )


async def check_sandbox() -> Finding:
    """Which sandbox a program would get here that is to run in one."""
    supervisor = Supervisor()
    sandboxes = Sandboxes(supervisor, base=Path(), hidden=())
    try:
        kind = await sandboxes.choose(SandboxSettings())
    except SandboxUnavailable as missing:
        return warning("sandbox", missing.message)
    finally:
        await supervisor.close()
    return ok("sandbox", f"{kind}: works here, for sandbox = true and [sessions]")


def describe_config(settings: Settings) -> Finding:
    if settings.path is None:
        return warning(
            "config", "No jackfield.toml here; a gateway would have no tools.", "Make a project with 'jackfield init'."
        )
    holds = f"{counted(len(settings.sources), 'source')}, {counted(len(settings.tools), 'tool')}"
    return ok("config", f"{settings.path} ({holds})")


def check_data(settings: Settings) -> Iterator[Finding]:
    """The gateway's own folder, and who can read the key in it."""
    folder = next(path for path in (settings.data, *settings.data.parents) if path.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield fault(
            "data", f"{folder} cannot be written.", "Give yourself the right, or choose another: JACKFIELD_DATA."
        )
    elif settings.data.exists():
        yield ok("data", str(settings.data))
    else:
        yield ok("data", f"{settings.data} is made at the first start")
    key = settings.data / ADMIN_KEY_FILE
    is_configured = bool(os.environ.get("JACKFIELD_ADMIN_KEY") or settings.keys)
    if is_configured and not (settings.admin_key and key.exists()):
        yield ok("key", "as configured")
    elif not key.exists():
        yield ok("key", "is made at the first start")
    elif stat.S_IMODE(key.stat().st_mode) & 0o077:
        yield warning("key", f"Others on this machine can read {key}.", f"Run: chmod 600 {key}")
    else:
        yield ok("key", f"{key}, readable by its owner only")


def check_models(settings: Settings) -> Iterator[Finding]:
    """Whether every agent has something to think with. A model that is named and missing stops the start."""
    if settings.models:
        yield ok("models", ", ".join(settings.models))
        with suppress(JackfieldError):  # a script that cannot be read stops the start, which says so
            for name, why in mute_agents(settings):
                yield warning(f"agent {name}", why, SPEAK_SO)
        return
    for name in settings.agents:
        yield fault(f"agent {name}", "There is no model, so it cannot think.", "Add [models.default] to the config.")


def check_start(settings: Settings) -> list[Finding]:
    """What would stop the start though the file can be read: a script that is missing, an agent's own server."""
    with tempfile.TemporaryDirectory(prefix="jackfield-doctor-") as folder:
        try:
            Gateway(msgspec.structs.replace(settings, store_url="memory:", data=Path(folder)))
        except JackfieldError as error:
            return [fault("config", error.message)]
    return []


def check_tool_names(settings: Settings, offered: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """Names and patterns in the config that no tool fits now; `offered` are (name, source). A source may bring some."""
    servers_of_agents = {
        source_name(agent, server) for agent, said in settings.agents.items() for server in _own_servers(agent, said)
    }
    for name, key in settings.keys.items():
        patterns = [one for one in key.tools or () if one.partition(":")[0] not in servers_of_agents]
        yield from _unfit(f"auth.keys.{name}.tools", patterns, offered)
    for name, agent in settings.agents.items():
        own = _own_servers(name, agent)
        patterns = [pattern for pattern in agent.tools if pattern.partition(":")[0] not in own]
        yield from _unfit(f"agents.{name}.tools", patterns, offered)


def _own_servers(agent: str, settings: AgentSettings) -> Collection[str]:
    """The names of an agent's own servers; what is wrong with them stops the start."""
    try:
        return servers_of(Agent(agent, settings)).keys()
    except ConfigError:
        return ()


def _unfit(where: str, patterns: Iterable[str] | None, offered: Collection[tuple[str, str]]) -> Iterator[Finding]:
    for pattern in patterns or ():
        wanted = Patterns([pattern])
        if pattern == "*" or any(wanted.match(name, source=source, foreign=name) for name, source in offered):
            continue
        near = nearest(pattern, [name for name, _ in offered])
        yield warning(
            where, f"'{pattern}' fits no tool that is here now.{near}", "Correct it, unless its source is down."
        )


async def check_store(settings: Settings) -> Finding:
    """Whether calls could be kept there. Opens it for real, unless nothing was ever kept here."""
    kind = settings.store_url.partition(":")[0]
    if kind == "sqlite" and not settings.data.exists():
        return ok("store", "is made at the first start")
    try:
        with naming(settings.store_from):
            store = open_store(settings.store_url, folder=settings.folder, data=settings.data)
            try:
                await store.open()
                await store.now_ms()
            finally:
                await store.close()
    except (JackfieldError, OSError) as error:
        return fault("store", str(error), "Correct [store] url, or JACKFIELD_STORE.")
    return ok("store", f"{kind}: opens" if store.is_shared else f"{kind}: opens, and no gateway uses it now")


async def try_sources(settings: Settings) -> list[Finding]:
    """Bring every source up in a gateway that keeps nothing, and see how each is after some seconds."""
    if not settings.sources and not settings.tools:
        return []
    with tempfile.TemporaryDirectory(prefix="jackfield-doctor-") as folder:
        trial = msgspec.structs.replace(settings, store_url="memory:", data=Path(folder))
        try:
            async with Gateway(trial) as gateway:
                await gateway.panel.settled(within=SOURCES_WITHIN)
                reports = [
                    SourceReport(
                        name=status.name,
                        kind=status.kind,
                        status=status.status.value,
                        error=status.error,
                        tools=status.tools,
                        faults=status.faults,
                        doing=status.doing,
                        stderr=status.last_words[-SAID_LINES:],
                    )
                    for status in gateway.panel.statuses()
                ]
                notices = [warning("names", notice.message) for notice in gateway.catalog.notices]
                offered = [(entry.name, entry.tool.source) for entry in gateway.catalog.view(ADMIN).entries]
        except JackfieldError as error:
            return [fault("sources", error.message)]
    names = check_tool_names(settings, offered)
    return [*(finding for report in reports for finding in check_source(report)), *notices, *names]


def check_source(report: SourceReport) -> Iterator[Finding]:
    """One source as it came up, here or in the running gateway."""
    subject = f"source {report.name}"
    if report.status in ("up", "faulty"):
        if report.tools or report.name not in RESERVED_SOURCES:
            yield ok(subject, f"{report.kind}, {counted(report.tools, 'tool')}")
    elif report.status == "down":
        said = f"{report.error or 'It is down.'}{_last_words(report)}"
        yield fault(subject, said, f"Correct [sources.{report.name}], or what it points to.")
    else:
        doing = f" {report.doing}" if report.doing else ""
        said = f"It did not come up within {SOURCES_WITHIN:g} s.{doing}{_last_words(report)}"
        yield fault(subject, said, "See whether what it points to answers.")
    for part in report.faults:
        yield fault(subject, part)


def _last_words(report: SourceReport) -> str:
    """What its process said at last: the cause is the last line, as a rule."""
    said = " / ".join(line.strip() for line in report.stderr[-SAID_LINES:] if line.strip())
    return f" It said: {said}" if said else ""


def check_running(readiness: Readiness, url: str) -> Iterator[Finding]:
    """The gateway that runs for this config, and its sources as they are."""
    if readiness.is_ready:
        yield ok("gateway", f"Jackfield {readiness.version} runs at {url} and is ready")
    else:
        yield fault("gateway", f"It runs at {url} but is not ready (store: {readiness.store}).", "See its log.")
    for report in readiness.sources:
        yield from check_source(report)
    for notice in readiness.notices:
        yield warning("names", notice.message)


def check_port(settings: Settings) -> Finding:
    """Whether a gateway could listen where the config says."""
    host, port = settings.server.host, settings.server.port
    with suppress(OSError), socket.create_connection((_reachable(host), port), timeout=1):
        return fault(
            "port",
            f"Something else answers at {host}:{port}, or a gateway with another key.",
            "Stop it, or choose another port: [server] port, JACKFIELD_PORT.",
        )
    return ok("port", f"{host}:{port} is free; no gateway runs there")


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104 - read, not bound
