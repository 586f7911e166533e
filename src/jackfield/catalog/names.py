"""Public names: every tool of the catalog gets one that is legal, unique and the same in every process.

Above: `merge.py`. Below: nothing. A pure function of what the sources offer, in config order, and of the names that
tools have had before (`kept`, which the store keeps across restarts):

1. The operator's own tools ask for their own names, made legal; one that has had it before comes first, then the first
   in config order. Inside one source the exact spelling comes before one that had to be changed (`a_b` before `a-b`),
   then alphabetical order decides, so that the order in which a source happens to list its tools changes nothing.
2. A foreign tool keeps the name it has had, unless a tool of the operator's own is called so now.
3. A foreign newcomer gets its own name if nobody has it, also nobody who is not listed at the moment.
4. Who does not get that name becomes `{source}_{name}`, also a tool that is called like a path word of the HTTP API or
   like one of the gateway's own tools. Where that is taken too, the name ends in a hash of (source, name).

Own names come before derived ones, so a tool that is really called `local_weather` keeps its name although the
`weather` of `local` would have liked it. Making a name legal (`a-b` → `a_b`, long names cut and hashed) is not
reported: every second MCP server needs it and the foreign spelling stays callable. Renamings are.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from jackfield.model.tool import BUILTIN, RESERVED_NAMES

MAX_NAME = 64
PATH_WORDS = frozenset({"search", "set", "changes", "scenarios", "config", "refresh", "execute"})
"""Words that stand where a tool's name stands in `/api/v1/tools/…`."""

_LEGAL = re.compile(rf"(?=_*[a-zA-Z0-9])[a-zA-Z0-9_]{{1,{MAX_NAME}}}")
_SAYS_SOMETHING = re.compile(r"[a-zA-Z0-9]")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_]")
_FOREIGN_TO_MCP = re.compile(r"[^a-zA-Z0-9_-]")
_HASH = 8
_REACH = 32
_SHOWN = 80

Identity = tuple[str, str]
"""(source, name as its owner spells it)."""


class CatalogNotice(Struct, frozen=True, kw_only=True):
    """Something in the catalog that its operator should know: what, whose, and the cure."""

    public_name: str
    sources: tuple[str, ...]
    message: str


class KeptName(Struct, frozen=True, kw_only=True):
    """The name that a tool has had, kept for it."""

    name: str
    wish: str
    """What it asked for then: one that asks for another name now (its source has another prefix) is named anew."""
    is_foreign: bool = False


KeptNames = Mapping[Identity, KeptName]


class Naming(Struct, frozen=True, kw_only=True):
    """Who is called what."""

    names: dict[Identity, str]
    wishes: dict[Identity, str]
    foreign: AbstractSet[Identity] = frozenset()
    """Those that are not the operator's own."""
    refused: dict[Identity, Identity]
    """Foreign tools without a name of their own until now, whose wish is another tool's, with whose it is."""
    notices: tuple[CatalogNotice, ...]

    def is_of(self, tools: Mapping[Identity, object], foreign: AbstractSet[Identity]) -> bool:
        """Whether it names these tools and no others."""
        return self.names.keys() == tools.keys() and self.foreign == foreign


class _Wish(Struct, frozen=True):
    identity: Identity
    name: str
    spelled: str
    """With the prefix, as its owner spells it."""


class _Book:
    """Names as they are given out, one after another."""

    def __init__(self, kept: KeptNames) -> None:
        self.kept = kept
        self.owners: dict[str, Identity] = {}
        self.names: dict[Identity, str] = {}

    def give(self, identity: Identity, name: str) -> bool:
        """Whether the tool has the name now: nobody else has it, and it is not the gateway's own."""
        if name in self.owners or is_reserved(name, identity[0]):
            return False
        self.owners[name] = identity
        self.names[identity] = name
        return True

    def kept_by(self, wish: _Wish) -> str | None:
        """The name that the tool has had, if it still asks for the same one."""
        known = self.kept.get(wish.identity)
        return known.name if known is not None and known.wish == wish.name else None


