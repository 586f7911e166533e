"""The skills in a folder: every directory below it that has a `SKILL.md`, with a manifest of its files. Blocking.

Above: `source.py`, which runs this in a thread. Below: the file system, which is bounded in depth, number and size.
Nothing outside the folder is offered: links that lead out of it are left out, and so is what is not a plain file.
"""

import errno
import mimetypes
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from jackfield.model.skill import SKILL_FILE, Skill, SkillFile, digest_of
from jackfield.sources.foreign import is_plain, shown
from jackfield.sources.skills.entries import (
    MAX_BYTES,
    MAX_FILES,
    MAX_SKILLS,
    BadSkill,
    check_skill,
    frontmatter_in,
)
from jackfield.sources.watching import Globs, WatchedFolder

SCHEME = "skill://"
MAX_DEPTH = 12
MAX_FOLDER_FILES = 20_000
"""Files of the whole folder."""
MAX_FAULTS = 50
_SKIPPED = frozenset({"__pycache__", "node_modules"})
_SAFE = "!$&'()*+,;=:@~-._"
_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml"}


Stamp = tuple[int, int, int]


class FoundFile(Struct, frozen=True, kw_only=True):
    """A file of a skill as it was read."""

    path: Path
    stamp: Stamp
    digest: str
    size: int
    media_type: str


class FolderScan(Struct, frozen=True, kw_only=True):
    """What the folder has at one moment."""

    skills: tuple[Skill, ...] = ()
    files: dict[str, FoundFile] = {}
    """By URI."""
    faults: tuple[str, ...] = ()
    is_there: bool = True
    """Whether there is such a folder."""


