"""Logging to stderr, as text or JSON lines, with secrets redacted."""

import logging
import sys
import time
from collections.abc import Callable, Collection
from typing import Any, TextIO

import msgspec

from jackfield.errors import Unavailable
from jackfield.model.redaction import KnownSecrets, LongSecrets

_encode = msgspec.json.Encoder().encode
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message", "taskName"}


def set_up_logging(
    log_format: str,
    *,
    secrets: Callable[[], Collection[str]] = tuple,
    tokens: LongSecrets | None = None,
    level: int = logging.INFO,
    stream: TextIO | None = None,
    worker: int | None = None,
) -> None:
    """Send all logs of this process to stderr; the values of `secrets` and `tokens` are redacted.

    `worker`: its number, where several gateway processes log to one place.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    lines = JsonLines if log_format == "json" else TextLines
    handler.setFormatter(lines(secrets, tokens, worker=worker))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for noisy in ("uvicorn.error", "httpx2", "httpcore2", "watchfiles", "websockets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _Redacting(logging.Formatter):
    def __init__(
        self, secrets: Callable[[], Collection[str]], tokens: LongSecrets | None = None, *, worker: int | None = None
    ) -> None:
        super().__init__()
        self._secrets = KnownSecrets(secrets, tokens)
        self._worker = worker

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the base class's name
        """A traceback; of a store or a source that is away only its sentence, as it is no fault of ours."""
        fault = ei[1]
        return str(fault) if isinstance(fault, Unavailable) else super().formatException(ei)


class TextLines(_Redacting):
    """`12:30:05 warning jackfield.sources: …`, of several gateway workers `12:30:05 [2] warning …`"""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        who = "" if self._worker is None else f"[{self._worker}] "
        line = f"{clock} {who}{record.levelname.lower():7} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return self._secrets.text(line)


class JsonLines(_Redacting):
    """`{"time", "level", "logger", "message", "worker"?, "exception"?}` and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, str] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._worker is not None:
            entry["worker"] = str(self._worker)
        entry |= {name: str(value) for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _encode({name: _valid_utf8(self._secrets.text(value)) for name, value in entry.items()}).decode()


def _valid_utf8(text: str) -> str:
    """Lone surrogates replaced, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()
