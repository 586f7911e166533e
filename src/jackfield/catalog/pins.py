"""Whether a foreign tool is still the one that was first seen, or that a person accepted since. Pure.

A tool that comes with its server's own `definition` is pinned by it. One whose definition differs from its pin is
*held*: it keeps its name, is offered to nobody, and calls of it are refused until a person accepts the change. So is a
new one that `merge.py` or the operator's `on_new` will not have offered unseen; it is pinned to nothing meanwhile.
Above: `merge.py`, which leaves held tools out, and `pinning.py`, which reads and writes pins. Below: nothing.
"""

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.catalog.names import CatalogNotice, Identity
from jackfield.errors import DefinitionChanged, Refused, Unavailable
from jackfield.protocol.json_bodies import UNREADABLE

UNPINNED_KEYS = frozenset({"_meta"})
"""What a server may say anew with every listing; no agent sees it."""
MOST_NAMED = 5
MOST_COMPARED = 2_000
"""Lines that are compared one by one; in more than that, what differs is shown as a whole."""
CONTEXT = 3

_encode_canonically = msgspec.json.Encoder(order="sorted").encode


class Definition(Struct, frozen=True, kw_only=True):
    """A tool's definition as it is pinned: canonical JSON, and its digest."""

    digest: str
    text: str


UNSEEN = Definition(digest="", text="")
"""What a new tool is pinned to until a person accepts it."""


class Pins(Struct, frozen=True, kw_only=True):
    """Every pin, as far as this gateway knows."""

    stored: Mapping[Identity, str] | None = None
    """The digests in the store. None: not read yet, so nobody knows what has changed and every foreign tool is held."""
    unwritten: Mapping[Identity, Definition] = {}
    """What was seen first here, and is not in the store yet."""
    accepting: frozenset[str] = frozenset()
    """Sources whose changes the operator takes unseen."""
    holding_new: frozenset[str] = frozenset()
    """Sources whose new tools, after those of the first listing, the operator wants to see first."""
    listed: frozenset[str] = frozenset()
    """Sources that have a pin."""
    waiting: frozenset[Identity] = frozenset()
    """New tools that nobody has accepted yet."""
    refused: Mapping[Identity, str] = {}
    """The digests of definitions that a person refused."""

    def holds(self, identity: Identity, digest: str, *, accepting: frozenset[str] = frozenset()) -> bool:
        """Whether a tool with this definition may not be offered."""
        if identity[0] in self.accepting or identity[0] in accepting:
            return False
        return self.stored is None or self.digest(identity) not in (None, digest)

    def is_refused(self, identity: Identity, digest: str) -> bool:
        """Whether a person refused just this definition, which is held then."""
        return self.refused.get(identity) == digest

    def awaits(self, identity: Identity) -> bool:
        """Whether the tool is new, and nobody has accepted it yet."""
        return identity in self.waiting

    def holds_new(self, identity: Identity) -> bool:
        """Whether the tool is new at a source whose new tools a person wants to see first."""
        source = identity[0]
        return source in self.holding_new and source in self.listed and self.digest(identity) is None

    def digest(self, identity: Identity) -> str | None:
        """What the tool is pinned to; None: it has never been seen."""
        pinned = (self.stored or {}).get(identity)
        if pinned is None and (first := self.unwritten.get(identity)) is not None:
            return first.digest
        return pinned

    def reading(self, stored: Mapping[Identity, str], refused: Mapping[Identity, str]) -> "Pins":
        """With what the store holds now. Where it has a pin, that one counts, whoever was first here."""
        unwritten = {identity: first for identity, first in self.unwritten.items() if identity not in stored}
        listed = frozenset(source for source, _ in (*stored, *unwritten))
        waiting = frozenset(
            {identity for identity, digest in stored.items() if digest == UNSEEN.digest}
            | {identity for identity, first in unwritten.items() if first is UNSEEN}
        )
        return msgspec.structs.replace(
            self, stored=stored, unwritten=unwritten, listed=listed, waiting=waiting, refused=refused
        )

    def seeing(self, sightings: Iterable[tuple[Identity, Raw]], *, held: AbstractSet[Identity] = frozenset()) -> "Pins":
        """With a pin for each of these tools that has none; those that are held are pinned to nothing."""
        if self.stored is None:
            return self
        new = {
            identity: UNSEEN if identity in held else pinnable(raw)
            for identity, raw in sightings
            if self.digest(identity) is None
        }
        if not new:
            return self
        listed = self.listed | {source for source, _ in new}
        waiting = self.waiting | {identity for identity, first in new.items() if first is UNSEEN}
        return msgspec.structs.replace(self, unwritten={**self.unwritten, **new}, listed=listed, waiting=waiting)


