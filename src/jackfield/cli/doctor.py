"""`jackfield doctor`: check everything a gateway needs and say how to fix what is wrong."""

import logging
import os
import shutil
import socket
import stat
import sys
import tempfile
from argparse import Namespace
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec
from msgspec import Struct, field

from jackfield.agents.types import Agent, servers_of, source_name
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.globs import Patterns
from jackfield.catalog.groups import Groups
from jackfield.cli.in_process import SOURCES_TIMEOUT
from jackfield.cli.options import JSON, argument, command
from jackfield.cli.output import escape, print_json, style
from jackfield.cli.sources import FAILED_AT
from jackfield.cli.target import accepts, is_found_without_config, local_key, local_url
from jackfield.errors import ConfigError, Forbidden, JackfieldError, Unavailable
from jackfield.gateway.building import SPEAK_SO, mute_agents
from jackfield.gateway.gateway import Gateway
from jackfield.identity.jwks import Issuer
from jackfield.identity.keys import ADMIN, ADMIN_KEY_FILE
from jackfield.identity.oidc import OidcProvider
from jackfield.identity.vault import Vault
from jackfield.model.text import counted, nearest
from jackfield.outgoing import Outgoing
from jackfield.sdk import Client, ConfigReport, Readiness, SourceReport
from jackfield.settings import RESERVED_SOURCES, Settings, load_local, load_settings
from jackfield.settings.types import AgentSettings, SandboxSettings
from jackfield.store import Store, naming, open_store
from jackfield.workers.sandbox.kinds import SandboxUnavailable
from jackfield.workers.sandbox.sandboxes import Sandboxes
from jackfield.workers.supervisor import Supervisor

OLDEST_PYTHON = (3, 11)
STDERR_LINES = 20
"""Lines of a failing source's stderr to show."""


class Level(Enum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    """It works, but needs attention."""
    FAULT = "fault"
    """It does not work."""


class Finding(Struct, frozen=True, kw_only=True):
    """One line of the report."""

    level: Level
    subject: str
    message: str = field(name="says")
    fix: str = field(default="", name="cure")
    detail: tuple[str, ...] = ()
    """What a source's process said last, or the traceback of a tool file."""


@command(
    "Check this machine, the config, the data folder, the store, every source and the running gateway.",
    argument("--config", metavar="FILE", help="the config, or its folder"),
    JSON,
    examples="""\
  jackfield doctor
  jackfield doctor --config demo/jackfield.toml --json""",
)
async def doctor(options: Namespace) -> int:
    logger = logging.getLogger("jackfield")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # what a failing source logs is in the findings
    try:
        findings = await examine(options.config)
    finally:
        logger.setLevel(before)
    faults = sum(finding.level is Level.FAULT for finding in findings)
    if options.json:
        print_json({"healthy": not faults, "findings": findings})
    else:
        for finding in findings:
            print(finding_line(finding))
        print(f"\n{counted(faults, 'fault')}." if faults else "\nNo faults.")
    return 1 if faults else 0


async def examine(config: str | None) -> list[Finding]:
    """Run every check that applies."""
    findings = [check_python(), *check_machine(), await check_sandbox()]
    try:
        settings = load_settings(config)
    except ConfigError as error:
        return [*findings, fault("config", error.message), *await _check_with_last_config(config)]
    findings += [describe_config(settings), *check_data(settings), *check_models(settings)]
    findings += await check_provider(settings)
    findings += await check_issuer(settings)
    start_faults = check_start(settings)
    findings += start_faults
    local = load_local(config)
    url, key = local_url(local), local_key(local)
    if await accepts(url, key):
        return [*findings, ok("store", "in use by the running gateway"), *await _check_gateway(settings, url, key)]
    sources = [] if start_faults else await try_sources(settings)
    return [*findings, *await check_store(settings), *sources, check_port(settings)]


async def _check_with_last_config(config: str | None) -> list[Finding]:
    """A gateway that runs on, with the config as it was before it had a fault."""
    try:
        local = load_local(config)
    except ConfigError:
        return []
    url, key = local_url(local), local_key(local)
    if not is_found_without_config(local) or not await accepts(url, key):
        return []
    async with Client(url, key) as client:
        return list(check_running(await client.ready(), url))


async def _check_gateway(settings: Settings, url: str, key: str | None) -> list[Finding]:
    async with Client(url, key) as client:
        findings = list(check_running(await client.ready(), url, configured=_configured(settings)))
        offered = [(tool.name, tool.source) for tool in await client.tools.list()]
        offered += [(prompt.name, prompt.source) for prompt in await client.prompts.list()]
        offered += [(one.uri, one.source) for one in await client.resources.list()]
        offered += [(one.uri_template, one.source) for one in await client.resources.templates()]
        try:
            vault = await client.vault.status()
            findings.append(describe_vault(vault.key, entries=vault.entries, old=vault.old))
        except Forbidden:
            findings.append(ok("vault", "in use by the running gateway; an admin key is told more"))
        return [*findings, *check_tool_names(settings, offered)]


def finding_line(finding: Finding) -> str:
    color = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}[finding.level]
    fix = f" {escape(finding.fix)}" if finding.fix else ""
    level = style(finding.level.value.ljust(7), color)
    below = [style(escape(line), "dim") for line in finding.detail]
    says = f"{level}  {style(finding.subject, 'bold')}: {escape(finding.message)}{fix}"
    return "\n           ".join([*says.splitlines(), *below])


