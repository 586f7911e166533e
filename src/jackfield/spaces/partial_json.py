"""JSON that is still being written, read as far as it goes: what a visible call's arguments look like so far.

Each character is looked at once, however often the value is asked for. Strings are shown as far as they have come;
numbers and words (`true`) when they are whole, since `12` may become `123`; a key without a value not at all. What
is no JSON ends the reading: the value stays as it was.
Above: `flight.py`. Below: nothing. Pure.
"""

import re
from typing import Any

DEEPEST = 100
"""Levels of nesting after which nothing more is read."""

_PLAIN = re.compile(r'[^"\\]*')
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.\w]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = frozenset("0123456789abcdefABCDEF")
_UNICODE_ESCAPE = 6
_HIGH = range(0xD800, 0xDC00)
_LOW = range(0xDC00, 0xE000)
_UNKNOWN = "\ufffd"


class _Broken(Exception):
    """This is no JSON."""


class PartialJson:
    """Takes text piece by piece; `value()` is what it says so far."""

    def __init__(self) -> None:
        self.is_broken = False
        self._root: list[Any] = []
        """Holds the value, once there is one."""
        self._open: list[dict[str, Any] | list[Any]] = []
        """The containers that we are in, the innermost last."""
        self._keys: list[str] = []
        """Of each open object, the key whose value is awaited or being read."""
        self._expects = "value"
        """`value`, `value or ]`, `key`, `key or }`, `:`, `, or end`."""
        self._string: _StringReader | None = None
        self._scalar = ""

    def feed(self, text: str) -> None:
        """Read on."""
        position = 0
        try:
            while position < len(text) and not self.is_broken:
                if self._string is not None:
                    position = self._read_string(self._string, text, position)
                else:
                    position = self._read_token(text, position)
        except _Broken:
            self.is_broken = True

    def value(self, otherwise: Any = None) -> Any:
        """What there is, to be used before the next `feed`; `otherwise` while there is nothing."""
        if self._string is not None and self._expects != ":":
            self._put_unfinished(self._string.text)
        return self._root[0] if self._root else otherwise

    def _read_string(self, string: "_StringReader", text: str, position: int) -> int:
        position = string.read(text, position)
        if string.is_whole:
            self._string = None
            if self._expects == ":":
                self._keys[-1] = string.text
            else:
                self._put_unfinished(string.text)
                self._value_ended()
        return position

    def _read_token(self, text: str, position: int) -> int:
        if self._scalar or text[position] in "-tfn0123456789":
            return self._read_scalar(text, position)
        position = _end(_SPACE, text, position)
        if position == len(text) or text[position] in "-tfn0123456789":
            return position
        self._take_sign(text[position])
        return position + 1

    def _read_scalar(self, text: str, position: int) -> int:
        if not self._scalar and not self._expects.startswith("value"):
            raise _Broken
        end = _end(_SCALAR, text, position)
        self._scalar += text[position:end]
        if end < len(text):
            scalar, self._scalar = self._scalar, ""
            self._put(_scalar_value(scalar))
            self._value_ended()
        return end

    def _take_sign(self, sign: str) -> None:
        match sign, self._expects:
            case '"', "key" | "key or }":
                self._expects = ":"
                self._string = _StringReader()
            case '"', "value" | "value or ]":
                self._begin_string()
            case "{", "value" | "value or ]":
                self._begin_container({})
            case "[", "value" | "value or ]":
                self._begin_container([])
            case ":", ":":
                self._expects = "value"
            case ",", ", or end" if self._open:
                self._expects = "key" if isinstance(self._open[-1], dict) else "value"
            case "}", "key or }" | ", or end" if self._open and isinstance(self._open[-1], dict):
                self._end_container()
            case "]", "value or ]" | ", or end" if self._open and isinstance(self._open[-1], list):
                self._end_container()
            case _:
                raise _Broken

    def _begin_string(self) -> None:
        self._string = _StringReader()
        self._put("")

    def _begin_container(self, container: dict[str, Any] | list[Any]) -> None:
        if len(self._open) == DEEPEST:
            raise _Broken
        self._put(container)
        self._open.append(container)
        if isinstance(container, dict):
            self._keys.append("")
        self._expects = "key or }" if isinstance(container, dict) else "value or ]"

    def _end_container(self) -> None:
        if isinstance(self._open.pop(), dict):
            self._keys.pop()
        self._value_ended()

    def _value_ended(self) -> None:
        self._expects = ", or end" if self._open else "nothing"

    def _put(self, value: Any) -> None:
        """A new value where one is awaited."""
        if not self._open:
            self._root.append(value)
        elif isinstance(inner := self._open[-1], dict):
            inner[self._keys[-1]] = value
        else:
            inner.append(value)

    def _put_unfinished(self, text: str) -> None:
        """The string that is being read, as far as it has come."""
        if not self._open:
            self._root[0] = text
        elif isinstance(inner := self._open[-1], dict):
            inner[self._keys[-1]] = text
        else:
            inner[-1] = text


class _StringReader:
    """The inside of one string, up to its closing quote."""

    def __init__(self) -> None:
        self.is_whole = False
        self._text = ""
        self._pieces: list[str] = []
        self._escape = ""
        """An escape that has begun, from its backslash on."""
        self._high = 0
        """The first half of a surrogate pair."""

    @property
    def text(self) -> str:
        if self._pieces:
            self._text += "".join(self._pieces)
            self._pieces.clear()
        return self._text

    def read(self, text: str, position: int) -> int:
        """Read up to the closing quote or the end of what there is; where that is."""
        while position < len(text) and not self.is_whole:
            if self._escape:
                self._go_on_escape(text[position])
                position += 1
                continue
            end = _end(_PLAIN, text, position)
            if end > position:
                self._add(text[position:end])
            if end < len(text):
                self.is_whole = text[end] == '"'
                self._escape = "" if self.is_whole else "\\"
                end += 1
            position = end
        if self.is_whole:
            self._add("")
        return position

    def _go_on_escape(self, sign: str) -> None:
        self._escape += sign
        if len(self._escape) == 2 and sign != "u":  # noqa: PLR2004 - the backslash and what follows it
            if sign not in _ESCAPES:
                raise _Broken
            self._add(_ESCAPES[sign])
            self._escape = ""
        elif len(self._escape) > 2 and sign not in _HEX:  # noqa: PLR2004
            raise _Broken
        elif len(self._escape) == _UNICODE_ESCAPE:
            self._add_unit(int(self._escape.removeprefix("\\u"), 16))
            self._escape = ""

    def _add_unit(self, unit: int) -> None:
        if self._high and unit in _LOW:
            pair = 0x10000 + ((self._high - 0xD800) << 10) + (unit - 0xDC00)
            self._high = 0
            self._pieces.append(chr(pair))
            return
        self._add("")
        if unit in _HIGH:
            self._high = unit
        else:
            self._pieces.append(_UNKNOWN if unit in _LOW else chr(unit))

    def _add(self, piece: str) -> None:
        """Text that is no second half of a pair; a first half that is left alone stands for nothing we know."""
        if self._high:
            self._high = 0
            self._pieces.append(_UNKNOWN)
        if piece:
            self._pieces.append(piece)


def _scalar_value(scalar: str) -> Any:
    if scalar in _WORDS:
        return _WORDS[scalar]
    if not _NUMBER.fullmatch(scalar):
        raise _Broken
    if scalar.lstrip("-").isdigit():
        return int(scalar) if len(scalar) < 20 else float(scalar)  # noqa: PLR2004 - what 64 bits hold
    return float(scalar)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    assert found is not None
    return found.end()
