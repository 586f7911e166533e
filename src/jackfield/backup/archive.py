"""The file of a backup: a compressed tar archive whose last member says what is in it.

Above: `saving.py` and `restoring.py`. An archive that was cut off has no last member, and one that was changed has
other digests, so neither is restored.
"""

import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.protocol.json_bodies import UNREADABLE

FORMAT = 1
CONTENTS = "backup.json"
DATABASE = "database/jackfield.db"
PROJECT = "project/"
CHUNK = 1 << 20
_LEVEL = 1
"""Of compression: most of the time is the database's, which compresses well at any level."""


class BackupError(JackfieldError):
    """A backup cannot be made, read or restored."""

    code = "backup_failed"


class ArchivedFile(Struct, frozen=True, kw_only=True):
    """One file of a backup."""

    name: str
    size: int
    sha256: str
    mode: int


class Contents(Struct, frozen=True, kw_only=True):
    """The last member of an archive."""

    format: int
    version: str
    """The Jackfield that made it."""
    created_at: str
    store: str
    """`sqlite`, `postgresql` or `memory`."""
    config: str | None
    """The config's name in the project."""
    files: list[ArchivedFile]
    left_out: list[str]
    """Files that the config names and that are not in it."""


class ArchiveWriter:
    """Adds files to an archive."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.files: list[ArchivedFile] = []

    def add(self, name: str, path: Path) -> None:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            hashed = _Hashing(file, left=status.st_size)
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = status.st_size, status.st_mode & 0o777, int(status.st_mtime)
            try:
                self._tar.addfile(info, hashed)  # type: ignore[arg-type]
            except OSError as fault:
                raise BackupError(f"{path} cannot be read: {fault}. Run the backup again.") from None
        digest = hashed.digest.hexdigest()
        self.files.append(ArchivedFile(name=name, size=info.size, sha256=digest, mode=info.mode))

    def finish(self, contents: Contents) -> None:
        text = msgspec.json.encode(contents)
        info = tarfile.TarInfo(CONTENTS)
        info.size, info.mode = len(text), 0o600
        self._tar.addfile(info, io.BytesIO(text))


@contextmanager
def writing(path: Path) -> Iterator[ArchiveWriter]:
    """An archive that is there when the block ends, or not at all."""
    if path.exists():
        raise BackupError(f"{path} exists. Give a new file.")
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_LEVEL) as tar:
                yield ArchiveWriter(tar)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as fault:
        raise BackupError(f"{path} cannot be written: {fault.strerror or fault}.") from None
    finally:
        part.unlink(missing_ok=True)


def unpack(path: Path, folder: Path) -> Contents:
    """Write all files into an empty folder, and check them."""
    try:
        found, contents = _unpacked(path, folder)
    except (tarfile.TarError, EOFError, zlib.error, OSError, *UNREADABLE) as fault:
        raise BackupError(f"{path} is not a backup, or not all of it: {fault}. Nothing was changed.") from None
    if contents.format != FORMAT:
        raise BackupError(f"{path} was made by Jackfield {contents.version}, whose backups this one does not know.")
    expected = {file.name: (file.size, file.sha256) for file in contents.files}
    if found != expected:
        names = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise BackupError(f"{path} was changed or damaged ({', '.join(names[:3])}). Nothing was restored.")
    return contents


def _unpacked(path: Path, folder: Path) -> tuple[dict[str, tuple[int, str]], Contents]:
    found: dict[str, tuple[int, str]] = {}
    with tarfile.open(path, mode="r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if not member.isreg() or content is None:
                raise tarfile.TarError(f"'{member.name}' is not a file")
            if member.name == CONTENTS:
                return found, msgspec.json.decode(content.read(), type=Contents)
            if member.name in found or not is_safe(member.name):
                raise tarfile.TarError(f"'{member.name}' does not belong there")
            found[member.name] = _write(content, folder / member.name)
    raise tarfile.TarError("its end is missing")


def is_safe(name: str) -> bool:
    """Whether it names a file below the folder that it is unpacked to."""
    parts = name.split("/")
    is_ours = name == DATABASE or name.startswith(PROJECT)
    return is_ours and not PurePosixPath(name).is_absolute() and not {"", ".", ".."} & set(parts) and "\0" not in name


def _write(content: IO[bytes], path: Path) -> tuple[int, str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        while chunk := content.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
    return size, digest.hexdigest()


class _Hashing:
    """A file that is hashed as it is read, up to the size that it had."""

    def __init__(self, file: IO[bytes], *, left: int) -> None:
        self._file = file
        self._left = left
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        chunk = self._file.read(min(size, self._left))
        self._left -= len(chunk)
        self.digest.update(chunk)
        return chunk
