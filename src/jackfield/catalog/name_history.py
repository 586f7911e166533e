"""The names that tools have had: a public name stays with its tool, across restarts and at every gateway. Pure.

Above: `catalog.py`, which names tools by them, and `pinning.py`, which reads and writes them. Below: `names.py`.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct

from jackfield.catalog.kinds import PROMPT, prompt_names
from jackfield.catalog.merge import Snapshot
from jackfield.catalog.names import Identity, KeptName, KeptNames
from jackfield.sources.base import Listing


class Names(Struct, frozen=True, kw_only=True):
    """Every name that is kept for a tool, as far as this gateway knows."""

    stored: KeptNames = {}
    current: KeptNames = {}
    """As this gateway gives them out."""
    freed: KeptNames = {}
    """What is stored and does not hold any more."""
    given_up: KeptNames = {}
    """What was freed here and is in the store all the same, or comes into it by a write that is under way."""
    unwritten: KeptNames = {}
    """What holds and is not stored yet."""
    prompts: KeptNames = {}
    """The names of prompts among `current`, without the mark."""

    def reading(self, stored: KeptNames) -> "Names":
        """With what the store holds now, which counts; what was never in it stays where its name is free.

        What was freed here stays free, also where the store was read, or written, a moment before.
        """
        held = {
            one: known
            for one, known in stored.items()
            if (freed := self.given_up.get(one)) is None or freed.name != known.name
        }
        taken = {known.name for known in held.values()}
        new = {
            one: known
            for one, known in self.current.items()
            if one not in stored and one not in self.stored and known.name not in taken
        }
        return _names(stored, {**held, **new}, given_up=self.given_up)

    def following(self, snapshot: Snapshot, prompts: Snapshot) -> "Names":
        """With the names of all tools and prompts that are listed now. Those who are not keep theirs."""
        listed = self._listed(snapshot) | self._listed(prompts, mark=PROMPT)
        taken = {known.name for known in listed.values()}
        away = {one: known for one, known in self.current.items() if one not in listed and known.name not in taken}
        current = {**away, **listed}
        return self if current == self.current else _names(self.stored, current, given_up=self.given_up)

    def freeing(self, gone: AbstractSet[Identity]) -> "Names":
        """Without the names of those tools, which others can have now."""
        if not gone:
            return self
        kept = {one: known for one, known in self.current.items() if one not in gone}
        given_up = {one: known for one, known in self.current.items() if one in gone}
        return _names(self.stored, kept, given_up={**self.given_up, **given_up})

    def forgetting(self, given_up: KeptNames) -> "Names":
        """After the store was read past every write that knew these names: what it has not does not come any more."""
        left = {
            one: known for one, known in self.given_up.items() if one in self.stored or given_up.get(one) is not known
        }
        return self if len(left) == len(self.given_up) else msgspec.structs.replace(self, given_up=left)

    def _listed(self, snapshot: Snapshot, *, mark: str = "") -> dict[Identity, KeptName]:
        return {
            (source, mark + tool): self._named((source, mark + tool), snapshot, (source, tool), mark)
            for source, tool in snapshot.naming.names
        }

    def _named(self, key: Identity, snapshot: Snapshot, one: Identity, mark: str) -> KeptName:
        name, wish = mark + snapshot.naming.names[one], snapshot.naming.wishes[one]
        is_foreign = snapshot.checked[one].digest is not None
        known = self.current.get(key)
        if known is not None and (known.name, known.wish, known.is_foreign) == (name, wish, is_foreign):
            return known
        return KeptName(name=name, wish=wish, is_foreign=is_foreign)


def _names(stored: KeptNames, current: KeptNames, *, given_up: KeptNames) -> Names:
    return Names(
        stored=stored,
        current=current,
        freed=_besides(stored, current),
        given_up={one: known for one, known in given_up.items() if one not in current},
        unwritten=_besides(current, stored),
        prompts=prompt_names(current),
    )


def _besides(these: KeptNames, others: KeptNames) -> KeptNames:
    """What `these` have otherwise, or `others` have not."""
    return {
        one: known
        for one, known in these.items()
        if (other := others.get(one)) is not known and (other is None or other != known)
    }


def freed_by(before: Snapshot, listings: Mapping[str, Listing], *, sources: AbstractSet[str]) -> set[Identity]:
    """The tools of `sources` that are removed now; the operator's own that were listed before and were taken away.

    A tool that is missing while its source has a fault is most likely the fault. What a foreign server does not list
    at the moment keeps its name, so that no other server can take it meanwhile.
    """
    listed = {name: {tool.name for tool in listing.tools} for name, listing in listings.items() if not listing.faults}
    return {
        (source, tool)
        for source, tool in before.by_identity
        if (source in sources and source not in listings)
        or (source in listed and tool not in listed[source] and before.checked[source, tool].digest is None)
    }
