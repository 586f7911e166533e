"""Reads the config anew while the gateway runs, and applies it whole or not at all.

Everything that can fail happens first, on the side: reading, checking, building what is new. Then `_apply` swaps what
each service knows. What did not change is not touched. Above: `config_api.py`, SIGHUP, the watch on the file. Below:
`settings/changes.py`, and the `apply` of each service.
"""

import asyncio
import glob
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from jackfield.audit.types import Entry
from jackfield.errors import ConfigError, ConfigInvalid, Conflict, JackfieldError, NotReady
from jackfield.gateway.building import configured_agents, identity_warnings
from jackfield.gateway.key_names import KeyNames
from jackfield.hooks.service import PreparedHooks
from jackfield.identity.keys import ConfiguredKeys, configured_keys
from jackfield.identity.oauth.front import external_issuer
from jackfield.llm.models import DescribedModel
from jackfield.outgoing.guard import parse_allowed
from jackfield.settings import Changes, Secrets, Settings, changes_between, in_force, load_again
from jackfield.settings.digests import differing
from jackfield.settings.tools import SourceSettings
from jackfield.sources.threads import Threads
from jackfield.sources.watching import Globs, Watch
from jackfield.store import gateways as gateway_tx

if TYPE_CHECKING:
    from jackfield.gateway.gateway import Gateway

log = logging.getLogger("jackfield")

SECRETS_FILE = "secrets.toml"
_OF_TOOLS = ("sources.", "tools.", "categories.")


class Prepared(Struct, frozen=True, kw_only=True, eq=False):
    """A config that was read and checked, with all that has to be built for it."""

    settings: Settings
    changes: Changes
    secrets: Secrets
    keys: ConfiguredKeys
    models: dict[str, DescribedModel]
    remade: frozenset[str]
    """The sources that are new, or connected in another way."""
    hooks: PreparedHooks


