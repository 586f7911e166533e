"""Services that the config does not name one by one: found in the environment, and in a folder where they leave a file.

Each is a source of kind `manifest`, kept and shown like those of the config; one whose file goes is gone. A file that
cannot be used is a source that is down and says why.
Above: the gateway. Below: the source registry.
"""

import asyncio
import errno
import json
import logging
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from jackfield.errors import ConfigError, SourceUnavailable
from jackfield.model.call import Failed, Outcome
from jackfield.model.tool import Tool, ToolKind
from jackfield.settings import RESERVED_SOURCES, Settings, is_source_name
from jackfield.sources.base import Invocation, Listing, Source, SourceContext
from jackfield.sources.kinds import make_source
from jackfield.sources.live import SourceBook
from jackfield.sources.source_registry import SourceRegistry

log = logging.getLogger("jackfield.sources")

LOOK_SECONDS = 1.0
KIND = "manifest"
SUFFIXES = frozenset({".json", ".toml"})
LARGEST_FILE = 64 * 1024


class FoundService(Struct, frozen=True):
    """What one file says: where a service is, or what is wrong with the file."""

    name: str
    options: dict[str, Any] | None
    fault: str = ""


class ServiceDiscovery:
    """All services that are found, and those of the folder as they come and go."""

    def __init__(
        self,
        settings: Settings,
        *,
        source_registry: SourceRegistry,
        source_book: SourceBook,
        source_context: SourceContext,
    ) -> None:
        folder = settings.discovery.folder
        self._folder = None if folder is None else settings.folder / Path(folder).expanduser()
        self._source_registry = source_registry
        self._source_context = source_context
        self._present: dict[str, FoundService] = {}
        self._said: set[str] = set()
        self.sources = [self._made(FoundService(name, {"url": url})) for name, url in settings.services.items()]
        """Those of the environment."""
        self._taken = settings.services.keys() | RESERVED_SOURCES
        self._source_book = source_book
        self._kept: dict[str, Source] = {}
        """What was made of the files; another source may have taken the place of one."""

    async def look(self) -> None:
        """Read the folder, and have the source registry keep what is there now."""
        if self._folder is None:
            return
        try:
            found = {one.name: one for one in await asyncio.to_thread(read_folder, self._folder)}
        except OSError as fault:
            self._say(f"The folder of services, {self._folder.name}, cannot be read: {fault.strerror}.")
            return
        for name in [name for name in found if name in self._taken or name in self._source_book]:
            self._say(f"A file in {self._folder.name} names the service '{name}', which the config has already.")
            del found[name]
        for name in self._present.keys() - found.keys():
            log.info("service %s has taken its file away", name)
            if self._source_registry.get(name) is self._kept.pop(name, None):
                await self._source_registry.remove(name)
        for name, one in found.items():
            if self._present.get(name) != one:
                self._kept[name] = self._made(one)
                await self._source_registry.add(self._kept[name])
        self._present = found

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while self._folder is not None:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception:
                log.exception("the folder of services could not be looked at; tried again")

    def _made(self, found: FoundService) -> Source:
        if found.options is None:
            return BrokenService(found.name, found.fault)
        try:
            return make_source(KIND, found.name, found.options, self._source_context)
        except ConfigError as fault:
            return BrokenService(found.name, fault.message)

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            log.warning("%s", sentence)


def read_folder(folder: Path) -> list[FoundService]:
    """Every service that has a file here, by name. A folder that is not there yet has none."""
    if not folder.is_dir():
        return []
    if stat.S_IMODE(folder.stat().st_mode) & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "everybody may write it, so nobody knows whose word its files are")
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if Path(entry.name).suffix in SUFFIXES)
    return [_read(folder / name) for name in names if not name.startswith(".")]


def _read(path: Path) -> FoundService:
    try:
        said = _parsed(path)
    except (OSError, ValueError, RecursionError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        return FoundService(
            _name(path.stem), None, f"The file {path.name} cannot be used: {why}. Correct or remove it."
        )
    name = said.pop("name", path.stem)
    if not isinstance(name, str) or not is_source_name(name):
        words = f"The file {path.name} names no service: its name has 1 to 32 letters, digits, '_' or '-'."
        return FoundService(_name(path.stem), None, words)
    return FoundService(name, said)


def _parsed(path: Path) -> dict[str, Any]:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
        raise ValueError("it is not a regular file")
    if stat.S_IMODE(status.st_mode) & stat.S_IWOTH:
        raise ValueError("everybody may write it, so nobody knows whose word it is")
    if status.st_size > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
    text = path.read_text(encoding="utf-8")
    said = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    if not isinstance(said, dict):
        raise ValueError("it holds no table of settings")  # noqa: TRY004 - told like every other fault
    return said


def _name(stem: str) -> str:
    """A name for what has none that could be used."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in stem)[:32] or "service"


class BrokenService:
    """What stands for a file that cannot be used: a source that is down and says why."""

    kind: ClassVar[str] = KIND
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, fault: str) -> None:
        self.name = name
        self.max_concurrency: int | None = None
        self._fault = fault

    async def open(self) -> None:
        raise SourceUnavailable(self._fault)

    async def refresh(self) -> Listing:
        return Listing()

    async def execute(self, invocation: Invocation) -> Outcome:
        return Failed("source_unavailable", f"Tool '{invocation.tool.name}' cannot be called: {self._fault}")

    def can_execute(self, tool: Tool) -> bool:  # noqa: ARG002 - it executes none
        return False

    async def close(self) -> None:
        """Nothing was opened."""
