"""What was typed in earlier chats, in a file of the user's own: `$XDG_STATE_HOME/jackfield/chat_history`."""

import os
from contextlib import suppress
from pathlib import Path

MAX_LINES = 1000
MAX_CHARS = 2000
"""A longer line is not kept."""
MAX_BYTES = 1_000_000
"""Bytes of the file that are read; a larger one is shortened."""
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


def history_path() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base) / "jackfield" / "chat_history"


class TypedLines:
    """Keeps the last lines. Where the file cannot be read or written, they are lost with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = ""

    def read(self) -> list[str]:
        """The lines, oldest first."""
        try:
            with open(self._path, "rb", opener=_open) as file:
                os.fchmod(file.fileno(), 0o600)
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - MAX_BYTES))
                data = file.read(MAX_BYTES)
        except OSError:
            return []
        if size > MAX_BYTES:
            data = data.partition(b"\n")[2]
        all_lines = data.decode(errors="replace").split("\n")
        lines = [line for line in all_lines if line and line.isprintable()][-MAX_LINES:]
        if size > MAX_BYTES or len(all_lines) > 2 * MAX_LINES:
            self._shorten(lines)
        self._last = lines[-1] if lines else ""
        return lines

    def add(self, line: str) -> None:
        """Keep a line, unless it starts with a space or is the one before again."""
        if not line.strip() or line[0] == " " or line == self._last or len(line) > MAX_CHARS or not line.isprintable():
            return
        self._last = line
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(self._path, f"{line}\n", os.O_APPEND)

    def _shorten(self, lines: list[str]) -> None:
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            _write(new, "".join(f"{line}\n" for line in lines), os.O_EXCL)
            new.replace(self._path)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _FLAGS)


def _write(path: Path, text: str, flag: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flag | _FLAGS, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
