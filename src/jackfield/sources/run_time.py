"""Sources that administrators make while the gateway runs, and the secrets for them, at every gateway of the database.

Above: `catalog/sources_api.py` and `secrets_api.py`. Below: rows of the store, read as a whole whenever a gateway has
written; the vault for secrets; `LiveSources`, which has this gateway run what is on record. A source that cannot run
here is kept all the same, down with the sentence that says why.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.errors import BadRequest, Conflict, JackfieldError, NotFound
from jackfield.identity.vault import Vault
from jackfield.model.text import nearest
from jackfield.settings import Settings
from jackfield.settings.origins import table_for_show
from jackfield.settings.tools import SourceSettings
from jackfield.settings.variables import merged
from jackfield.sources import run_time_transactions as tx
from jackfield.sources.base import Source, SourceContext
from jackfield.sources.kinds import make_configured
from jackfield.sources.live import LiveSources
from jackfield.sources.run_time_settings import Described, SettingsReader
from jackfield.sources.run_time_transactions import RESTART_TOPIC, SECRET, SOURCES_TOPIC, StoredSecret, StoredSource
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import sentence_of
from jackfield.sources.trial import UnusableSource
from jackfield.store import Store

log = logging.getLogger("jackfield.sources")

LOOK_SECONDS = 5.0
"""How often the store is read although nobody said that something was written."""
MOST_SOURCES = 1_000
_WHERE = ("kind", "url", "file", "command", "args")
"""The settings that say which server it is."""
SETTLE_SECONDS = 2.0
"""How long a request waits for the source that it made or changed."""


class RunTimeSources:
    """The sources and secrets of the store, kept running by this gateway."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        vault: Vault,
        audit: AuditLog,
        live: LiveSources,
        registry: SourceRegistry,
        context: SourceContext,
    ) -> None:
        self._settings = settings
        self._store = store
        self._vault = vault
        self._audit = audit
        self._live = live
        self._registry = registry
        self._context = msgspec.structs.replace(context, secret=self.value)
        self._reader = SettingsReader(settings, value=self.value, why_unset=self.why_unset)
        self._sources: dict[str, StoredSource] = {}
        self._secrets: dict[str, StoredSecret] = {}
        self._values: dict[str, str] = {}
        self._unreadable: dict[str, str] = {}
        """Secrets that this gateway's vault cannot unseal, with the reason."""
        self._running: dict[str, Described] = {}
        self._shadowed: set[str] = set()
        self._reading = asyncio.Lock()
        self.on_secrets: Callable[[], None] = lambda: None
        """Called when secrets may have changed."""
        store.bus.watch(RESTART_TOPIC, self._restart_asked)

    @property
    def all(self) -> Mapping[str, StoredSource]:
        """Those on record, by name."""
        return self._sources

    def is_configured(self, name: str) -> bool:
        return self._live.book.is_configured(name)

    async def settled(self, name: str) -> None:
        """Wait until a source has come up or failed, but not for long."""
        await self._registry.settled(within=SETTLE_SECONDS, names=(name,))

    @property
    def secrets(self) -> Mapping[str, StoredSecret]:
        return self._secrets

    def settings_of(self, name: str) -> dict[str, Any] | None:
        """The settings of a stored source as they may be shown; None: there is none of that name."""
        stored = self._sources.get(name)
        return None if stored is None else table_for_show(_raw(stored))

    def note_on(self, name: str) -> str | None:
        """What somebody should know who looks at the source of that name, besides how it is."""
        if name not in self._sources or not self._live.book.is_configured(name):
            return None
        return (
            f"A source '{name}' was also made over the API. That of the config counts, and the other does not run. "
            f"Remove it with DELETE /api/v1/sources/{name}, or rename [sources.{name}]."
        )

    async def create(self, name: str, raw: Mapping[str, Any], *, created_by: str) -> None:
        """Keep a new source and have it come up."""
        await self.reload()
        self._reader.check(name, raw, make=self._make)
        if self._live.book.is_configured(name):
            raise Conflict(f"The source '{name}' is in the config. Change it there, or choose another name.")
        if name in self._sources:
            raise Conflict(f"There is a source '{name}' already. Change it with PATCH /api/v1/sources/{name}.")
        if self._registry.get(name) is not None:
            raise Conflict(f"There is a source '{name}' already, which is not the API's. Choose another name.")
        if len(self._sources) >= MOST_SOURCES:
            raise Conflict(f"There are {MOST_SOURCES:,} sources already. Remove some.")
        await self._require_vault(raw)
        script = partial(tx.add_source, name, _text(raw), created_by=created_by)
        if await self._store.write(self._audit.noting(script, partial(_created, created_by))) is None:
            raise Conflict(f"There is a source '{name}' already. Change it with PATCH /api/v1/sources/{name}.")
        await self.reload()

    async def change(self, name: str, patch: Mapping[str, Any], *, by: str) -> None:
        """Change some keys of a source, as a JSON merge patch does; null removes one."""
        await self.reload()  # it may have been made or changed at another gateway a moment ago
        stored = self._require_stored(name)
        raw = merged(_raw(stored), patch)
        self._reader.check(name, raw, make=self._make)
        await self._require_vault(raw)
        is_elsewhere = any(raw.get(key) != _raw(stored).get(key) for key in _WHERE)
        script = partial(tx.change_source, name, _text(raw), before=stored.settings, is_elsewhere=is_elsewhere)
        if await self._store.write(self._audit.noting(script, partial(_changed, by, stored))) is None:
            raise Conflict(f"The source '{name}' was changed by somebody else meanwhile. Look at it, and try again.")
        await self.reload()

    async def remove(self, name: str, *, by: str) -> None:
        """Forget a source. Also one that does not run, because the config has one of its name."""
        await self.reload()
        if name not in self._sources:
            self._require_stored(name)
        await self._store.write(self._audit.noting(partial(tx.delete_source, name), partial(_removed, by)))
        await self.reload()

    async def restart(self, name: str, *, by: str) -> None:
        """Have a source, whoever described it, closed and opened again at every gateway."""
        await self.reload()
        if self._registry.get(name) is None:
            raise self._unknown(name)
        entry = Entry(actor=by, action="source.restarted", subject=name)
        await self._store.write(self._audit.noting(partial(tx.restart_source, name), lambda _: entry))

    def made_for_test(self, name: str, raw: Mapping[str, Any]) -> tuple[Source, SourceSettings]:
        """A source that is not kept. Raises `Refused`, also where it cannot run here."""
        self._reader.check(name, raw, make=self._make)
        described = self._reader.described(name, raw)
        if described.fault is not None:
            raise BadRequest(described.fault)
        return self._make(described.settings), described.settings

    def made_again(self, name: str) -> tuple[Source, SourceSettings]:
        """A second one of a source there is, to try it."""
        settings = self._live.book.get(name)
        if settings is None:
            raise self._unknown(name)
        described = self._running.get(name) if name in self._live.book.stored else None
        if described is not None and described.fault is not None:
            raise BadRequest(described.fault)
        if described is None:
            return self._live.make(settings), settings
        return self._make(settings), settings

    async def set_secret(self, name: str, value: str, *, updated_by: str) -> StoredSecret:
        """Keep a secret. Sources that use it begin anew."""
        await self._vault.require()
        row = self._vault.row(SECRET, name, value.encode())
        self._settings.secrets.add(value)
        entry = Entry(actor=updated_by, action="secret.set", subject=name)
        script = partial(tx.put_secret, row, updated_by=updated_by)
        kept = await self._store.write(self._audit.noting(script, lambda _: entry))
        await self.reload()
        return kept

    async def remove_secret(self, name: str, *, by: str) -> None:
        """Forget a secret. Sources that use it go down."""
        entry = Entry(actor=by, action="secret.removed", subject=name)
        script = self._audit.noting(partial(tx.delete_secret, name), lambda found: entry if found else None)
        if not await self._store.write(script):
            hint = nearest(name[:100], sorted(self._secrets))
            raise NotFound(f"There is no secret '{name[:100]}'.{hint} 'jackfield secrets list' lists them.")
        await self.reload()

    async def reload(self) -> None:
        """Read everything anew and run it, one reading after another."""
        async with self._reading:
            sources, secrets = await self._store.read(tx.sources_and_secrets)
            await self._take_secrets({secret.name: secret for secret in secrets})
            self._sources = {source.name: source for source in sources}
            if any(self._needs_vault(_raw(source)) for source in sources):
                with suppress(Conflict):
                    await self._vault.require()
            await self._run()

    async def apply(self, settings: Settings) -> None:
        """Take another config: what such sources may do and name, and which names are taken."""
        async with self._reading:
            self._settings = settings
            self._reader.apply(settings)
            await self._run()

    async def follow(self) -> None:
        """Read whenever a gateway of this store has written, and now and then; a store that fails is asked again."""
        with self._store.bus.listen(SOURCES_TOPIC) as written:
            written.set()  # what was written before this gateway listened
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await written.wait()
                written.clear()
                try:
                    await self.reload()
                except Exception:
                    log.exception("the sources made at run time could not be read; it is tried again")

    async def _take_secrets(self, secrets: dict[str, StoredSecret]) -> None:
        values: dict[str, str] = {}
        unreadable: dict[str, str] = {}
        for name, secret in secrets.items():
            known = self._secrets.get(name)
            if known is not None and known.version == secret.version and name in self._values:
                values[name] = self._values[name]
                continue
            try:
                await self._vault.require()
                values[name] = self._vault.unseal(SECRET, name, secret.sealed or "").decode()
                self._settings.secrets.add(values[name])
            except JackfieldError as fault:
                unreadable[name] = fault.message
                if name not in self._unreadable:
                    log.error("the secret %s cannot be read: %s", name, fault)  # noqa: TRY400 - the sentence says it all
        is_other = (values, unreadable) != (self._values, self._unreadable)
        self._secrets, self._values, self._unreadable = secrets, values, unreadable
        if is_other:
            self.on_secrets()

    async def _run(self) -> None:
        """Have what is on record run here, and nothing else. What did not change is not touched."""
        book = self._live.book
        for name in [name for name in self._running if name not in self._sources]:
            del self._running[name]
            self._context.kept.forget(name)
            if name in book.stored:
                await self._live.remove(name)
        for name, source in self._sources.items():
            raw = _raw(source)
            if book.is_configured(name):
                self._running.pop(name, None)
                if name not in self._shadowed:
                    log.warning("%s", self.note_on(name))
                self._shadowed.add(name)
                continue
            self._shadowed.discard(name)
            described = self._reader.described(name, raw)
            if name in book.stored and self._running.get(name) == described:
                continue
            await self._run_one(described)

    async def _run_one(self, described: Described) -> None:
        settings = described.settings
        self._context.kept.forget(settings.name)
        try:
            await self._live.replace(settings, make=partial(self._made, described), is_stored=True)
        except Exception as fault:  # noqa: BLE001 - a border: whatever a kind raises is the fault of this source alone
            described = Described(
                SourceSettings(name=settings.name, kind=settings.kind, options={}), sentence_of(fault)
            )
            await self._live.replace(described.settings, make=partial(self._made, described), is_stored=True)
        self._running[settings.name] = described

    def _made(self, described: Described) -> Source:
        settings = described.settings
        if described.fault is not None:
            return cast("Source", UnusableSource(settings.name, settings.kind, described.fault))
        return self._make(settings)

    def _make(self, settings: SourceSettings) -> Source:
        return make_configured(settings, self._context)

    def value(self, name: str) -> str | None:
        """The value of a secret as what is made at run time may have it."""
        if name in self._values:
            return self._values[name]
        return self._settings.secrets.get(name) if name in self._settings.admin.secrets else None

    def why_unset(self, name: str) -> str | None:
        """Why a secret that is set has no value here."""
        return self._unreadable.get(name)

    async def _require_vault(self, raw: Mapping[str, Any]) -> None:
        if self._needs_vault(raw):
            await self._vault.require()

    def _needs_vault(self, raw: Mapping[str, Any]) -> bool:
        return not self._vault.is_open and raw.get("auth") in ("shared", "user")

    def _require_stored(self, name: str) -> StoredSource:
        if self._live.book.is_configured(name):
            raise Conflict(f"The source '{name}' is in the config. Change [sources.{name}] there.", param="name")
        stored = self._sources.get(name)
        if stored is not None:
            return stored
        if self._registry.get(name) is not None:
            raise Conflict(f"The source '{name}' was not made over this API, so it cannot be changed here.")
        raise self._unknown(name)

    def _unknown(self, name: str) -> NotFound:
        known = [status.name for status in self._registry.statuses()]
        return NotFound(
            f"There is no source '{name[:100]}'.{nearest(name[:100], known)} Sources: {', '.join(known) or 'none'}.",
            param="name",
        )

    def _restart_asked(self, topic: str) -> None:
        self._registry.restart(topic.removeprefix(RESTART_TOPIC))


def _created(by: str, source: StoredSource | None) -> Entry | None:
    if source is None:
        return None
    return Entry(actor=by, action="source.created", subject=source.name, after=table_for_show(_raw(source)))


def _changed(by: str, before: StoredSource, source: StoredSource | None) -> Entry | None:
    if source is None:
        return None
    was, now = table_for_show(_raw(before)), table_for_show(_raw(source))
    return Entry(actor=by, action="source.changed", subject=source.name, before=was, after=now)


def _removed(by: str, source: StoredSource | None) -> Entry | None:
    if source is None:
        return None
    return Entry(actor=by, action="source.removed", subject=source.name, before=table_for_show(_raw(source)))


def _raw(source: StoredSource) -> dict[str, Any]:
    raw: dict[str, Any] = msgspec.json.decode(source.settings)
    return raw


def _text(raw: Mapping[str, Any]) -> str:
    return msgspec.json.encode(raw).decode()
