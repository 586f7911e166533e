"""Where the gateway's own words go: stderr, as lines for people or as JSON lines for machines, without secrets.

Above: whoever starts a gateway. Below: the standard library's logging.
"""

import logging
import sys
import time
from collections.abc import Callable, Collection
from typing import TextIO

import msgspec

from jackfield.model.redaction import KnownSecrets

_encode = msgspec.json.Encoder().encode
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message", "taskName"}


def set_up_logging(
    log_format: str,
    *,
    secrets: Callable[[], Collection[str]] = tuple,
    level: int = logging.INFO,
    stream: TextIO | None = None,
) -> None:
    """Send every log line of this process to stderr. `secrets` are the values that no line may show."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(secrets) if log_format == "json" else TextLines(secrets))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for talkative in ("uvicorn.error", "httpx2", "httpcore2", "watchfiles", "websockets"):
        logging.getLogger(talkative).setLevel(logging.WARNING)


class TextLines(logging.Formatter):
    """`12:30:05 warning jackfield.sources: …`"""

    def __init__(self, secrets: Callable[[], Collection[str]]) -> None:
        super().__init__()
        self._secrets = KnownSecrets(secrets)

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock} {record.levelname.lower():7} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return self._secrets.text(line)


class JsonLines(logging.Formatter):
    """`{"time", "level", "logger", "message", "exception"?}` and whatever `extra` a line carries."""

    def __init__(self, secrets: Callable[[], Collection[str]]) -> None:
        super().__init__()
        self._secrets = KnownSecrets(secrets)

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, str] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: str(value) for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _encode({name: _sayable(self._secrets.text(value)) for name, value in entry.items()}).decode()


def _sayable(text: str) -> str:
    """Half a surrogate pair cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
