"""The files that a source's globs name: which there are, when they changed, and which folders to watch for more.

Above: `files.py` and `watching.py`. Below: the file system.
"""

import glob
import os
from fnmatch import fnmatch
from pathlib import Path

from msgspec import Struct

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