def ok(subject: str, message: str) -> Finding:
    return Finding(level=Level.OK, subject=subject, message=message)


def warning(subject: str, message: str, fix: str = "") -> Finding:
    return Finding(level=Level.WARNING, subject=subject, message=message, fix=fix)


def fault(subject: str, message: str, fix: str = "", *, detail: tuple[str, ...] = ()) -> Finding:
    return Finding(level=Level.FAULT, subject=subject, message=message, fix=fix, detail=detail)


def check_python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < OLDEST_PYTHON:
        return fault("python", f"Python {found} is too old.", "Install Python 3.11 or newer.")
    return ok("python", f"Python {found} at {sys.executable}")


def check_machine() -> Iterator[Finding]:
    """Optional programs, and limitations of this system."""
    for program, use in (("uv", "tool files that declare dependencies"), ("npm", "building the console")):
        path = shutil.which(program) or shutil.which(program, path=Path(sys.executable).parent)
        yield ok(program, path) if path else ok(program, f"not found; needed only for {use}")
    if Supervisor().best_effort:
        yield warning(
            "processes",
            "On this system, child processes of a tool that leave its process group may survive it.",
            "Use Linux if that matters.",
        )


async def check_sandbox() -> Finding:
    """Which sandbox this machine supports."""
    supervisor = Supervisor()
    sandboxes = Sandboxes(supervisor, base=Path(), hidden=())
    try:
        kind = await sandboxes.choose(SandboxSettings())
    except SandboxUnavailable as missing:
        return warning("sandbox", missing.message)
    finally:
        await supervisor.close()
    return ok("sandbox", f"{kind}: works, for sandbox = true and [sessions]")


def describe_config(settings: Settings) -> Finding:
    if settings.path is None:
        return warning(
            "config",
            "No jackfield.toml here; a gateway would have no tools.",
            "Create a project with 'jackfield init'.",
        )
    contents = f"{counted(len(settings.sources), 'source')}, {counted(len(settings.tools), 'tool')}"
    return ok("config", f"{settings.path} ({contents})")