def public_names(
    offers: Sequence[tuple[str, Iterable[str]]],
    *,
    prefixes: Mapping[str, str] | None = None,
    kept: KeptNames | None = None,
    foreign: AbstractSet[Identity] = frozenset(),
    what: str = "Tool",
) -> Naming:
    """Names for all tools that `offers` (source, foreign names) has, in config order.

    `prefixes` are the operator's, by source; they stand before the foreign name from the start. `foreign` are the
    tools that are not the operator's own. `what`: what notices call them.
    """
    given = prefixes or {}
    book = _Book(kept or {})
    wishes = [wish for source, names in offers for wish in _wishes(source, names, given.get(source, ""))]
    own = [wish for wish in wishes if wish.identity not in foreign]
    strangers = [wish for wish in wishes if wish.identity in foreign]
    asked_for = {wish.identity: wish.name for wish in wishes}
    away = {known.name: one for one, known in book.kept.items() if one not in asked_for}
    losers = _name_own(book, own, away)
    lost = _name_foreign(book, strangers, away)
    refused = {
        wish.identity: holder
        for wish in lost
        if book.kept_by(wish) is None and (holder := book.owners.get(wish.name) or away.get(wish.name)) is not None
    }
    notices = [
        _nameless(identity, name, what) for identity, name in book.names.items() if _is_nameless(identity, given)
    ]
    for wish in (*losers, *lost):
        if wish.identity not in book.names:
            book.give(wish.identity, _derived(wish, book.owners.keys() | away.keys()))
        owner = book.owners.get(wish.name) or away.get(wish.name)
        notices.append(_renaming(wish.identity, wish=wish.name, name=book.names[wish.identity], owner=owner, what=what))
    return Naming(names=book.names, wishes=asked_for, foreign=foreign, refused=refused, notices=tuple(notices))


def _name_own(book: _Book, own: Sequence[_Wish], away: Mapping[str, Identity]) -> list[_Wish]:
    """Give the operator's own tools their names, and say who did not get his."""
    for wish in own:
        if book.kept_by(wish) == wish.name:
            book.give(wish.identity, wish.name)
    blocked = {name for name, one in away.items() if not book.kept[one].is_foreign}
    lost = [
        wish
        for wish in own
        if wish.identity not in book.names and (wish.name in blocked or not book.give(wish.identity, wish.name))
    ]
    for wish in lost:
        if (name := book.kept_by(wish)) is not None and name != wish.name:
            book.give(wish.identity, name)
    return lost


def _name_foreign(book: _Book, strangers: Sequence[_Wish], away: Mapping[str, Identity]) -> list[_Wish]:
    """Give foreign tools the names they have had, then newcomers theirs, and say who is not called as he wished."""
    for wish in strangers:
        if (name := book.kept_by(wish)) is not None:
            book.give(wish.identity, name)
    lost = []
    for wish in strangers:
        if wish.identity not in book.names and wish.name not in away:
            book.give(wish.identity, wish.name)
        if book.names.get(wish.identity) != wish.name:
            lost.append(wish)
    return lost


def mcp_name(name: str, *, source: str, spelled: str) -> str:
    """A public name as `/mcp` lists it: with the `-` of its owner's spelling, where that is all that was changed."""
    if "-" not in spelled and "-" not in source:
        return name
    for whole in (spelled, f"{source}_{spelled}"):
        dashed = _FOREIGN_TO_MCP.sub("_", whole)
        if dashed.replace("-", "_") == name:
            return dashed
    return name


def legal(name: str) -> str:
    """`name` in `[a-zA-Z0-9_]{1,64}`. What has neither a letter nor a digit of ASCII is named after its hash."""
    if _LEGAL.fullmatch(name):
        return name
    changed = _FOREIGN.sub("_", name)
    if not _SAYS_SOMETHING.search(changed):
        return f"tool_{_digest(name)}"
    return changed if len(changed) <= MAX_NAME else _with_hash(changed, name)


