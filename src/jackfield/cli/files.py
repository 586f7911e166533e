"""Reading and atomically replacing config files."""

import contextlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from jackfield.cli.options import UsageError

_COMMENTED = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
NEW_FILE = 0o644
PRIVATE = 0o600


def read_text(path: Path) -> str:
    """A file's text, or a `UsageError`."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8. Nothing was changed.") from None
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}. Give an existing file.") from None


def json_document(text: str, path: Path, *, comments: bool) -> dict[str, Any]:
    """The object in a JSON file; `comments` allows comments and trailing commas, as editors do."""
    try:
        value = json.loads(without_comments(text) if comments else text)
    except (json.JSONDecodeError, RecursionError) as fault:
        where = f"line {fault.lineno}: {fault.msg}" if isinstance(fault, json.JSONDecodeError) else "nested too deeply"
        raise UsageError(f"{path} is not valid JSON ({where}). Correct it; nothing was changed.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path} must be a JSON object. Correct it; nothing was changed.")
    return value


def without_comments(text: str) -> str:
    """JSON without comments and trailing commas."""
    bare = _COMMENTED.sub(lambda found: found[1] or " ", text)
    return _LAST_COMMA.sub(lambda found: found[1] or "", bare)


def replace_file(path: Path, text: str, *, before: str | None, private: bool = False) -> None:
    """Replace the file atomically, unless it no longer is `before` (None: it did not exist). `private`: mode 600."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if (read_text(target) if target.exists() else None) != before:
            raise UsageError(f"{path} was changed in the meantime. Nothing was written; try again.")
        mode = PRIVATE if private else target.stat().st_mode & 0o777 if target.exists() else NEW_FILE
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except UnicodeEncodeError:
        raise UsageError(
            f"{path} would contain a lone surrogate, which is not valid text. Nothing was written."
        ) from None
    except OSError as fault:
        raise UsageError(f"{path} cannot be written: {fault.strerror}. Check its permissions.") from None