def pinnable(raw: Raw) -> Definition:
    """A definition as its server gave it, in the form that is pinned. The order of keys does not count."""
    text = _canonical(raw)
    return Definition(digest=hashlib.sha256(text).hexdigest(), text=text.decode())


def _canonical(raw: Raw) -> bytes:
    try:
        value = msgspec.json.decode(raw)
        if isinstance(value, dict):
            value = {key: inner for key, inner in value.items() if key not in UNPINNED_KEYS}
        return _encode_canonically(value)
    except UNREADABLE:
        return msgspec.json.encode(bytes(raw).decode("utf-8", "replace"))


def refusal(
    name: str,
    source: str,
    *,
    pins_are_known: bool,
    is_new: bool = False,
    is_refused: bool = False,
    what: str = "Tool",
) -> Refused:
    """What a caller of a held tool is told."""
    if is_refused and pins_are_known:
        return DefinitionChanged(
            f"{what} '{name}' is held: an administrator refused the definition that '{source}' offers. It is offered "
            "again when the source takes that back, or when an administrator accepts it after all."
        )
    if is_new:
        return DefinitionChanged(
            f"{what} '{name}' is held: it is new at '{source}', and nobody has accepted it yet. An administrator looks "
            f"at it and accepts it with 'jackfield accept {name if what == 'Tool' else source}'."
        )
    if not pins_are_known:
        return Unavailable(
            f"{what} '{name}' of '{source}' is not offered: what it was before cannot be read from the store, so "
            "nobody knows whether it changed. Try again in a moment."
        )
    return DefinitionChanged(
        f"{what} '{name}' is held: '{source}' changed its definition. An administrator sees the change and accepts it "
        f"with 'jackfield accept {name if what == 'Tool' else source}'."
    )


def held_notices(
    held: Iterable[tuple[str, str]], *, pins_are_known: bool, what: str = "Tool"
) -> Iterator[CatalogNotice]:
    """One notice for each source with held tools, given as (source, public name)."""
    for source, names in _by_source(held).items():
        why = (
            f"its definition changed. 'jackfield accept {source}' shows the change and takes it."
            if pins_are_known
            else "what they were before cannot be read from the store. That is tried again; see the gateway's log."
        )
        yield CatalogNotice(
            public_name=names[0], sources=(source,), message=f"Held of '{source}': {_counted(names, what)}; {why}"
        )


def new_notices(held: Iterable[tuple[str, str]], *, what: str = "Tool") -> Iterator[CatalogNotice]:
    """One notice for each source with new tools that wait to be accepted, given as (source, public name)."""
    for source, names in _by_source(held).items():
        message = (
            f"Held of '{source}': {_counted(names, what)}; new, and not accepted yet. 'jackfield accept {source}' "
            "shows what is new and takes it."
        )
        yield CatalogNotice(public_name=names[0], sources=(source,), message=message)


def _by_source(held: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    by_source: dict[str, list[str]] = {}
    for source, name in sorted(held):
        by_source.setdefault(source, []).append(name)
    return by_source


def _counted(names: Sequence[str], what: str) -> str:
    word = what.lower()
    return f"{word} {_listed(names)}" if len(names) == 1 else f"{len(names)} {word}s ({_listed(names)})"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(f"'{name}'" for name in names[:MOST_NAMED]) + more


def diff_of(pinned: str, offered: str) -> str:
    """A unified diff of two definitions as people read JSON; characters that do not show are told by their number.

    Foreign text must not be able to keep us busy, so that only the middle that differs is compared, if it is short.
    """
    before, after = _lines(pinned), _lines(offered)
    if before == after:
        return ""
    if max(len(before), len(after)) <= MOST_COMPARED:
        told = difflib.unified_diff(before, after, "pinned", "offered", n=CONTEXT, lineterm="")
        return "\n".join(told)
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    gone, come = before[first : len(before) - last], after[first : len(after) - last]
    head = ["--- pinned", "+++ offered", f"@@ -{first + 1},{len(gone)} +{first + 1},{len(come)} @@"]
    return "\n".join([*head, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines the two begin with alike."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _lines(text: str) -> list[str]:
    if not text:
        return []
    value: Any = msgspec.json.decode(text)
    return [_shown(line) for line in json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")]


def _shown(line: str) -> str:
    """Non-printing characters as JSON escapes, which is what they could have been written as."""
    return line if line.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