class SkillFolder(Globs):
    """The files of a folder, as `watching.py` follows them."""

    def __init__(self, path: str, *, folder: Path) -> None:
        super().__init__((f"{path}/**/*",), folder=folder)
        self.root = folder / Path(path).expanduser()
        self._known: dict[Path, FoundFile] = {}
        """What was read before, so that only changed files are read again."""

    def files(self) -> dict[str, Path]:
        """Every file that could be one of a skill, by its path from the folder; sorted."""
        return {path.relative_to(self.root).as_posix(): path for path in sorted(self._walk([]))}

    def folders(self) -> frozenset[WatchedFolder]:
        """The folder to watch, if it exists. Its name is no pattern."""
        try:
            status = self.root.stat()
        except OSError:
            return frozenset()
        return frozenset({WatchedFolder(str(self.root), True, status.st_dev, status.st_ino)})  # noqa: FBT003

    def scan(self) -> FolderScan:
        """Every skill, and a sentence for each that cannot be offered."""
        faults: list[str] = []
        if not self.root.is_dir():
            why = f"There is no folder {self.root}. Make it, or correct the source's path."
            return FolderScan(faults=(why,), is_there=False)
        found = sorted(self._walk(faults))
        roots = sorted({path.parent for path in found if path.name == SKILL_FILE})
        prefix = (self.root.resolve().name,) if self.root in roots else ()
        if len(roots) > MAX_SKILLS:
            faults.append(f"{self.root} has more than {MAX_SKILLS:,} skills; the first {MAX_SKILLS:,} are used.")
        skills: list[Skill] = []
        files: dict[str, FoundFile] = {}
        for root in roots[:MAX_SKILLS]:
            try:
                skill, own = self._skill(root, [path for path in found if path.is_relative_to(root)], prefix)
            except BadSkill as fault:
                faults.append(f"Skill {shown(self._label(root))} is left out: {fault}.")
                continue
            skills.append(skill)
            files |= own
        if not roots and not faults:
            faults.append(f"{self.root} has no skill: no directory in it has a {SKILL_FILE}.")
        if len(faults) > MAX_FAULTS:
            faults = [*faults[:MAX_FAULTS], f"{len(faults) - MAX_FAULTS:,} more faults."]
        self._known = {file.path: file for file in files.values()}
        return FolderScan(skills=tuple(skills), files=files, faults=tuple(faults))

    def forget(self, path: Path) -> None:
        """Read this file again, though nothing about it seems to have changed."""
        self._known.pop(path, None)

    def _skill(self, root: Path, paths: list[Path], prefix: tuple[str, ...]) -> tuple[Skill, dict[str, FoundFile]]:
        if len(paths) > MAX_FILES:
            raise BadSkill(f"it has more than the {MAX_FILES} files allowed")
        left = MAX_BYTES
        found: dict[str, FoundFile] = {}
        try:
            for path in paths:
                file = found[self._uri(path, prefix)] = self._found(path, most=left)
                left -= file.size
            content = read_file(root / SKILL_FILE, most=MAX_BYTES)
        except OSError as fault:
            raise BadSkill(f"{shown(self._label(path))} cannot be used: {fault.strerror}") from None
        skill = Skill(
            source="",
            uri=self._uri(root / SKILL_FILE, prefix),
            frontmatter=frontmatter_in(content),
            files=tuple(SkillFile(uri=uri, digest=file.digest, size=file.size) for uri, file in found.items()),
        )
        check_skill(skill)
        return skill, found

    def _found(self, path: Path, *, most: int) -> FoundFile:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp and known.size <= most:
            return known
        content = read_file(path, most=most)
        kind = media_type(path.name, content)
        made = FoundFile(path=path, stamp=stamp, digest=digest_of(content), size=len(content), media_type=kind)
        self._known[path] = made
        return made

    def _walk(self, faults: list[str]) -> Iterator[Path]:
        """The plain files, links to other files of the folder among them. Hidden ones are passed over."""
        inside, count = self.root.resolve(), 0
        waiting = [(self.root, 0)]
        while waiting:
            folder, depth = waiting.pop()
            for entry in _entries(folder):
                label = shown(self._label(Path(entry.path)))
                if entry.name.startswith(".") or entry.name in _SKIPPED:
                    continue
                if _is_odd(entry.name):
                    faults.append(f"{label} is left out: its name has characters that are not shown.")
                elif entry.is_dir(follow_symlinks=False):
                    if depth < MAX_DEPTH:
                        waiting.append((Path(entry.path), depth + 1))
                    else:
                        faults.append(f"{label} is left out: it is more than {MAX_DEPTH} levels deep.")
                elif (why := _unusable(entry, inside)) is not None:
                    faults.append(f"{label} is left out: {why}.")
                elif (count := count + 1) > MAX_FOLDER_FILES:
                    faults.append(f"The folder has more than {MAX_FOLDER_FILES:,} files; the others are left out.")
                    return
                else:
                    yield Path(entry.path)

    def _label(self, path: Path) -> str:
        return path.relative_to(self.root.parent).as_posix().encode("utf-8", "replace").decode()

    def _uri(self, path: Path, prefix: tuple[str, ...]) -> str:
        parts = (*prefix, *path.relative_to(self.root).parts)
        return SCHEME + "/".join(quote(part, safe=_SAFE) for part in parts)


def read_file(path: Path, *, most: int) -> bytes:
    """The whole of a plain file. Raises `OSError`, also where it has more bytes than `most`."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is too large; a skill may have {MAX_BYTES:,} bytes")
    return content


def media_type(name: str, content: bytes) -> str:
    """By the file's name, else by what it has."""
    known = _TYPES.get(os.path.splitext(name)[1].lower()) or mimetypes.guess_type(name)[0]  # noqa: PTH122 - a name
    if known is not None:
        return known
    return "application/octet-stream" if text_of(content) is None else "text/plain"


def text_of(content: bytes) -> str | None:
    """The content as text that has the same bytes; None for what is no text."""
    if b"\x00" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _unusable(entry: "os.DirEntry[str]", inside: Path) -> str | None:
    """Why this is not a file that can be offered; None where it is one."""
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(inside):
            return "it is a link that leads out of the folder"
        return None if target.is_file() else "it is a link to something that is not a file"
    return None if entry.is_file(follow_symlinks=False) else "it is not a plain file"


def _is_odd(name: str) -> bool:
    """Whether a name has control characters, or bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return not is_plain(name) or "\\" in name
