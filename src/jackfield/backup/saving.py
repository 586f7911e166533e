"""Making a backup, beside a running gateway or without one.

Above: `jackfield backup`. Below: a copy of the database, the files of the project, and the archive.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from jackfield import __version__
from jackfield.backup.archive import DATABASE, FORMAT, PROJECT, ArchiveWriter, BackupError, Contents, writing
from jackfield.backup.project import find_files
from jackfield.settings import Project
from jackfield.store.copying import copy_database
from jackfield.store.opening import database_files


class Saved(Struct, frozen=True, kw_only=True):
    """What is in a backup."""

    file: str
    size: int
    store: str
    has_database: bool
    files: list[str]
    """Of the project."""
    left_out: list[str]


def save(project: Project, file: Path) -> Saved:
    """Back a gateway up into a new file."""
    databases = database_files(project.store_url, folder=project.folder, data=project.data)
    database = databases[0] if databases and databases[0].exists() else None
    found = find_files(project, but=databases)
    if project.path is None and database is None:
        raise BackupError("There is neither a config nor a database here. Give the config with --config.")
    with writing(file) as archive:
        if database is not None:
            _add_database(archive, database, beside=file)
        for path in found.inside:
            archive.add(f"{PROJECT}{path.as_posix()}", project.folder / path)
        archive.finish(
            Contents(
                format=FORMAT,
                version=__version__,
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                store=kind_of(project.store_url),
                config=None if project.path is None else project.path.name,
                files=archive.files,
                left_out=found.left_out,
            )
        )
    return Saved(
        file=str(file),
        size=file.stat().st_size,
        store=kind_of(project.store_url),
        has_database=database is not None,
        files=[str(path) for path in found.inside],
        left_out=found.left_out,
    )


def _add_database(archive: ArchiveWriter, database: Path, *, beside: Path) -> None:
    with tempfile.TemporaryDirectory(dir=beside.absolute().parent, prefix=".backup-") as folder:
        copy = Path(folder, "jackfield.db")
        copy.touch(mode=0o600)
        copy_database(database, copy)
        archive.add(DATABASE, copy)


def kind_of(url: str) -> str:
    """`sqlite`, `postgresql` or `memory`."""
    scheme = url.partition(":")[0]
    return "postgresql" if scheme == "postgres" else scheme
