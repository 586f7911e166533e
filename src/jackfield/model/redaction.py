r"""The operator's secrets taken out of what somebody else wrote: text, and JSON that stays JSON. Pure.

A secret is found as it is, as JSON may write it (`\/`, `\u002B`, in JSON within a string once more), as an address has
it, and line by line if it has several. What was cut is looked at, too: `cut` leaves a mark, and at a mark the beginning
or the end of a secret is taken for the whole. Not looked for: base64 of a secret, and its letters in another case.
Above: the redaction of every outcome (`calls/redaction.py`), of logs and sentences; sources that know more spellings.
"""

import re
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

REDACTED = "[redacted]"
SHORTEST = 4
"""Shorter values would be found by chance in ordinary words."""
SHORTEST_LINE = 8
"""Of a secret of several lines, as keys in PEM are."""
CUT = "…"
"""Stands where a text was cut."""
_WORDS = frozenset({"true", "false", "null", "none"})
"""Settings that are named like secrets, and would black out what everybody says."""
_NAMED_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_RUN = r"\\{1,16}+"
_BEGIN = rf"{_RUN}(?:u005[cC]\\{{0,16}}+){{0,4}}+"
"""What an escape begins with: JSON in a string in a string has more backslashes each time, or the number of one.
Bounded and never gone back over, so that a text full of backslashes is looked through in linear time."""
_NUMBERED = re.compile(r"\\u([0-9a-fA-F]{4})")
_NUMBERED_BYTES = re.compile(rb"\\u([0-9a-fA-F]{4})")


def cut(text: str, most: int) -> str:
    """At most so many characters of it, and a mark if there were more."""
    return text if len(text) <= most else f"{text[:most]}{CUT}"


