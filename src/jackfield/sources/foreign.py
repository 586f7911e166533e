"""What every source of foreign tools does with definitions: limits, `allowed_tools`, hidden characters. Pure.

Hidden are characters that a person does not see and a model reads: control, zero-width, direction, tags. A description
loses them; a schema whose names or values need them cannot be offered, since a call with the cleaned name would be
another call.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Any

from msgspec import Struct

MAX_TOOLS = 10_000
MAX_DEFINITION = 256 * 1024
MAX_URI = 4_096
MAX_NAME = 256

_BREAKS = re.compile("[\t\n\r]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_FOR_READERS = frozenset({"description", "title", "$comment", "examples"})
"""Words of JSON Schema whose values change nothing but what is read."""


class ListingRules(Struct, frozen=True, kw_only=True):
    """What the config says about a server's tools."""

    source: str
    server: str
    """Where it is, for people to see."""
    allowed: tuple[str, ...] | None = None
    timeout_ms: int | None = None


class ToolAllowlist:
    """`allowed_tools`: names and globs. None means all."""

    def __init__(self, patterns: Iterable[str] | None) -> None:
        self._all = patterns is None
        self._patterns = [(pattern, re.compile(translate(pattern))) for pattern in patterns or ()]
        self._matched: set[str] = set()

    def permits(self, name: str) -> bool:
        matching = [pattern for pattern, compiled in self._patterns if pattern == name or compiled.match(name)]
        self._matched.update(matching)
        return self._all or bool(matching)

    def unmatched(self) -> list[str]:
        """The patterns that no tool has matched."""
        return [pattern for pattern, _ in self._patterns if pattern not in self._matched]


class UnusableTool(Exception):
    """One definition that cannot be offered, as a sentence."""


class Unremovable(Exception):
    """A hidden character stands where its removal would change what the schema means."""


def shown(value: Any, *, most: int = 100) -> str:
    """Foreign text in a sentence: quoted, on one line, and short."""
    text = " ".join(cleaned(value if isinstance(value, str) else repr(value)).split())
    return f"'{text[:most]}{'…' if len(text) > most else ''}'"


def is_hidden_in(text: str) -> bool:
    return _HIDDEN.search(text.replace("\r\n", "\n")) is not None


def is_plain(name: str) -> bool:
    """Whether a name or a URI is one line without tabs and hidden characters."""
    return _BREAKS.search(name) is None and not is_hidden_in(name)


def has_hidden(value: Any) -> bool:
    """Whether a hidden character is anywhere in this JSON."""
    if isinstance(value, str):
        return is_hidden_in(value)
    if isinstance(value, dict):
        return any(is_hidden_in(key) or has_hidden(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(has_hidden, value))


def cleaned(text: str) -> str:
    return _HIDDEN.sub("", text.replace("\r\n", "\n"))


def cleaned_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as agents may see it. Raises `Unremovable`."""
    result = _cleaned(schema, for_readers=False)
    assert isinstance(result, dict)
    return result


def _cleaned(value: Any, *, for_readers: bool) -> Any:
    if isinstance(value, str):
        if for_readers:
            return cleaned(value)
        if is_hidden_in(value):
            raise Unremovable
        return value
    if isinstance(value, list):
        return [_cleaned(inner, for_readers=for_readers) for inner in value]
    if isinstance(value, dict):
        if any(is_hidden_in(key) for key in value):
            raise Unremovable
        return {
            key: _cleaned(inner, for_readers=for_readers or _is_for_readers(key, inner)) for key, inner in value.items()
        }
    return value


def _is_for_readers(key: str, inner: Any) -> bool:
    """A property may be called `title` too; its schema is an object."""
    return key in _FOR_READERS and not isinstance(inner, dict)
