"""Public names: every tool of the catalog gets one that is legal, unique and the same in every process.

Above: `merge.py`. Below: nothing. A pure function of what the sources offer, in config order:

1. A tool asks for its own name, made legal. The first source in config order keeps it. Inside one source the exact
   spelling comes before one that had to be changed (`a_b` before `a-b`), then alphabetical order decides, so that
   the order in which a source happens to list its tools changes nothing.
2. Who does not get that name becomes `{source}_{name}`: a later source, a tool called like a path word of the HTTP
   API, a tool that is called like a built-in and is none.
3. Where that is taken too, the name ends in a hash of (source, name).

Own names come before derived ones, so a tool that is really called `local_weather` keeps its name although the
`weather` of `local` would have liked it. Making a name legal (`a-b` → `a_b`, long names cut and hashed) is not
reported: every second MCP server needs it and the foreign spelling stays callable. Renamings are.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from jackfield.model.tool import BUILTIN_NAMES

MAX_NAME = 64
PATH_WORDS = frozenset({"search", "set", "changes", "scenarios", "config", "refresh", "execute"})
"""Words that stand where a tool's name stands in `/api/v1/tools/…`."""
BUILTIN_SOURCE = "builtin"

_LEGAL = re.compile(rf"(?=_*[a-zA-Z0-9])[a-zA-Z0-9_]{{1,{MAX_NAME}}}")
_SAYS_SOMETHING = re.compile(r"[a-zA-Z0-9]")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_]")
_HASH = 8
_REACH = 32
_SHOWN = 80

Identity = tuple[str, str]
"""(source, name as its owner spells it)."""


class Notice(Struct, frozen=True, kw_only=True):
    """Something in the catalog that its operator should know: what, whose, and the cure."""

    public_name: str
    sources: tuple[str, ...]
    message: str


class Naming(Struct, frozen=True, kw_only=True):
    """Who is called what."""

    names: dict[Identity, str]
    notices: tuple[Notice, ...]


def public_names(offers: Sequence[tuple[str, Iterable[str]]], *, prefixes: Mapping[str, str] | None = None) -> Naming:
    """Names for all tools that `offers` (source, foreign names) has, in config order.

    `prefixes` are the operator's, by source; they stand before the foreign name from the start.
    """
    given = prefixes or {}
    owners: dict[str, Identity] = {}
    names: dict[Identity, str] = {}
    losers: list[tuple[Identity, str, str]] = []
    for source, foreign_names in offers:
        prefix = given.get(source, "")
        for wish, foreign in _wishes(foreign_names, prefix):
            identity = (source, foreign)
            if wish in owners or _is_reserved(wish, source):
                losers.append((identity, wish, prefix + foreign))
            else:
                owners[wish] = identity
                names[identity] = wish
    notices = [_nameless(identity, name) for identity, name in names.items() if _is_nameless(identity, given)]
    for identity, wish, spelled in losers:
        name = _derived(identity, spelled, owners)
        notices.append(_renaming(identity, wish=wish, name=name, keeper=owners.get(wish)))
        owners[name] = identity
        names[identity] = name
    return Naming(names=names, notices=tuple(notices))


def legal(name: str) -> str:
    """`name` in `[a-zA-Z0-9_]{1,64}`. What has neither a letter nor a digit of ASCII is named after its hash."""
    if _LEGAL.fullmatch(name):
        return name
    changed = _FOREIGN.sub("_", name)
    if not _SAYS_SOMETHING.search(changed):
        return f"tool_{_digest(name)}"
    return changed if len(changed) <= MAX_NAME else _with_hash(changed, name)


def shown(foreign: str) -> str:
    """A foreign name as a sentence may carry it: printable, and not a page long."""
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in foreign[:_SHOWN])
    return printable + ("…" if len(foreign) > _SHOWN else "")


def neighbours(word: str, ordered: Sequence[str]) -> list[str]:
    """The few names of an ordered list that stand next to `word`: enough for a hint, cheap among 10,000."""
    place = bisect_left(ordered, word)
    return list(ordered[max(0, place - _REACH) : place + _REACH])


def _wishes(foreign_names: Iterable[str], prefix: str) -> list[tuple[str, str]]:
    """(wish, foreign name) of one source, those that are spelled legally first, otherwise alphabetical."""
    wishes = [(legal(prefix + foreign), foreign) for foreign in dict.fromkeys(foreign_names)]
    wishes.sort(key=lambda pair: (pair[0] != prefix + pair[1], pair[1]))
    return wishes


def _is_reserved(name: str, source: str) -> bool:
    return name in PATH_WORDS or (name in BUILTIN_NAMES and source != BUILTIN_SOURCE)


def _derived(identity: Identity, spelled: str, owners: Mapping[str, Identity]) -> str:
    source, foreign = identity
    base = legal(f"{source}_{spelled}")
    name, tries = base, 0
    while name in owners or _is_reserved(name, source):
        name = _with_hash(base, f"{source}\0{foreign}\0{tries}" if tries else f"{source}\0{foreign}")
        tries += 1
    return name


def _with_hash(name: str, hashed: str) -> str:
    return f"{name[: MAX_NAME - _HASH - 1]}_{_digest(hashed)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _is_nameless(identity: Identity, prefixes: Mapping[str, str]) -> bool:
    source, foreign = identity
    return not (_SAYS_SOMETHING.search(foreign) or _SAYS_SOMETHING.search(prefixes.get(source, "")))


def _renaming(identity: Identity, *, wish: str, name: str, keeper: Identity | None) -> Notice:
    source, foreign = identity[0], shown(identity[1])
    if wish in PATH_WORDS:
        return Notice(
            public_name=name,
            sources=(source,),
            message=f"Tool '{foreign}' of '{source}' is called like a word of the HTTP API, so it is '{name}'. "
            "Rename it at its source, or set a prefix there.",
        )
    if wish in BUILTIN_NAMES and source != BUILTIN_SOURCE:
        return Notice(
            public_name=name,
            sources=(BUILTIN_SOURCE, source),
            message=f"Tool '{wish}' is offered by both '{BUILTIN_SOURCE}' and '{source}'. '{BUILTIN_SOURCE}' keeps the "
            f"name, as with all built-in tools; the other is '{name}'. Set a prefix on '{source}'.",
        )
    assert keeper is not None, f"'{wish}' of '{source}' was refused although nobody has it"
    if keeper[0] == source:
        return Notice(
            public_name=name,
            sources=(source,),
            message=f"Tools '{shown(keeper[1])}' and '{foreign}' of '{source}' would both be '{wish}'. "
            f"'{shown(keeper[1])}' keeps the name; the other is '{name}'. Rename one of them.",
        )
    return Notice(
        public_name=name,
        sources=(keeper[0], source),
        message=f"Tool '{wish}' is offered by both '{keeper[0]}' and '{source}'. '{keeper[0]}' keeps the name; "
        f"the other is '{name}'. Set a prefix on one of them.",
    )


def _nameless(identity: Identity, name: str) -> Notice:
    source, foreign = identity[0], shown(identity[1])
    return Notice(
        public_name=name,
        sources=(source,),
        message=f"Tool '{foreign}' of '{source}' has no letter or digit that a public name may carry, so it is "
        f"'{name}'. Rename it at its source, or set a prefix there.",
    )