class ConfigReloader:
    """The config in force, and how it is replaced."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[Changes]] = set()
        self._listeners: list[Callable[[Settings], None]] = []
        self._watching: asyncio.Task[None] | None = None
        self.error: str | None = None
        """Why the file that was read last could not be used; None: it is in force."""
        self.restart_needed: tuple[str, ...] = ()
        """What the file says otherwise than what is in force, since that takes a restart."""
        self.read_at = time.time_ns() // 1_000_000
        """When the config in force was read."""

        self.differs: dict[str, tuple[str, ...]] = {}
        """By gateway of this database that lives: the tables of the config in which it differs from this one."""

    def on_applied(self, listener: Callable[[Settings], None]) -> None:
        """From now on, `listener` is given the settings after each reload. It must not fail."""
        self._listeners.append(listener)

    def request(self, cause: str) -> None:
        """Reload soon, and say in the log what came of it."""
        self._begin(cause, actor=None).add_done_callback(_log_refusal)

    async def reload(self, cause: str, *, actor: str | None = None) -> Changes:
        """Read the config anew and apply it. Raises `ConfigInvalid`, and `NotReady` while the gateway starts or stops.

        Whoever asked may go away: what was begun is finished.
        """
        return await asyncio.shield(self._begin(cause, actor=actor))

    async def close(self) -> None:
        """See a reload that runs to its end; there is no further one."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._running:
            await asyncio.wait(self._running)

    def _begin(self, cause: str, *, actor: str | None) -> "asyncio.Task[Changes]":
        task = asyncio.create_task(self._reload(cause, actor=actor), name="reload")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _reload(self, cause: str, *, actor: str | None) -> Changes:
        async with self._one_at_a_time:
            if not self._gateway.availability.ready:
                raise NotReady("The gateway is starting or stopping, so its config is not read now. Try again later.")
            try:
                prepared = await self._prepare()
                try:
                    await self._record(prepared, actor=actor)
                    await self._apply(prepared)
                except BaseException:
                    await self._gateway.hooks.drop(prepared.hooks)
                    raise
            except ConfigError as fault:
                self.error = fault.message
                log.error("The config was read anew (%s), and nothing was changed. %s", cause, fault.message)  # noqa: TRY400 - the sentence says it all
                raise ConfigInvalid(fault.message) from None
            self.error = None
            self.restart_needed = prepared.changes.restart_needed
            self.read_at = time.time_ns() // 1_000_000
            log.info("The config was read anew (%s). %s", cause, _sentence(prepared.changes))
            for warning in identity_warnings(prepared.settings):
                log.warning("%s", warning)
            await self.announce()
            return prepared.changes

    async def _record(self, prepared: Prepared, *, actor: str | None) -> None:
        """Put the reload on record before anything is different: no change goes without an entry."""
        gateway, changes = self._gateway, prepared.changes
        if actor is None and changes == Changes():
            return  # the file was touched, or looked at, and nobody did anything
        entry = Entry(
            actor=actor or gateway.audit.actor,
            action="config.reloaded",
            subject=prepared.settings.path.name if prepared.settings.path else "config",
            after=msgspec.to_builtins(changes),
        )
        await gateway.store.write(partial(gateway.audit.record, entry))

    async def announce(self) -> None:
        """Let the other gateways of the database know which config is in force here."""
        gateway = self._gateway
        await gateway.store.write(partial(gateway_tx.put_config, gateway.id, gateway.settings.digests))
        await self.compare()

    async def compare(self) -> None:
        """Find out whether another gateway that lives has another config, and say so."""
        gateway = self._gateway
        store, ours = gateway.store, gateway.settings.digests
        others = await store.read(partial(gateway_tx.other_configs, gateway.id)) if store.is_shared else {}
        found = {other: tables for other, theirs in others.items() if (tables := differing(ours, theirs))}
        for other, tables in found.items():
            if self.differs.get(other) != tables:
                log.warning(
                    "The config of gateway %s differs from this one's in %s. Reload or restart the one that is behind.",
                    other,
                    ", ".join(tables),
                )
        self.differs = found

    async def _prepare(self) -> Prepared:
        """Do everything that can fail, and change nothing. Raises `ConfigError`."""
        gateway = self._gateway
        old = gateway.settings
        read = await asyncio.to_thread(load_again, old)
        changes = changes_between(old, read)
        new = in_force(old, read)
        for entry in read.outgoing.allow:
            parse_allowed(entry)
        external_issuer(read)
        configured_agents(new)
        gateway.stored_tools.check(new)
        groups = gateway.groups.prepared(new)
        await KeyNames(new, groups=groups, agents=gateway.agents, store=gateway.store).check_config()
        keys = configured_keys(new, groups=gateway.groups)
        models = gateway.models.prepared(new.models)
        remade = _to_connect(old, new, changes)
        if remade:
            self._check_sources(new, remade)
        if any(source.auth != "none" for source in new.sources):
            await self._require_vault()
        hooks = await gateway.hooks.prepared(new.hooks, where=str(new.path))  # last, since it starts processes
        if gateway.hooks.differ(hooks):  # also where only a file of theirs does
            changes = msgspec.structs.replace(changes, changed=tuple(sorted({*changes.changed, "hooks"})))
        return Prepared(
            settings=msgspec.structs.replace(new, secrets=old.secrets),
            changes=changes,
            secrets=read.secrets,
            keys=keys,
            models=models,
            remade=remade,
            hooks=hooks,
        )

    def _check_sources(self, new: Settings, remade: frozenset[str]) -> None:
        try:
            self._gateway.live_sources.check(new.sources, remade=remade)
        except ConfigError as fault:
            raise ConfigError(f"{new.path}: {fault.message}") from None

    async def _require_vault(self) -> None:
        try:
            await self._gateway.vault.require()
        except Conflict as fault:
            raise ConfigError(fault.message) from None

    async def _apply(self, prepared: Prepared) -> None:
        """Swap what every service knows. Only the first step can fail: it writes, and nothing is changed by then."""
        gateway, new, changes = self._gateway, prepared.settings, prepared.changes
        before = gateway.models.configured
        if changes.names("agents"):
            # An agent may name a model that is new, or leave one that goes.
            gateway.models.apply({**before, **prepared.models})
            try:
                await gateway.agents.apply(new.agents)
            except BaseException:
                gateway.models.apply(before)
                raise
        gateway.hooks.apply(prepared.hooks)
        gateway.settings.secrets.take(prepared.secrets)
        gateway.settings = new
        gateway.models.apply(prepared.models)
        gateway.groups.apply(new)
        gone = gateway.keyring.apply(prepared.keys)
        gateway.principals.people.apply(new.roles)
        gateway.oauth.apply(new.roles)
        if gateway.oidc is not None:
            gateway.oidc.apply(new.roles)
        gateway.key_names.apply(new)
        gateway.answers.four_eyes = new.approval.four_eyes
        gateway.engine.apply(new.responses)
        gateway.tool_search.above = new.mcp.models_search_above
        gateway.sessions.apply(new)
        for listener in self._listeners:
            listener(new)
        self.follow_file()
        if changes.names("notify"):
            await gateway.notifications.apply(new.notify)
        if any(name.startswith(_OF_TOOLS) for name in (*changes.added, *changes.removed, *changes.changed)):
            await self._apply_tools(prepared)
        await gateway.run_time_sources.apply(new)
        gateway.run_time_models.apply(new)
        for name in gone:
            await gateway.pipeline.cancel_waiting(name)

    async def _apply_tools(self, prepared: Prepared) -> None:
        """The sources and what is said about their tools at the same time: no tool is shown by the rules of another."""
        gateway, new = self._gateway, prepared.settings
        gateway.catalog.apply(new.categories)
        await gateway.live_sources.configure(new.sources, remade=prepared.remade)
        await gateway.stored_tools.apply(new)
        await gateway.take_listings()

    def follow_file(self) -> None:
        """Watch the config and the secrets file, where `[server] watch` says so, and no longer where it does not."""
        settings = self._gateway.settings
        if settings.server.watch and self._watching is None and settings.path is not None:
            self._watching = asyncio.create_task(self._watch(settings), name="config file")
        elif not settings.server.watch and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self, settings: Settings) -> None:
        paths = (settings.path, settings.data / SECRETS_FILE)
        globs = Globs(tuple(glob.escape(str(path)) for path in paths), folder=settings.folder)
        changed, threads = asyncio.Event(), Threads()
        watch = Watch(globs, threads=threads, changed=changed.set)
        watch.seen(await asyncio.to_thread(globs.stamp))
        watch.open()
        changed.set()  # it may have changed since it was read
        try:
            while True:
                await changed.wait()
                changed.clear()
                self.request("the file changed")
        finally:
            await watch.close()
            threads.close()


