"""Word of changed files, within `SWEEP_SECONDS` at the latest.

The file system's own events come at once where it has them. Bind mounts and network folders send none, and a
folder that is made later cannot be watched yet; so the files' stamps are compared in between too.
Above: `files.py`. Below: `globs.py` and watchfiles.
"""

import asyncio
import glob
import logging
import os
import threading
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from msgspec import Struct
from watchfiles import Change, watch

from jackfield.sources.threads import Threads

Stamp = dict[str, tuple[int, int, int]]
"""By label: when a file was written, its size, and its number in the file system."""


class WatchedFolder(Struct, frozen=True):
    """A folder in which a matching file may appear. Its numbers tell it from another one of the same name."""

    path: str
    recursive: bool
    device: int
    inode: int


class Globs:
    """Patterns, relative to a folder. `**` takes in folders at any depth, hidden ones left out."""

    def __init__(self, patterns: tuple[str, ...], *, folder: Path) -> None:
        self.folder = folder
        self.patterns = tuple(os.path.expanduser(pattern) for pattern in patterns)  # noqa: PTH111 - globs, not paths

    def files(self) -> dict[str, Path]:
        """The matching files by label, which is their path from the folder; sorted."""
        found = {self.label(path): path for pattern in self.patterns for path in self._matches(pattern)}
        return dict(sorted(found.items()))

    def unmatched(self) -> list[str]:
        """The patterns that no file matches."""
        return [pattern for pattern in self.patterns if not self._matches(pattern)]

    def stamp(self) -> Stamp:
        """What changes whenever one of the files does."""
        stamps: Stamp = {}
        for label, path in self.files().items():
            try:
                status = path.stat()
            except OSError:
                continue
            stamps[label] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamps

    def folders(self) -> frozenset[WatchedFolder]:
        """The folders to watch, of those that exist."""
        found: set[WatchedFolder] = set()
        for pattern in self.patterns:
            base, recursive = self._base(pattern)
            if base.is_dir():
                status = base.stat()
                found.add(WatchedFolder(str(base), recursive, status.st_dev, status.st_ino))
        return frozenset(found)

    def concerns(self, path: str) -> bool:
        """Whether a file of this name could match."""
        name = os.path.basename(path)  # noqa: PTH119 - asked for every event
        return any(fnmatch(name, os.path.basename(pattern)) for pattern in self.patterns)  # noqa: PTH119

    def _matches(self, pattern: str) -> list[Path]:
        names = glob.glob(pattern, root_dir=self.folder, recursive=True)  # noqa: PTH207 - skips hidden folders
        return [path for path in (self.folder / name for name in names) if path.is_file()]

    def label(self, path: Path) -> str:
        """How a path is called where people see it: from the folder, never from the root."""
        return Path(os.path.relpath(path, self.folder)).as_posix()

    def _base(self, pattern: str) -> tuple[Path, bool]:
        """The deepest folder that all matches are in, and whether some may be further down."""
        parts = Path(pattern).parts
        fixed = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
        below = parts[fixed:]
        return self.folder.joinpath(*parts[:fixed]), len(below) > 1 or "**" in below


SWEEP_SECONDS = 2.0
CLOSE_SECONDS = 3.0

_log = logging.getLogger(__name__)


class Watch:
    """Calls `changed` in the event loop when a file that the globs name appears, changes or goes."""

    def __init__(self, globs: Globs, *, threads: Threads, changed: Callable[[], None]) -> None:
        self._globs = globs
        self._threads = threads
        self._changed = changed
        self._seen: Stamp | None = None
        self._stop = asyncio.Event()
        self._sweeping: asyncio.Task[None] | None = None
        self._following: list[tuple[threading.Event, asyncio.Future[None]]] = []

    def open(self) -> None:
        """Begin, also again after it was closed."""
        self._stop = asyncio.Event()
        self._sweeping = asyncio.create_task(self._sweep(), name="jackfield-watch")

    def seen(self, stamp: Stamp) -> None:
        """The listing now shows the files as they were at `stamp`."""
        self._seen = stamp

    async def close(self) -> None:
        self._stop.set()
        if self._sweeping is not None:
            await _ended({self._sweeping})
        await self._follow_nothing()

    async def _sweep(self) -> None:
        watched: frozenset[WatchedFolder] = frozenset()
        while not self._stop.is_set():
            try:
                folders, stamp = await self._threads.run(self._look)
            except OSError as error:
                _log.warning("The tool files cannot be looked at: %s", error)
            else:
                if folders != watched:
                    await self._follow(folders)
                    watched = folders
                if self._seen is not None and stamp != self._seen:
                    self._seen = stamp
                    self._changed()
            await self._pause()

    def _look(self) -> tuple[frozenset[WatchedFolder], Stamp]:
        return self._globs.folders(), self._globs.stamp()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(SWEEP_SECONDS):
                await self._stop.wait()
        except TimeoutError:
            pass

    async def _follow(self, folders: frozenset[WatchedFolder]) -> None:
        """Events of these folders from now on, and of no others."""
        await self._follow_nothing()
        loop = asyncio.get_running_loop()
        for recursive in (False, True):
            paths = sorted(folder.path for folder in folders if folder.recursive is recursive)
            if paths:
                stop = threading.Event()
                job = partial(self._events, paths, recursive=recursive, stop=stop, loop=loop)
                self._following.append((stop, self._threads.run(job)))

    async def _follow_nothing(self) -> None:
        following, self._following = self._following, []
        for stop, _ in following:
            stop.set()
        await _ended({done for _, done in following})

    def _events(
        self, paths: list[str], *, recursive: bool, stop: threading.Event, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Runs in a thread, because to begin watching a large tree takes its time."""
        try:
            for _ in watch(
                *paths,
                recursive=recursive,
                stop_event=stop,
                debounce=400,
                step=100,
                watch_filter=self._concerns,
                ignore_permission_denied=True,
            ):
                loop.call_soon_threadsafe(self._changed)
        except (OSError, RuntimeError) as error:  # RuntimeError: watchfiles' own, or a loop that is closed
            _log.warning("No events for %s (%s): changes are looked for every %g s", paths, error, SWEEP_SECONDS)

    def _concerns(self, _: Change, path: str) -> bool:
        return self._globs.concerns(path)


async def _ended(waiting: set[asyncio.Future[None]]) -> None:
    """Wait for these, but not for a file system that has stopped answering."""
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=CLOSE_SECONDS)
        for future in late:
            future.cancel()
