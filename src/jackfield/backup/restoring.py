"""Restoring a backup into a folder. Nothing is written before all of it has been checked.

Above: `jackfield restore`. Below: the archive, and the lock that keeps gateways out of the database.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from filecmp import cmp
from pathlib import Path

from msgspec import Struct

from jackfield.backup.archive import DATABASE, PROJECT, BackupError, Contents, unpack
from jackfield.errors import ConfigError
from jackfield.settings import load_project
from jackfield.store.opening import database_files
from jackfield.store.sqlite import take_lock

_SHOWN = 5


class Restored(Struct, frozen=True, kw_only=True):
    """What was written."""

    folder: str
    database: str | None
    store: str
    """Of the gateway that was backed up."""
    files: list[str]
    created_at: str
    left_out: list[str]


def restore(
    file: Path, folder: Path, *, is_forced: bool = False, environment: Mapping[str, str] | None = None
) -> Restored:
    """Write a backup's files into a folder, and its database where the config there says. `is_forced`: over others."""
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".restore-") as unpacked:
            contents = unpack(file, Path(unpacked))
            return _place(contents, Path(unpacked), folder, is_forced=is_forced, environment=environment)
    except OSError as fault:
        raise BackupError(f"{fault.filename or folder} cannot be written: {fault.strerror or fault}.") from None


def _place(
    contents: Contents, unpacked: Path, folder: Path, *, is_forced: bool, environment: Mapping[str, str] | None
) -> Restored:
    wanted = {
        unpacked / one.name: (folder / one.name.removeprefix(PROJECT), one.mode)
        for one in contents.files
        if one.name != DATABASE
    }
    has_database = any(one.name == DATABASE for one in contents.files)
    databases = _databases(contents, unpacked, folder, environment) if has_database else ()
    taken = [
        target for source, (target, _) in wanted.items() if target.exists() and not cmp(source, target, shallow=False)
    ]
    taken += [path for path in databases if path.exists()]
    if taken and not is_forced:
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        raise BackupError(
            f"This would overwrite {', '.join(map(str, taken[:_SHOWN]))}{more}. Give an empty folder, or --force."
        )
    if databases:
        with _locked(databases[0]):
            _replace_database(unpacked / DATABASE, databases)
    for source, (target, mode) in wanted.items():
        _replace(source, target, mode)
    return Restored(
        folder=str(folder),
        database=str(databases[0]) if databases else None,
        store=contents.store,
        files=[str(target.relative_to(folder)) for target, _ in wanted.values()],
        created_at=contents.created_at,
        left_out=contents.left_out,
    )


def _databases(
    contents: Contents, unpacked: Path, folder: Path, environment: Mapping[str, str] | None
) -> tuple[Path, ...]:
    """The file that the gateway of this folder is going to use, and those that SQLite keeps beside it."""
    config = None if contents.config is None else unpacked / PROJECT / contents.config
    if config is None:
        url, data = "sqlite:///", folder / ".jackfield"
    else:
        project = load_project(config, folder=folder, environment=environment)
        url, data = project.store_url, project.data
    found = database_files(url, folder=folder, data=data)
    if not found:
        raise BackupError(
            "The backup has a SQLite database, but the config and JACKFIELD_STORE name another kind. "
            "Set JACKFIELD_STORE=sqlite:/// to restore it into the data folder."
        )
    return found


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = take_lock(database)
    except ConfigError as fault:
        raise BackupError(f"{fault.message.partition('.')[0]}. Stop it before you restore.") from None
    try:
        yield
    finally:
        os.close(handle)


def _replace_database(source: Path, databases: tuple[Path, ...]) -> None:
    """The files beside it belong to the database that is replaced, and would spoil this one."""
    target, *beside = databases
    new = _copied(source, target, 0o600)
    for path in beside:
        path.unlink(missing_ok=True)
    new.replace(target)
    _sync_folder(target.parent)


def _replace(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _copied(source, target, mode).replace(target)


def _copied(source: Path, target: Path, mode: int) -> Path:
    """A copy on the target's file system, on disk."""
    new = target.with_name(f".{target.name}.restoring")
    with (
        source.open("rb") as reading,
        os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as writing,
    ):
        shutil.copyfileobj(reading, writing)
        writing.flush()
        os.fsync(writing.fileno())
    new.chmod(mode)
    return new


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