def distinct(name: str, *, spelled: str, taken: AbstractSet[str]) -> str:
    """`name`, or if it is taken, one that ends in a hash of how its owner spells it."""
    hashed, tries = name, 0
    while hashed in taken:
        hashed = _with_hash(name, f"{spelled}\0{tries}" if tries else spelled)
        tries += 1
    return hashed


def shown(foreign: str) -> str:
    """A foreign name as a sentence may carry it: printable, and not a page long."""
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in foreign[:_SHOWN])
    return printable + ("…" if len(foreign) > _SHOWN else "")


def neighbours(word: str, ordered: Sequence[str]) -> list[str]:
    """The few names of an ordered list that stand next to `word`: enough for a hint, cheap among 10,000."""
    place = bisect_left(ordered, word)
    return list(ordered[max(0, place - _REACH) : place + _REACH])


def is_reserved(name: str, source: str = "") -> bool:
    """Whether a name is the gateway's own, so that no tool of this source can have it."""
    return name in PATH_WORDS or (name in RESERVED_NAMES and source != BUILTIN)


def _wishes(source: str, foreign_names: Iterable[str], prefix: str) -> list[_Wish]:
    """What one source's tools ask for, those that are spelled legally first, otherwise alphabetical."""
    wishes = [_Wish((source, one), legal(prefix + one), prefix + one) for one in dict.fromkeys(foreign_names)]
    wishes.sort(key=lambda wish: (wish.name != wish.spelled, wish.identity[1]))
    return wishes


def _derived(wish: _Wish, taken: AbstractSet[str]) -> str:
    source, foreign = wish.identity
    base = legal(f"{source}_{wish.spelled}")
    name, tries = base, 0
    while name in taken or is_reserved(name, source):
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


def _renaming(identity: Identity, *, wish: str, name: str, owner: Identity | None, what: str) -> CatalogNotice:
    source, foreign = identity[0], shown(identity[1])
    if wish in PATH_WORDS:
        return CatalogNotice(
            public_name=name,
            sources=(source,),
            message=f"{what} '{foreign}' of '{source}' is called like a word of the HTTP API, so it is '{name}'. "
            "Rename it at its source, or set a prefix there.",
        )
    if wish in RESERVED_NAMES and source != BUILTIN:
        return CatalogNotice(
            public_name=name,
            sources=(BUILTIN, source),
            message=f"{what} '{wish}' is offered by both '{BUILTIN}' and '{source}'. '{BUILTIN}' keeps the "
            f"name, as with all built-in tools; the other is '{name}'. Set a prefix on '{source}'.",
        )
    if owner is None:
        return CatalogNotice(
            public_name=name,
            sources=(source,),
            message=f"{what} '{foreign}' of '{source}' goes on as '{name}', the name it has had, although nobody else "
            f"is called '{wish}' any more. Set a prefix on '{source}' to have it named anew.",
        )
    if owner[0] == source:
        return CatalogNotice(
            public_name=name,
            sources=(source,),
            message=f"{what}s '{shown(owner[1])}' and '{foreign}' of '{source}' would both be '{wish}'. "
            f"'{shown(owner[1])}' keeps the name; the other is '{name}'. Rename one of them.",
        )
    return CatalogNotice(
        public_name=name,
        sources=(owner[0], source),
        message=f"{what} '{wish}' is offered by both '{owner[0]}' and '{source}'. '{owner[0]}' keeps the name; "
        f"the other is '{name}'. Set a prefix on one of them.",
    )


def _nameless(identity: Identity, name: str, what: str) -> CatalogNotice:
    source, foreign = identity[0], shown(identity[1])
    return CatalogNotice(
        public_name=name,
        sources=(source,),
        message=f"{what} '{foreign}' of '{source}' has no letter or digit that a public name may carry, so it is "
        f"'{name}'. Rename it at its source, or set a prefix there.",
    )
