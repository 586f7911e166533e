"""What a key prefers, over what a tool's metadata says: chat before everywhere before metadata, each field on its own.

What an administrator says, for that key or for everybody, goes before what the key says for itself.

Above: the pipeline and `preferences_api.py`. Below: rows of the store, read as a whole and kept here, so that a call
asks no database. What is not known is refused: a book that could not be read answers nobody.
"""

import asyncio
from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from jackfield.catalog.merge import Entry
from jackfield.catalog.names import Identity
from jackfield.catalog.switch_transactions import Switch
from jackfield.catalog.switches import Switches
from jackfield.catalog.transactions import Preference, all_preferences
from jackfield.errors import Unavailable
from jackfield.store import Store

REQUIRE, SKIP = "require", "skip"
EVERYWHERE = ""
EVERYBODY = ""
"""In place of a key's name, in what an administrator says."""


class Origin(Enum):
    """Where an effective setting comes from."""

    METADATA = ""
    GLOBAL = "global"
    CHAT = "chat"


class Effective(Struct, frozen=True, kw_only=True):
    """How a tool stands for one key in one chat."""

    enabled: bool
    enabled_from: Origin
    requires_approval: bool
    approval_from: Origin
    approval_override: str
    """`require`, `skip`, or empty when nothing overrides the metadata."""
    off: Switch | None = None
    """What has turned it off for everybody, whatever a key prefers."""


class PreferenceBook:
    """All preferences of all keys, as last read."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._rows: dict[tuple[str, str, str, str, bool], Preference] | None = None
        self.switches = Switches()
        """What is off for everybody; it goes before every preference."""
        self.asking: frozenset[Identity] = frozenset()
        """Tools that ask first because an administrator said so, for everybody or for some key; as last read."""

    async def reload(self, store: Store) -> None:
        """Read all preferences anew, one reading after another, so that the newest stands.

        While that fails, nobody knows what is allowed and nothing is.
        """
        async with self._reading:
            try:
                self.load(await store.read(all_preferences))
            except Exception:
                self.forget()
                raise

    def load(self, rows: Iterable[Preference]) -> None:
        rows = tuple(rows)
        self.asking = frozenset((row.scenario, row.tool) for row in rows if row.by_admin and row.approval == REQUIRE)
        self._rows = {(row.principal, row.chat_id, row.scenario, row.tool, row.by_admin): row for row in rows}

    def forget(self) -> None:
        """The rows could not be read; until they can be, nobody knows what is allowed."""
        self._rows = None

    def effective(self, entry: Entry, *, principal: str, chat_id: str | None) -> Effective:
        """How `entry` stands. Raises `Unavailable` while the preferences are not known."""
        preferred = self._preferred(entry, principal=principal, chat_id=chat_id)
        off = self.switches.of_call(entry, principal=principal)
        return preferred if off is None else replace(preferred, enabled=False, enabled_from=Origin.GLOBAL, off=off)

    def _preferred(self, entry: Entry, *, principal: str, chat_id: str | None) -> Effective:
        if self._rows is None:
            raise Unavailable("The preferences could not be read, so no call is allowed. Try again in a moment.")
        if not self._rows:
            return _by_metadata(entry)
        source, tool = entry.tool.source, entry.tool.name
        said = [self._rows.get((EVERYBODY, EVERYWHERE, source, tool, True))]
        for by_admin in (True, False):
            said.append(self._rows.get((principal, EVERYWHERE, source, tool, by_admin)))
            said.append(self._rows.get((principal, chat_id, source, tool, by_admin)) if chat_id else None)
        everybody, admin_everywhere, admin_in_chat, everywhere, in_chat = said
        return effective(entry, weakest_first=(everywhere, in_chat, everybody, admin_everywhere, admin_in_chat))

    def enabled(self, entries: Sequence[Entry], *, principal: str, chat_id: str | None = None) -> tuple[Entry, ...]:
        """Those that are switched on: what a model is offered. Raises `Unavailable` as `effective` does."""
        entries = self.switches.on(entries)
        if self._rows is not None and not self._rows:
            return tuple(entry for entry in entries if entry.tool.metadata.enabled_by_default)
        return tuple(entry for entry in entries if self.effective(entry, principal=principal, chat_id=chat_id).enabled)


def effective(entry: Entry, *, weakest_first: Sequence[Preference | None]) -> Effective:
    """The precedence itself, for each of the two fields apart: the last row that says something, else the metadata."""
    base = _by_metadata(entry)
    enabled, enabled_from = base.enabled, Origin.METADATA
    approval, approval_from = "", Origin.METADATA
    for row in weakest_first:
        if row is None:
            continue
        origin = Origin.CHAT if row.chat_id else Origin.GLOBAL
        if row.enabled is not None:
            enabled, enabled_from = row.enabled, origin
        if row.approval:
            approval, approval_from = row.approval, origin
    requires = base.requires_approval if not approval else approval != SKIP
    return Effective(
        enabled=enabled,
        enabled_from=enabled_from,
        requires_approval=requires,
        approval_from=approval_from,
        approval_override=approval,
    )


def _by_metadata(entry: Entry) -> Effective:
    metadata = entry.tool.metadata
    return Effective(
        enabled=metadata.enabled_by_default,
        enabled_from=Origin.METADATA,
        requires_approval=metadata.requires_approval,
        approval_from=Origin.METADATA,
        approval_override="",
    )
