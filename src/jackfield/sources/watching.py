"""Word of changed files, within `SWEEP_SECONDS` at the latest.

The file system's own events come at once where it has them. Bind mounts and network folders send none, and a
folder that is made later cannot be watched yet; so the files' stamps are compared in between too.
Above: `files.py`. Below: `globs.py` and watchfiles.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial

from watchfiles import Change, watch

from jackfield.sources.globs import Globs, Stamp, WatchedFolder
from jackfield.sources.threads import Threads

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
