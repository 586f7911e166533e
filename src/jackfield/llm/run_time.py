"""Models that administrators make while the gateway runs, at every gateway of the database.

Above: `responses/models_api.py`. Below: rows of the store, read as a whole whenever a gateway has written, and
`Models`, which has them beside those of the config. A model that cannot be used here is kept all the same, and says why
when it is asked.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.errors import BadRequest, ConfigError, Conflict, Forbidden
from jackfield.llm import transactions as tx
from jackfield.llm.models import DescribedModel, Models
from jackfield.llm.transactions import MODELS_TOPIC, StoredModel
from jackfield.llm.types import Delta, Model, ModelFailed, ModelRequest
from jackfield.settings import Settings
from jackfield.settings.origins import table_for_show
from jackfield.settings.variables import HIDDEN_VALUE, expanded, hidden_in, merged, variables_in
from jackfield.store import Store

log = logging.getLogger("jackfield.models")

LOOK_SECONDS = 5.0
"""How often the store is read although nobody said that something was written."""
MOST_MODELS = 1_000
NEEDS_COMMANDS = (
    "This model reads a file where the gateway runs. Administrators may make such models only with commands = true in "
    "[admin] in the config."
)
_REMOTE_PROVIDERS = frozenset({"openai"})


class RunTimeModels:
    """The models of the store, kept usable by this gateway."""

    def __init__(
        self,
        models: Models,
        settings: Settings,
        *,
        store: Store,
        audit: AuditLog,
        value: Callable[[str], str | None],
        why_unset: Callable[[str], str | None],
    ) -> None:
        """`value`: of a secret, as such a model may have it; `why_unset`: why one that is set has none here."""
        self._models = models
        self._settings = settings
        self._store = store
        self._audit = audit
        self._value = value
        self._why_unset = why_unset
        self._stored: dict[str, StoredModel] = {}
        self._made: dict[str, DescribedModel] = {}
        self._faults: dict[str, str] = {}
        self._reading = asyncio.Lock()

    @property
    def all(self) -> Mapping[str, StoredModel]:
        """Those on record, by name."""
        return self._stored

    @property
    def models(self) -> Models:
        """Those that can be asked: of the config, then of the store."""
        return self._models

    def fault_of(self, name: str) -> str | None:
        """Why a stored model cannot be used here."""
        return None if name in self._models.configured else self._faults.get(name)

    def settings_of(self, name: str) -> dict[str, Any] | None:
        """The settings of a stored model as they may be shown; None: there is none of that name."""
        stored = self._stored.get(name)
        return None if stored is None else table_for_show(_raw(stored))

    async def create(self, name: str, raw: Mapping[str, Any], *, created_by: str) -> None:
        """Keep a new model, at every gateway."""
        await self.reload()
        self._check(name, raw)
        if name in self._models.configured:
            raise Conflict(f"The model '{name}' is in the config. Change it there, or choose another name.")
        taken = f"There is a model '{name}' already. Change it with PATCH /api/v1/models/{name}."
        if name in self._stored:
            raise Conflict(taken)
        if len(self._stored) >= MOST_MODELS:
            raise Conflict(f"There are {MOST_MODELS:,} models already. Remove some.")
        script = partial(tx.add_model, name, _text(raw), created_by=created_by)
        if await self._store.write(self._audit.noting(script, partial(_created, created_by))) is None:
            raise Conflict(taken)
        await self.reload()

    async def change(self, name: str, patch: Mapping[str, Any], *, by: str) -> None:
        """Change some keys of a model, as a JSON merge patch does; null removes one."""
        await self.reload()  # it may have been made or changed at another gateway a moment ago
        stored = self._require_stored(name)
        raw = merged(_raw(stored), patch)
        self._check(name, raw)
        script = partial(tx.change_model, name, _text(raw), before=stored.settings)
        if await self._store.write(self._audit.noting(script, partial(_changed, by, stored))) is None:
            raise Conflict(f"The model '{name}' was changed by somebody else meanwhile. Look at it, and try again.")
        await self.reload()

    async def remove(self, name: str, *, by: str) -> None:
        """Forget a model. Also one that is not used, because the config has one of its name."""
        await self.reload()
        if name not in self._stored:
            self._require_stored(name)
        await self._store.write(self._audit.noting(partial(tx.delete_model, name), partial(_removed, by)))
        await self.reload()

    def made_for_test(self, name: str, raw: Mapping[str, Any]) -> Model:
        """A model that is not kept. Raises `Refused`, also where it cannot be used here."""
        self._check(name, raw)
        try:
            return self._models.made(name, self._expanded(name, raw), where=f"models.{name}", is_counted=False)
        except ConfigError as fault:
            raise BadRequest(fault.message) from None

    async def made_again(self, name: str) -> Model:
        """A second one of a model there is, to try it. Raises `ModelNotFound`."""
        await self._models.get(name)
        configured = self._models.configured.get(name)
        if configured is None:
            return self.made_for_test(name, _raw(self._stored[name]))
        return self._models.made(name, configured.table, where=f"models.{name}", is_counted=False)

    async def reload(self) -> None:
        """Read everything anew, one reading after another."""
        async with self._reading:
            self._stored = {model.name: model for model in await self._store.read(tx.all_models)}
            self.describe()

    def apply(self, settings: Settings) -> None:
        """Take another config: what such models may do and name."""
        self._settings = settings
        self.describe()

    def describe(self) -> None:
        """Have what is on record made with the secrets there are now. What did not change is the same model."""
        made: dict[str, DescribedModel] = {}
        faults: dict[str, str] = {}
        for name, stored in self._stored.items():
            try:
                made[name] = self._described(name, _raw(stored))
            except ConfigError as fault:
                faults[name] = fault.message
                made[name] = DescribedModel(table={}, model=UnusableModel(name, fault.message))
                if self._faults.get(name) != fault.message:
                    log.warning("the model %s cannot be used: %s", name, fault.message)
        self._made, self._faults = made, faults
        self._models.add_made(made)

    def _described(self, name: str, raw: Mapping[str, Any]) -> DescribedModel:
        if self._needs_commands(raw):
            raise ConfigError(NEEDS_COMMANDS)
        table = self._expanded(name, raw)
        known = self._made.get(name)
        if known is not None and known.table == table:
            return known
        return DescribedModel(table=table, model=self._models.made(name, table, where=f"models.{name}"))

    async def follow(self) -> None:
        """Read whenever a gateway of this store has written, and now and then; a store that fails is asked again."""
        with self._store.bus.listen(MODELS_TOPIC) as written:
            written.set()  # what was written before this gateway listened
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await written.wait()
                written.clear()
                try:
                    await self.reload()
                except Exception:
                    log.exception("the models made at run time could not be read; it is tried again")

    def _check(self, name: str, raw: Mapping[str, Any]) -> None:
        """Raises `Forbidden` or `BadRequest` for what could not be used whatever its secrets are."""
        if (key := hidden_in(raw)) is not None:
            raise BadRequest(HIDDEN_VALUE.format(key=key), param=key)
        if self._needs_commands(raw):
            raise Forbidden(NEEDS_COMMANDS)
        is_set = all(self._value(one) is not None for one in variables_in(raw))
        try:
            table = self._expanded(name, raw) if is_set else expanded(dict(raw), lambda *_: "unset")
            self._models.made(name, table, where=f"models.{name}", is_counted=False)
        except ConfigError as fault:
            raise BadRequest(fault.message) from None
        if isinstance(key := table.get("api_key"), str) and is_set:
            self._settings.secrets.add(key)

    def _needs_commands(self, raw: Mapping[str, Any]) -> bool:
        provider = raw.get("provider")
        return isinstance(provider, str) and provider not in _REMOTE_PROVIDERS and not self._settings.admin.commands

    def _expanded(self, name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
        def lookup(variable: str, key: str) -> str:
            value = self._value(variable)
            if value is None and (why := self._why_unset(variable)) is not None:
                raise ConfigError(f"models.{name}.{key} uses ${{{variable}}}, which cannot be read here: {why}")
            if value is None:
                raise ConfigError(
                    f"models.{name}.{key} uses ${{{variable}}}, which is not set. Set it with 'jackfield secrets set "
                    f"{variable}' (PUT /api/v1/secrets/{variable}), or name it in secrets in [admin] in the config."
                )
            return value

        found: dict[str, Any] = expanded(dict(raw), lookup)
        return found

    def _require_stored(self, name: str) -> StoredModel:
        if name in self._models.configured:
            raise Conflict(f"The model '{name}' is in the config. Change [models.{name}] there.", param="name")
        stored = self._stored.get(name)
        if stored is None:
            raise self._models.unknown(name)
        return stored


class UnusableModel:
    """Stands for a model that cannot be used here: whoever asks it is told why."""

    def __init__(self, name: str, fault: str) -> None:
        self.name = name
        self._fault = fault

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:  # noqa: ARG002 - it is not asked
        nothing: tuple[Delta, ...] = ()
        for delta in nothing:
            yield delta
        raise ModelFailed(f"Model '{self.name}' cannot be used: {self._fault}", code="model_unavailable")

    async def close(self) -> None:
        """Nothing was opened."""


def _created(by: str, model: StoredModel | None) -> Entry | None:
    if model is None:
        return None
    return Entry(actor=by, action="model.created", subject=model.name, after=table_for_show(_raw(model)))


def _changed(by: str, before: StoredModel, model: StoredModel | None) -> Entry | None:
    if model is None:
        return None
    was, now = table_for_show(_raw(before)), table_for_show(_raw(model))
    return Entry(actor=by, action="model.changed", subject=model.name, before=was, after=now)


def _removed(by: str, model: StoredModel | None) -> Entry | None:
    if model is None:
        return None
    return Entry(actor=by, action="model.removed", subject=model.name, before=table_for_show(_raw(model)))


def _raw(model: StoredModel) -> dict[str, Any]:
    raw: dict[str, Any] = msgspec.json.decode(model.settings)
    return raw


def _text(raw: Mapping[str, Any]) -> str:
    return msgspec.json.encode(raw).decode()
