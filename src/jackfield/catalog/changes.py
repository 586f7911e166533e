"""What changed between two snapshots, and those who follow it.

Above: `catalog.py`, and the handlers that stream `tools.changed`. Below: asyncio. A follower that is slow never holds
anybody up and never fills memory: what it has not taken yet is folded into one change.
"""

import asyncio

from jackfield.catalog.merge import Snapshot
from jackfield.catalog.view import Visibility
from jackfield.model.principal import Principal
from jackfield.protocol.records import ToolsChanged


def difference(before: Snapshot, after: Snapshot) -> ToolsChanged:
    """What `after` has that `before` had not. A tool has changed when its definition's version has."""
    old, new = before.by_name, after.by_name
    return ToolsChanged(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(
            entry.name
            for entry in after.entries
            if (was := old.get(entry.name)) is not None and was is not entry and was.version != entry.version
        ),
        version=after.version,
    )


def seen_by(sight: Visibility, change: ToolsChanged, *, before: Snapshot, after: Snapshot) -> ToolsChanged | None:
    """The part of a change that `sight` may know of; None when that is nothing.

    A name that passed to another source may have come into sight or left it; for this key it then came or went.
    """
    if sight.is_whole or not change.names_tools:
        return change
    touched = (*change.added, *change.removed, *change.changed)
    saw = {name for name in touched if (entry := before.by_name.get(name)) is not None and sight.sees(entry)}
    sees = {name for name in touched if (entry := after.by_name.get(name)) is not None and sight.sees(entry)}
    if not saw and not sees:
        return None
    return ToolsChanged(
        added=tuple(sorted(sees - saw)),
        removed=tuple(sorted(saw - sees)),
        changed=tuple(sorted(saw & sees)),
        version=change.version,
    )


def resighted(snapshot: Snapshot, *, before: Visibility, after: Visibility) -> ToolsChanged:
    """What came and went for somebody who sees other tools than before."""
    saw = {entry.name for entry in snapshot.entries if before.sees(entry)}
    sees = {entry.name for entry in snapshot.entries if after.sees(entry)}
    return ToolsChanged(added=tuple(sorted(sees - saw)), removed=tuple(sorted(saw - sees)), version=snapshot.version)


def folded(first: ToolsChanged, then: ToolsChanged) -> ToolsChanged:
    """Two changes in a row as one."""
    added, removed, changed = set(first.added), set(first.removed), set(first.changed)
    removed |= set(then.removed) - added
    changed |= set(then.changed) - added
    changed |= set(then.added) & set(first.removed)
    added = (added - set(then.removed)) | (set(then.added) - set(first.removed))
    removed -= set(then.added)
    changed -= removed
    return ToolsChanged(
        added=tuple(sorted(added)),
        removed=tuple(sorted(removed)),
        changed=tuple(sorted(changed)),
        version=then.version,
    )


class Follower:
    """An async iterator of the changes since it was made. Ends when it, or the catalog, is closed."""

    def __init__(self, sight: Visibility, principal: Principal | None = None) -> None:
        self.sight = sight
        self.principal = principal
        """For whom; None: for the gateway itself."""
        self._waiting: ToolsChanged | None = None
        self._woken = asyncio.Event()
        self._closed = False

    def offer(self, change: ToolsChanged) -> None:
        """Hand over a change. Never blocks."""
        self._waiting = change if self._waiting is None else folded(self._waiting, change)
        self._woken.set()

    def close(self) -> None:
        """No more changes; whoever waits is let go. Safe to repeat."""
        self._closed = True
        self._woken.set()

    def __aiter__(self) -> "Follower":
        return self

    async def __anext__(self) -> ToolsChanged:
        while self._waiting is None and not self._closed:
            self._woken.clear()
            await self._woken.wait()
        change, self._waiting = self._waiting, None
        if change is None or self._closed:
            raise StopAsyncIteration
        return change


class ListFollower:
    """An async iterator of the lists (`tools`, `prompts`, `resources`) that changed. Ends when it is closed."""

    def __init__(self, sight: Visibility, principal: Principal | None = None) -> None:
        self.sight = sight
        self.principal = principal
        self._waiting: dict[str, None] = {}
        self._woken = asyncio.Event()
        self._closed = False

    def offer(self, name: str) -> None:
        """That list has changed. Never blocks; said twice before it is taken, it is one change."""
        self._waiting[name] = None
        self._woken.set()

    def take(self) -> tuple[str, ...]:
        """What has changed and nobody was told yet."""
        waiting, self._waiting = tuple(self._waiting), {}
        return waiting

    def close(self) -> None:
        """No more changes; whoever waits is let go. Safe to repeat."""
        self._closed = True
        self._woken.set()

    def __aiter__(self) -> "ListFollower":
        return self

    async def __anext__(self) -> str:
        while not self._waiting and not self._closed:
            self._woken.clear()
            await self._woken.wait()
        if self._closed:
            raise StopAsyncIteration
        name = next(iter(self._waiting))
        del self._waiting[name]
        return name
