r"""The operator's secrets taken out of what somebody else wrote: text, and JSON that stays JSON. Pure.

A secret is found as it is, as JSON may write it (`\/`, `\u002B`, in JSON within a string once more), as an address has
it, and line by line if it has several. What was cut is looked at, too: `cut` leaves a mark, and at a mark the beginning
or the end of a secret is taken for the whole. Not looked for: base64 of a secret, and its letters in another case.
Above: the redaction of every outcome (`calls/redaction.py`), of logs and sentences; sources that know more spellings.
"""

import re
import sys
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
BLOCK = 8
LONG = 2 * BLOCK
"""Characters from which on a secret can be one of very many."""
LONGEST_PART = 64
_CUT_BYTES = CUT.encode()
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


class LongSecrets:
    """Very many secrets of 16 characters and more, such as tokens, found in a time that is the same however many.

    A text is looked at in blocks of eight bytes. Wherever a secret begins in it, one whole block of the text is within
    the last fifteen bytes of the secret, and those of every secret are in a table.
    """

    def __init__(self, *, most: int = 5_000) -> None:
        self._most = most
        self._blocks: dict[int, tuple[str, ...]] = {}
        self._of: dict[str, tuple[int, ...]] = {}
        """The blocks of each secret, the least recently noted first."""

    def __len__(self) -> int:
        return len(self._of)

    def note(self, secret: str) -> None:
        """One more; of too many, the least recently noted is let go."""
        if (blocks := self._of.pop(secret, None)) is None:
            blocks = tuple(sorted({block for form in _forms(secret) for block in _blocks_of(form)}))
            for block in blocks:
                self._blocks[block] = (*self._blocks.get(block, ()), secret)
        self._of[secret] = blocks
        if len(self._of) > self._most:
            self._let_go(next(iter(self._of)))

    def _let_go(self, secret: str) -> None:
        for block in self._of.pop(secret):
            left = tuple(one for one in self._blocks[block] if one != secret)
            if left:
                self._blocks[block] = left
            else:
                del self._blocks[block]

    def perhaps_in(self, body: bytes) -> frozenset[str]:
        """Those that may be in a text, also in part where it was cut; mostly none."""
        if not self._of:
            return frozenset()
        read = memoryview(body)[: len(body) // BLOCK * BLOCK].cast("Q").tolist()
        found: frozenset[str] = frozenset()
        if not self._blocks.keys().isdisjoint(read):
            found = frozenset(secret for block in self._blocks.keys() & read for secret in self._blocks[block])
        return found | self._cut_in(body) if _CUT_BYTES in body else found

    def _cut_in(self, body: bytes) -> frozenset[str]:
        """Those of which a part is left at a mark."""
        first, *others = body.decode("utf-8", "replace").split(CUT)
        sides = [first[-LONGEST_PART:].rstrip("'\" ")[-LONG:], *(part.lstrip("'\" ")[:LONG] for part in others)]
        sides += [part[-LONGEST_PART:].rstrip("'\" ")[-LONG:] for part in others]
        whole = [side for side in sides if len(side) == LONG]
        return frozenset(secret for secret in list(self._of) if any(side in secret for side in whole))


class KnownSecrets:
    """The secrets that are known by now. `secrets` is asked each time, because there may be others since: another
    collection, or the same with more in it. `tokens` are those that come and go.
    """

    def __init__(self, secrets: Callable[[], Collection[str]], tokens: LongSecrets | None = None) -> None:
        self._secrets = secrets
        self._tokens = LongSecrets() if tokens is None else tokens
        self._known: tuple[Collection[str], int] = ((), -1)
        self._few = SecretForms(())

    def __bool__(self) -> bool:
        return bool(self._tokens) or bool(self._forms)

    @property
    def _forms(self) -> SecretForms:
        secrets = self._secrets()
        collection, count = self._known
        if secrets is not collection or len(secrets) != count:
            self._known = (secrets, len(secrets))
            self._few = SecretForms(secrets)
        return self._few

    def text(self, text: str) -> str:
        text = self._forms.text(text)
        if self._tokens and (found := self._tokens.perhaps_in(text.encode("utf-8", "surrogatepass"))):
            text = _forms_of(found).text(text)
        return text

    def json(self, raw: Raw, *, was_cut: bool = False) -> Raw:
        """JSON without them, as `SecretForms.json`."""
        if forms := self._forms:
            raw = forms.json(raw, was_cut=was_cut)
        if self._tokens and (found := self._tokens.perhaps_in(bytes(raw))):
            raw = _forms_of(found).json(raw, was_cut=was_cut)
        return raw


@lru_cache(maxsize=256)
def _forms_of(secrets: frozenset[str]) -> SecretForms:
    return SecretForms(secrets)


def _blocks_of(form: str) -> Iterable[int]:
    """The blocks of the text that a secret may be found by, wherever the secret begins."""
    tail = form.encode("utf-8", "surrogatepass")[1 - 2 * BLOCK :]
    return (int.from_bytes(tail[start : start + BLOCK], sys.byteorder) for start in range(len(tail) - BLOCK + 1))


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
