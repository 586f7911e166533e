"""Which files belong to a gateway: the config, and what it names in its folder.

Above: `saving.py`. Every text in the config that is a file, a folder or a pattern is followed, whatever its key: tool
files, skills, documents, scripts of models, programs of MCP servers. Of a pattern the whole folder is taken, for tools
read files beside them.
"""

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from jackfield.settings import Project

NEVER = frozenset({"admin.key", "vault.key", "secrets.toml"})
_PASSED_OVER = frozenset({"__pycache__", "node_modules"})
_LONGEST = 4_096


class ProjectFiles(Struct, frozen=True):
    """Paths from the project's folder, and what the config names elsewhere."""

    inside: list[Path]
    left_out: list[str]


def find_files(project: Project, *, but: tuple[Path, ...] = ()) -> ProjectFiles:
    """The files of a project, without its data folder and those of `but`."""
    if project.path is None:
        return ProjectFiles([], [])
    folder = project.folder.resolve()
    hidden = {project.data.resolve(), *(path.resolve() for path in but)}
    inside: dict[Path, None] = {project.path.resolve(): None}
    left_out: dict[str, None] = {}
    for text in _texts(project.raw):
        for path in _named(text, folder):
            found = list(_files(path, folder, hidden))
            inside.update(dict.fromkeys(file for file in found if file.is_relative_to(folder)))
            if any(not file.is_relative_to(folder) for file in found):
                left_out[text] = None
    return ProjectFiles(sorted(file.relative_to(folder) for file in inside), sorted(left_out))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _named(text: str, folder: Path) -> Iterator[Path]:
    """What a text of the config may mean; `hooks.py:check` names a function of a file."""
    if not text or len(text) > _LONGEST or "\0" in text or "\n" in text or "://" in text:
        return
    for name in dict.fromkeys((text, text.rpartition(":")[0])):
        if name and glob.has_magic(name):
            yield from _matches(os.path.expanduser(name), folder)  # noqa: PTH111 - a pattern, not a path
        elif name:
            path = folder / Path(name).expanduser()
            # A bare word is a name of something unless there is such a file in the folder itself.
            if path.exists() and (path.resolve().is_relative_to(folder) or (path.is_file() and not _is_program(path))):
                yield path


def _matches(pattern: str, folder: Path) -> Iterator[Path]:
    base = Path(pattern[: next(at for at, char in enumerate(pattern) if char in "*?[")])
    parent = folder / (base if pattern.startswith(f"{base}/") else base.parent)
    matches = [folder / name for name in glob.glob(pattern, root_dir=folder, recursive=True)]  # noqa: PTH207
    if matches and parent.resolve() != folder and parent.resolve().is_relative_to(folder):
        yield parent
    else:
        yield from matches


def _is_program(path: Path) -> bool:
    """Programs of the machine are not the project's."""
    return os.access(path, os.X_OK)


def _files(path: Path, folder: Path, hidden: set[Path]) -> Iterator[Path]:
    """The files at or below a path, resolved; of the project's folder itself only those directly in it."""
    place = path.resolve()
    if place in hidden or place.name in NEVER:
        return
    if place.is_file():
        yield place
    elif place.is_dir() and (place.is_relative_to(folder) or place == folder):
        for entry in sorted(place.iterdir()):
            is_passed_over = entry.name.startswith(".") or entry.name in _PASSED_OVER
            if not is_passed_over and not (place == folder and entry.is_dir()) and not _leads_back(entry):
                yield from _files(entry, folder, hidden)


def _leads_back(entry: Path) -> bool:
    """A link to a folder above itself would never end."""
    return entry.is_symlink() and entry.parent.resolve().is_relative_to(entry.resolve())