def check_data(settings: Settings) -> Iterator[Finding]:
    """The data folder, and the permissions of the admin key in it."""
    folder = next(path for path in (settings.data, *settings.data.parents) if path.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield fault(
            "data", f"{folder} is not writable.", "Change its permissions, or set JACKFIELD_DATA to another folder."
        )
    elif settings.data.exists():
        yield ok("data", str(settings.data))
    else:
        yield ok("data", f"{settings.data} is created at the first start")
    key = settings.data / ADMIN_KEY_FILE
    is_configured = bool(os.environ.get("JACKFIELD_ADMIN_KEY") or settings.keys)
    if is_configured and not (settings.admin_key and key.exists()):
        yield ok("key", "as configured")
    elif not key.exists():
        yield ok("key", "is created at the first start")
    elif stat.S_IMODE(key.stat().st_mode) & 0o077:
        yield warning("key", f"{key} is readable by other users.", f"Run: chmod 600 {key}")
    else:
        yield ok("key", f"{key}, readable only by its owner")


def check_models(settings: Settings) -> Iterator[Finding]:
    """Whether every agent has a model. A named model that is missing prevents the start."""
    if settings.models:
        yield ok("models", ", ".join(settings.models))
        with suppress(JackfieldError):  # reported by check_start
            for name, why in mute_agents(settings):
                yield warning(f"agent {name}", why, SPEAK_SO)
        return
    for name in settings.agents:
        yield fault(f"agent {name}", "It has no model.", "Add [models.default] to the config.")


def check_start(settings: Settings) -> list[Finding]:
    """What would prevent the start of a gateway with a valid config, such as a missing script."""
    with tempfile.TemporaryDirectory(prefix="jackfield-doctor-") as folder:
        try:
            Gateway(msgspec.structs.replace(settings, store_url="memory:", data=Path(folder)))
        except JackfieldError as error:
            return [fault("config", error.message)]
    return []


def check_tool_names(settings: Settings, offered: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """Names and patterns in the config that match nothing; `offered` are (name, source)."""
    servers_of_agents = {
        source_name(agent, server) for agent, own in settings.agents.items() for server in _own_servers(agent, own)
    }
    for name, key in settings.keys.items():
        patterns = [one for one in key.tools or () if one.partition(":")[0] not in servers_of_agents]
        yield from _unmatched(f"auth.keys.{name}.tools", patterns, offered)
    for name, group in settings.groups.items():
        yield from _unmatched(f"groups.{name}.tools", group.tools, offered)
    for name, agent in settings.agents.items():
        own = _own_servers(name, agent)
        patterns = [pattern for pattern in agent.tools if pattern.partition(":")[0] not in own]
        yield from _unmatched(f"agents.{name}.tools", patterns, offered)
    for where, verify in _verifiers(settings):
        if all(name != verify for name, _ in offered):
            near = nearest(verify, [name for name, _ in offered])
            yield warning(where, f"There is no tool '{verify}'.{near}", "Correct it, unless its source is down.")


def _verifiers(settings: Settings) -> Iterator[tuple[str, str]]:
    """The tools that are asked whether calls of others took effect, each with where the config names it."""
    for tool in settings.tools:
        if tool.metadata.verify is not None:
            yield f"tools.{tool.name}.metadata.verify", tool.metadata.verify
    for source in settings.sources:
        for name, override in source.tools.items():
            if "verify" in override.metadata:
                yield f"sources.{source.name}.tools.{name}.metadata.verify", str(override.metadata["verify"])


def _own_servers(agent: str, settings: AgentSettings) -> Collection[str]:
    """The names of an agent's own servers; errors in them are reported by `check_start`."""
    try:
        return servers_of(Agent(agent, settings)).keys()
    except ConfigError:
        return ()


def _unmatched(where: str, patterns: Iterable[str] | None, offered: Collection[tuple[str, str]]) -> Iterator[Finding]:
    for pattern in patterns or ():
        wanted = Patterns([pattern])
        if pattern == "*" or any(wanted.match(name, source=source, foreign=name) for name, source in offered):
            continue
        near = nearest(pattern, [name for name, _ in offered])
        yield warning(where, f"'{pattern}' matches no tool.{near}", "Correct it, unless its source is down.")


async def check_store(settings: Settings) -> list[Finding]:
    """Whether the store can be opened; one that does not exist yet is not created. It may have groups of keys."""
    kind = settings.store_url.partition(":")[0]
    groups = Groups.from_settings(settings)
    if kind == "sqlite" and not settings.data.exists():
        return [ok("store", "is created at the first start"), *check_groups(groups, settings)]
    try:
        with naming(settings.store_from):
            store = open_store(settings.store_url, folder=settings.folder, data=settings.data)
            try:
                await store.open()
                await store.now_ms()
                await groups.reload(store)
                vault = await check_vault(settings, store)
            finally:
                await store.close()
    except (JackfieldError, OSError) as error:
        return [fault("store", str(error), "Correct [store] url, or JACKFIELD_STORE.")]
    opens = ok("store", f"{kind}: opens" if store.is_shared else f"{kind}: opens, not in use by a gateway")
    return [opens, *vault, *check_groups(groups, settings)]


async def check_provider(settings: Settings) -> list[Finding]:
    """Whether people can sign in with the provider of `[auth.oidc]`, and then do something."""
    if settings.oidc is None:
        return []
    async with Outgoing(settings.outgoing.allow) as outgoing:
        found = await OidcProvider(settings.oidc, settings.roles, outgoing=outgoing, url=settings.url).fault()
    if found is not None:
        return [fault("auth.oidc", found, "Write the issuer as the provider does, and check that it can be reached.")]
    if not settings.roles:
        return [warning("auth.oidc", "people can sign in, but none has a role.", "Add [auth.roles.NAME].")]
    return [ok("auth.oidc", f"{settings.oidc.issuer}; {counted(len(settings.roles), 'role')}")]


async def check_issuer(settings: Settings) -> list[Finding]:
    """Whether the tokens of `[auth.oauth] mode = "external"` can be checked."""
    oauth = settings.oauth
    if oauth.mode != "external" or oauth.issuer is None:
        return []
    async with Outgoing(settings.outgoing.allow) as outgoing:
        issuer = Issuer(oauth.issuer, outgoing=outgoing, jwks_url=oauth.jwks_url)
        try:
            if oauth.jwks_url is None:
                await issuer.metadata()
        except Unavailable as refusal:
            said = " ".join(issuer.faults) or refusal.message
            return [
                fault("auth.oauth", f"{oauth.issuer} cannot be used: {said}", "Write the issuer as it does itself.")
            ]
    return [ok("auth.oauth", f"tokens of {oauth.issuer}")]


async def check_vault(settings: Settings, store: Store) -> list[Finding]:
    """Whether the vault's key is there and is the right one."""
    needed = any(source.auth != "none" for source in settings.sources)
    try:
        found = await Vault(settings, store, is_needed=needed).examine()
    except ConfigError as error:
        return [fault("vault", error.message)]
    return [describe_vault(found.origin, entries=found.sealed, old=found.old)]


def describe_vault(origin: str | None, *, entries: int, old: int) -> Finding:
    if origin is None or origin == "none":
        return ok("vault", "not needed: no source has auth")
    key = "in JACKFIELD_VAULT_KEY" if origin == "environment" else f"in a {origin}" if origin == "file" else "in memory"
    sealed = f"{counted(entries, 'secret')}, AES-256-GCM, key {key}"
    if old:
        return warning("vault", f"{sealed}; {old:,} are sealed with an old key.", "Run: jackfield vault rotate")
    return ok("vault", sealed)


def check_groups(groups: Groups, settings: Settings) -> list[Finding]:
    """Keys that are limited to a group that there is not."""
    try:
        groups.check_keys(str(settings.path))
    except ConfigError as error:
        return [fault("config", error.message)]
    return []


async def try_sources(settings: Settings) -> list[Finding]:
    """Start every source in a temporary gateway and report its status."""
    if not settings.sources and not settings.tools:
        return []
    with tempfile.TemporaryDirectory(prefix="jackfield-doctor-") as folder:
        keys = {name: msgspec.structs.replace(key, groups=None) for name, key in settings.keys.items()}
        trial = msgspec.structs.replace(settings, store_url="memory:", data=Path(folder), keys=keys)
        try:
            async with Gateway(trial) as gateway:
                await gateway.source_registry.settled(within=SOURCES_TIMEOUT)
                reports = [
                    SourceReport(
                        name=status.name,
                        kind=status.kind,
                        status=status.status.value,
                        error=status.error,
                        tools=status.tools,
                        resources=status.resources,
                        templates=status.templates,
                        prompts=status.prompts,
                        faults=status.faults,
                        doing=status.doing,
                        stderr=status.last_words[-STDERR_LINES:],
                    )
                    for status in gateway.source_registry.statuses()
                ]
                notices = [warning("names", notice.message) for notice in gateway.catalog.notices]
                offered = list(_offered(gateway.catalog))
        except JackfieldError as error:
            return [fault("sources", error.message)]
    names = check_tool_names(settings, offered)
    return [
        *(finding for report in reports for finding in check_source(report, _configured(settings))),
        *notices,
        *names,
    ]


def _offered(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """The names of tools and prompts, URIs and templates, each with its source."""
    for entry in (*catalog.view(ADMIN).entries, *catalog.prompts(ADMIN).entries):
        yield entry.name, entry.tool.source
    seen = catalog.resources(ADMIN)
    yield from ((one.uri, one.source) for one in seen.resources)
    yield from ((one.template, one.source) for one in seen.templates)


def _configured(settings: Settings) -> frozenset[str]:
    return frozenset(source.name for source in settings.sources)


def check_source(report: SourceReport, configured: Container[str] = ()) -> Iterator[Finding]:
    """One source of a temporary or running gateway."""
    subject = f"source {report.name}"
    detail = report.stderr[-STDERR_LINES:]
    if report.status in ("up", "faulty"):
        if report.tools or report.name not in RESERVED_SOURCES:
            counts = {"resource": report.resources, "template": report.templates, "prompt": report.prompts}
            more = "".join(f", {counted(count, what)}" for what, count in counts.items() if count)
            yield ok(subject, f"{report.kind}, {counted(report.tools, 'tool')}{more}")
    elif report.status == "login_needed":
        yield warning(subject, report.error or "It needs a login.")
    elif report.status == "down":
        where = f"[sources.{report.name}]" if report.name in configured else f"it ('jackfield sources {report.name}')"
        if detail and FAILED_AT.match(detail[-1]):
            detail = detail[-1:]  # those before it failed alike, or for a reason that is over
        yield fault(subject, report.error or "It is down.", f"Correct {where} or its target.", detail=detail)
    else:
        doing = f" {report.doing}" if report.doing else ""
        text = f"It did not start within {SOURCES_TIMEOUT:g} s.{doing}"
        yield fault(subject, text, "Check that its target responds.", detail=detail)
    for number, part in enumerate(report.faults, start=1):
        is_last = report.status == "faulty" and number == len(report.faults)
        yield fault(subject, part, detail=detail if is_last else ())


def check_running(readiness: Readiness, url: str, *, configured: Container[str] = ()) -> Iterator[Finding]:
    """The running gateway and its sources."""
    if readiness.is_ready:
        yield ok("gateway", f"Jackfield {readiness.version} is running at {url} and ready")
    else:
        yield fault("gateway", f"It is running at {url} but not ready (store: {readiness.store}).", "See its log.")
    if readiness.config is not None:
        yield from check_reload(readiness.config)
    for report in readiness.sources:
        yield from check_source(report, configured)
    for notice in readiness.notices:
        yield warning("names", notice.message)


def check_reload(config: ConfigReport) -> Iterator[Finding]:
    """Whether the running gateway, and others of its database, have the config as it is in the file."""
    if config.error is not None:
        yield fault("reload", f"The config in force is that of {config.read_at}: {config.error}", "Correct the file.")
    if config.restart_needed:
        names = ", ".join(config.restart_needed)
        yield warning("reload", f"In force only after a restart: {names}.", "Restart the gateway.")
    for other in config.differs:
        tables = ", ".join(other.sections)
        yield warning(
            "reload",
            f"The config of gateway {other.gateway} differs from this one's in {tables}.",
            "Make the files alike, then reload or restart the gateway that is behind.",
        )


def check_port(settings: Settings) -> Finding:
    """Whether the gateway's port is free."""
    host, port = settings.server.host, settings.server.port
    with suppress(OSError), socket.create_connection((_reachable(host), port), timeout=1):
        return fault(
            "port",
            f"{host}:{port} is in use by another program, or by a gateway with another key.",
            "Stop it, or change the port: [server] port or JACKFIELD_PORT.",
        )
    return ok("port", f"{host}:{port} is free; the gateway is not running")


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104 - read, not bound
