"""Groups: named parts of the catalog, of the config and made over the API. `/mcp/NAME` shows one of them.

Above: `groups_api.py`, `/mcp/NAME`, and every principal that is limited to groups. Below: rows of the store, read as a
whole and kept here, so that a call asks no database. Groups that could not be read admit nobody.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.catalog.names import shown
from jackfield.catalog.transactions import GROUPS_TOPIC, PutGroup, StoredGroup, all_groups, delete_group, put_group
from jackfield.errors import ConfigError, Conflict, Forbidden, NotFound, Unavailable
from jackfield.model.principal import GroupLimit, Principal
from jackfield.model.text import nearest
from jackfield.protocol.backoff import RetryDelays
from jackfield.settings import Settings
from jackfield.settings.types import GroupSettings
from jackfield.store import Store

log = logging.getLogger("jackfield")

MOST_GROUPS = 1_000
"""Groups that may be made over the API."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds between tries while the store fails."""


class Group(Struct, frozen=True, kw_only=True):
    """A named part of the catalog."""

    name: str
    tools: tuple[str, ...]
    """Names and globs of tools and prompts, or `source:*`."""
    description: str = ""
    instructions: str = ""
    """What clients of `/mcp/NAME` are told about using it."""
    is_configured: bool = False


class Groups:
    """All groups, as they are now."""

    def __init__(
        self,
        configured: Mapping[str, GroupSettings] | None = None,
        *,
        keys: Mapping[str, tuple[str, ...]] | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`keys`: the groups that each key of the config is limited to. `on_change`: what is in groups has changed."""
        self._configured = {name: _configured(name, settings) for name, settings in (configured or {}).items()}
        self._keys = keys or {}
        self._stored: dict[str, Group] | None = {}
        self._unions: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._reading = asyncio.Lock()
        self.on_change = on_change

    @classmethod
    def from_settings(cls, settings: Settings) -> "Groups":
        return cls(settings.groups, keys=_limits_of_keys(settings))

    def apply(self, settings: Settings) -> None:
        """Have the groups of these settings besides those of the store."""
        self._keys = _limits_of_keys(settings)
        configured = {name: _configured(name, group) for name, group in settings.groups.items()}
        if configured != self._configured:
            self._configured, self._unions = configured, {}
            if self._stored is not None:
                self.on_change()

    def prepared(self, settings: Settings) -> "Groups":
        """Groups as they would be with these settings. Raises `ConfigError` where a key names one that there is not."""
        prepared = Groups.from_settings(settings)
        prepared._stored = self._stored  # noqa: SLF001 - of the same class
        prepared.check_keys(str(settings.path))
        return prepared

    def limit_to(self, names: tuple[str, ...] | None) -> GroupLimit | None:
        """The limit of a key with `groups = names`."""
        return None if names is None else GroupLimit(names, self)

    def patterns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """All patterns of these groups. Raises `Unavailable` where a group may be one that could not be read."""
        known = self._unions.get(names)
        if known is None:
            found = [group for name in names if (group := self.find(name)) is not None]
            known = self._unions[names] = tuple(dict.fromkeys(pattern for group in found for pattern in group.tools))
        return known

    def find(self, name: str) -> Group | None:
        """The group of this name. Raises `Unavailable` while nobody knows whether there is one."""
        configured = self._configured.get(name)
        if configured is not None:
            return configured
        if self._stored is None:
            raise Unavailable("The groups of tools could not be read. Try again in a moment.")
        return self._stored.get(name)

    def seen_by(self, principal: Principal) -> list[Group]:
        """The groups that a key may know of, by name: its own where it is limited to some, else all."""
        if principal.session is not None or principal.only_serves:
            return []
        names = self._names() if principal.groups is None else set(principal.groups.names)
        return [group for name in sorted(names) if (group := self.find(name)) is not None]

    def get(self, name: str, principal: Principal) -> Group:
        """The group of this name; one that the key may not know of does not exist for it."""
        seen = self.seen_by(principal)
        found = next((group for group in seen if group.name == name), None)
        if found is None:
            hint = nearest(name[:100], [group.name for group in seen])
            raise NotFound(f"There is no group '{shown(name)}'.{hint} 'jackfield groups' lists those this key may use.")
        return found

    def narrowed(self, principal: Principal, name: str) -> Principal:
        """The principal within this group only. Raises `NotFound` as `get` does."""
        return msgspec.structs.replace(principal, group=GroupLimit((self.get(name, principal).name,), self))

    def instructions_for(self, principal: Principal) -> str:
        """What the group that the principal is in says about its use; empty outside any group."""
        group = None if principal.group is None else self.find(principal.group.names[0])
        return "" if group is None else group.instructions

    def has(self, principal: Principal) -> bool:
        """Whether the group that the principal is in still exists; true outside any group."""
        return principal.group is None or self.find(principal.group.names[0]) is not None

    async def put(self, group: Group, *, store: Store, principal: Principal, audit: AuditLog) -> Group:
        """Make or replace a group, for all gateways of the store."""
        self._require_changeable(group.name, principal)
        row = _row(group)
        script = partial(put_group, row, updated_by=principal.name, most=MOST_GROUPS)
        if not (await store.write(audit.noting(script, partial(_put, principal.name, row)))).is_put:
            raise Conflict(f"There are {MOST_GROUPS:,} groups already. Delete one, or put groups into the config.")
        await self.reload(store)
        return group

    async def delete(self, name: str, *, store: Store, principal: Principal, audit: AuditLog) -> None:
        """Forget a group that was made over the API."""
        self._require_changeable(name, principal)
        key = next((key for key, groups in self._keys.items() if name in groups), None)
        if key is not None and self.find(name) is not None:
            raise Conflict(
                f"Key '{key}' is limited to the group '{shown(name)}'. Remove it from auth.keys.{key}.groups first."
            )
        noting = audit.noting(partial(delete_group, name), partial(_deleted, principal.name))
        if await store.write(noting) is None:
            raise NotFound(f"There is no group '{shown(name)}'. 'jackfield groups' lists those there are.")
        await self.reload(store)

    def _require_changeable(self, name: str, principal: Principal) -> None:
        if principal.groups is not None:
            raise Forbidden(f"Key '{principal.name}' is limited to groups, so it may not change any. Use another key.")
        if name in self._configured:
            raise Conflict(f"The group '{name}' is in the config. Change [groups.{name}] there.")

    def check_keys(self, where: str) -> None:
        """Raise `ConfigError` where a key is limited to a group that there is not. `where`: the config file."""
        for key, names in self._keys.items():
            unknown = next((name for name in names if self.find(name) is None), None)
            if unknown is not None:
                hint = nearest(unknown, sorted(self._names()))
                raise ConfigError(
                    f"{where}: auth.keys.{key}.groups has the unknown group '{unknown}'.{hint} "
                    f"Add [groups.{unknown}], or remove it from the key."
                )

    async def reload(self, store: Store) -> None:
        """Read the stored groups anew, one reading after another. While that fails, what they have is not known."""
        async with self._reading:
            try:
                self._take({row.name: _stored(row) for row in await store.read(all_groups)})
            except Exception:
                self._take(None)
                raise

    def _take(self, stored: dict[str, Group] | None) -> None:
        if stored == self._stored:
            return
        self._stored = stored
        self._unions = {}
        if stored is not None:
            self.on_change()

    async def follow(self, store: Store) -> None:
        """Read whenever a gateway of this store has written; a store that fails is asked again."""
        with store.bus.listen(GROUPS_TOPIC) as written:
            written.set()  # what was written before this gateway listened
            delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            while True:
                await written.wait()
                written.clear()
                try:
                    await self.reload(store)
                    delays.reset()
                except Exception:
                    log.exception("the groups of tools could not be read; it is tried again")
                    await asyncio.sleep(delays.next())
                    written.set()

    def _names(self) -> set[str]:
        return {*self._configured, *(self._stored or ())}


def _put(by: str, group: StoredGroup, put: PutGroup) -> Entry | None:
    if not put.is_put:
        return None
    action = "group.created" if put.before is None else "group.changed"
    return Entry(actor=by, action=action, subject=group.name, before=put.before, after=group)


def _deleted(by: str, group: StoredGroup | None) -> Entry | None:
    return None if group is None else Entry(actor=by, action="group.deleted", subject=group.name, before=group)


def _limits_of_keys(settings: Settings) -> dict[str, tuple[str, ...]]:
    return {name: key.groups for name, key in settings.keys.items() if key.groups is not None}


def _configured(name: str, settings: GroupSettings) -> Group:
    return Group(
        name=name,
        tools=settings.tools,
        description=settings.description,
        instructions=settings.instructions,
        is_configured=True,
    )


def _stored(row: StoredGroup) -> Group:
    return Group(name=row.name, tools=row.tools, description=row.description, instructions=row.instructions)


def _row(group: Group) -> StoredGroup:
    return StoredGroup(
        name=group.name, tools=group.tools, description=group.description, instructions=group.instructions
    )