def _to_connect(old: Settings, new: Settings, changes: Changes) -> frozenset[str]:
    """The sources that are new, or are reached, started or logged in at in another way than before."""
    named = changes.names("sources")
    before = {source.name: _connection(source) for source in old.sources}
    secret = {source.name for source in new.sources if source.options.get("secrets")}
    return frozenset(named.added) | {
        source.name
        for source in new.sources
        if source.name in named.changed and (source.name in secret or before[source.name] != _connection(source))
    }


def _connection(source: SourceSettings) -> tuple[object, ...]:
    """How a source is reached. The rest is the catalog's: names, overrides, what is held and how much may be read."""
    return source.kind, source.options, source.auth, source.oauth


def _sentence(changes: Changes) -> str:
    parts = [
        f"{said} {', '.join(names)}."
        for said, names in (("Added", changes.added), ("Removed", changes.removed), ("Changed", changes.changed))
        if names
    ]
    if changes.restart_needed:
        parts.append(f"In force only after a restart: {', '.join(changes.restart_needed)}.")
    return " ".join(parts) or "Nothing is different."


def _log_refusal(task: "asyncio.Task[Changes]") -> None:
    fault = None if task.cancelled() else task.exception()
    if fault is None or isinstance(fault, ConfigInvalid):  # which was logged
        return
    if isinstance(fault, JackfieldError):
        log.warning("The config was not read anew: %s", fault)
    else:
        log.error("The config could not be applied.", exc_info=fault)