class SecretForms:
    """Some secrets in every form in which they are looked for."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(sorted({s for s in secrets if len(s) >= SHORTEST and s.lower() not in _WORDS}, key=len))
        # The longest first, so that a secret within another does not leave half of it behind.
        self._texts = tuple(sorted({form for s in self._secrets for form in _forms(s)}, key=len, reverse=True))
        self._bodies = tuple(body for body in map(_in_json, self._texts) if body)
        letters = {letter for secret in self._secrets for letter in secret}
        self._numbers = {number for letter in letters for number in _numbers(letter)}
        self._escapes = [
            "\\/" if letter == "/" else f"\\\\{escape}"
            for letter, escape in _NAMED_ESCAPES.items()
            if letter in letters
        ]
        """Which of them would show that a secret is written in another way than usual."""
        self._escapes_in_bytes = [escape.encode() for escape in self._escapes]

    def __bool__(self) -> bool:
        return bool(self._texts)

    def text(self, text: str) -> str:
        """The same text without them. What is hard to see comes first: a short secret within it would hide the rest."""
        if "\\" in text and self._may_be_escaped_in(text):
            text = self._escaped.sub(REDACTED, text)
        if CUT in text:
            text = self._without_halves(text)
        for form in self._texts:
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def json(self, raw: Raw, *, was_cut: bool = False) -> Raw:
        """The JSON without them; the same object where there is none in it. `was_cut`: there may be our marks in it."""
        body = bytes(raw)
        is_here = any(form in body for form in self._bodies) or (was_cut and CUT.encode() in body)
        if not is_here and not (b"\\" in body and self._may_be_escaped_in_json(body)):
            return raw
        value = msgspec.json.decode(body)
        cleaned = self._cleaned(value)
        return raw if cleaned == value else Raw(msgspec.json.encode(cleaned))

    def _may_be_escaped_in(self, text: str) -> bool:
        if any(escape in text for escape in self._escapes):
            return True
        numbers = set(_NUMBERED.findall(text)) if "\\u" in text else ()
        return any(number.lower() in self._numbers or number.lower() == "005c" for number in numbers)

    def _may_be_escaped_in_json(self, body: bytes) -> bool:
        if any(escape in body for escape in self._escapes_in_bytes):
            return True
        numbers = set(_NUMBERED_BYTES.findall(body)) if b"\\u" in body else ()
        return any(number.lower() in self._numbers or number.lower() == "005c" for number in map(bytes.decode, numbers))

    @cached_property
    def _escaped(self) -> re.Pattern[str]:
        longest_first = reversed(self._secrets)
        return re.compile("|".join("".join(map(_letter, secret)) for secret in longest_first))

    def _without_halves(self, text: str) -> str:
        """At a mark, without a secret or the beginning of one before it, or the end of one after it."""
        first, *others = text.split(CUT)
        parts = [first]
        for part in others:
            parts[-1] = self._without_end(parts[-1])
            parts.append(self._without_beginning(part))
        return CUT.join(parts)

    def _without_end(self, part: str) -> str:
        bare = part.rstrip("'\" ")
        halves = (s[:n] for s in reversed(self._secrets) for n in range(len(s), SHORTEST - 1, -1))
        half = next((half for half in halves if bare.endswith(half)), None)
        return part if half is None else f"{bare.removesuffix(half)}{REDACTED}{part[len(bare) :]}"

    def _without_beginning(self, part: str) -> str:
        bare = part.lstrip("'\" ")
        halves = (s[-n:] for s in reversed(self._secrets) for n in range(len(s), SHORTEST - 1, -1))
        half = next((half for half in halves if bare.startswith(half)), None)
        return part if half is None else f"{part[: len(part) - len(bare)]}{REDACTED}{bare.removeprefix(half)}"

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(key): self._cleaned(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._cleaned(inner) for inner in value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            written = msgspec.json.encode(value).decode()
            return REDACTED if any(secret in written for secret in self._secrets) else value
        return value


class KnownSecrets:
    """The secrets that are known by now. `secrets` is asked each time, because there may be others since: another
    collection, or the same with more in it.
    """

    def __init__(self, secrets: Callable[[], Collection[str]]) -> None:
        self._secrets = secrets
        self._known: tuple[Collection[str], int] = ((), -1)
        self._forms = SecretForms(())

    @property
    def forms(self) -> SecretForms:
        secrets = self._secrets()
        collection, count = self._known
        if secrets is not collection or len(secrets) != count:
            self._known = (secrets, len(secrets))
            self._forms = SecretForms(secrets)
        return self._forms

    def text(self, text: str) -> str:
        return self.forms.text(text)


@lru_cache(maxsize=4096)
def _forms(secret: str) -> tuple[str, ...]:
    return tuple(_spellings(secret))


def _spellings(secret: str) -> Iterable[str]:
    """As it is, as JSON has it, as an address has it, and by line."""
    yield secret
    if (in_json := _in_json(secret).decode()) and in_json != secret:
        yield in_json
    quoted = quote(secret, safe="", errors="replace")
    for form in (quoted, quoted.replace("%20", "+")):  # a form has `+` for a space
        yield form
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form)
    if "\n" in secret:
        yield from (line for line in map(str.strip, secret.splitlines()) if len(line) >= SHORTEST_LINE)


def _in_json(text: str) -> bytes:
    try:
        return msgspec.json.encode(text)[1:-1]
    except ValueError:  # half a surrogate pair, which no JSON has
        return b""


def _letter(letter: str) -> str:
    """Every way in which JSON may write it."""
    ways = [re.escape(letter)]
    if letter in _NAMED_ESCAPES:
        ways.append(_RUN if letter == "\\" else _BEGIN + re.escape(_NAMED_ESCAPES[letter]))
    begin = _RUN if letter == "\\" else _BEGIN
    ways.append("".join(f"{begin}u(?i:{number})" for number in _numbers(letter)))
    return f"(?:{'|'.join(reversed(ways))})"


def _numbers(letter: str) -> list[str]:
    """Of UTF-16, which JSON's escapes by number are: one, or two for letters far away."""
    data = letter.encode("utf-16-be", "surrogatepass")
    return [data[place : place + 2].hex() for place in range(0, len(data), 2)]
