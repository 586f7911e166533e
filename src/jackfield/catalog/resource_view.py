"""What one key sees of the resources and templates of all sources, and which source reads a URI.

Above: `catalog.py`, and the handlers that list and read. Below: `resources.py`. Immutable: it shows one moment.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from jackfield.catalog.merge import Entry
from jackfield.catalog.names import neighbours
from jackfield.catalog.pins import refusal
from jackfield.catalog.resources import LONGEST_URI, WHAT, OfferedResource, OfferedTemplate, ResourceSnapshot
from jackfield.catalog.skills import Directories, OfferedSkill
from jackfield.catalog.view import MAX_HINTED, Visibility
from jackfield.errors import ResourceNotFound
from jackfield.model.resource import SCHEME, qualified, unqualified
from jackfield.model.text import nearest
from jackfield.sources.foreign import is_plain, shown

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")


class ResourceView:
    """What one key sees of them. Immutable."""

    def __init__(
        self, snapshot: ResourceSnapshot, *, sight: Visibility, unlisted: AbstractSet[str] = frozenset()
    ) -> None:
        """`unlisted`: sources whose resources are found, and not listed."""
        self.snapshot = snapshot
        self._sight = sight
        self._unlisted = unlisted
        whole = sight.is_whole and not unlisted
        self.resources = (
            snapshot.resources
            if whole
            else tuple(one for one in snapshot.resources if self._lists(one.source, one.own_uri))
        )
        """Sorted by URI."""
        self.templates = (
            snapshot.templates
            if whole
            else tuple(one for one in snapshot.templates if self._lists(one.source, one.own_template))
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could be read."""
        return not (self.resources or self.templates or self._readers)

    @cached_property
    def _readers(self) -> tuple[str, ...]:
        return tuple(source for source in self.snapshot.readers if self._lists(source, ""))

    @cached_property
    def sources(self) -> frozenset[str]:
        """Those with anything that could be read."""
        return frozenset().union(self._readers, *self._by_scheme.values())

    @cached_property
    def _uris(self) -> tuple[str, ...]:
        return tuple(one.uri for one in self.resources)

    @cached_property
    def _by_scheme(self) -> Mapping[str | None, frozenset[str]]:
        """Which sources have resources or templates of each scheme."""
        found: dict[str | None, set[str]] = {}
        for resource in self.resources:
            found.setdefault(_scheme(resource.own_uri), set()).add(resource.source)
        for template in self.templates:
            found.setdefault(_scheme(template.own_template), set()).add(template.source)
        return {scheme: frozenset(sources) for scheme, sources in found.items()}

    def _lists(self, source: str, uri: str) -> bool:
        return source not in self._unlisted and self._sees(source, uri)

    def _sees(self, source: str, uri: str) -> bool:
        return self._sight.sees_resource(source, uri)

    def page(self, after: str | None, *, size: int) -> tuple[Sequence[OfferedResource], str | None]:
        """The resources after this URI, and the last of them if there are more."""
        start = 0 if after is None else bisect_right(self.resources, after, key=lambda one: one.uri)
        found = self.resources[start : start + size]
        return found, found[-1].uri if start + size < len(self.resources) else None

    def find(self, uri: str) -> Entry:
        """What a call that reads this URI uses. Raises `ResourceNotFound`; for a held template `DefinitionChanged`."""
        if len(uri) > LONGEST_URI or not is_plain(uri):
            raise self._not_found(uri)
        listed = self.snapshot.by_uri.get(uri)
        if listed is not None and self._sees(listed.source, listed.own_uri):
            return self.snapshot.read(listed.source, listed.own_uri)
        of_skill = self.snapshot.skills.files.get(uri)
        if of_skill is not None and self._sees(*of_skill):
            return self.snapshot.read(*of_skill)
        fitting = [one for one in self.templates if _has(one, uri) and self._sees(one.source, one.own_uri(uri))]
        if fitting:
            best = max(fitting, key=lambda one: one.literal)
            return self.snapshot.read(best.source, best.own_uri(uri))
        self._refuse_held(uri)
        named = unqualified(uri)
        source, own_uri = named if named is not None else (self._reader_of(uri), uri)
        if source is None or not is_plain(own_uri) or not self._reads(source, own_uri):
            raise self._not_found(uri)
        return self.snapshot.read(source, own_uri)

    @cached_property
    def skills(self) -> tuple[OfferedSkill, ...]:
        """Sorted by URI."""
        every = self.snapshot.skills.skills
        if self._sight.is_whole and not self._unlisted:
            return every
        return tuple(one for one in every if self._lists(one.source, one.skill.uri))

    def skill(self, uri: str) -> OfferedSkill | None:
        """The listed skill that is offered as this."""
        found = self.snapshot.skills.by_uri.get(uri)
        return found if found is not None and self._sees(found.source, found.skill.uri) else None

    def skill_readers(self, uri: str) -> tuple[str, ...]:
        """Sources that may have a skill at this URI although they do not list it."""
        return tuple(source for source in self.snapshot.skills.readers if self._sees(source, uri))

    @cached_property
    def directories(self) -> Directories:
        """What the directories of these skills have."""
        return Directories(self.skills)

    def sees(self, source: str, uri: str) -> bool:
        """Whether a URI of this source is the key's to know."""
        return self._sees(source, uri)

    def is_within(self, limits: Visibility, source: str) -> bool:
        """Whether all that can be read of this source could be read within these limits, too."""
        own = [one.own_uri for one in self.resources if one.source == source]
        own += [one.own_template for one in self.templates if one.source == source]
        own += [""] if source in self._readers else []
        return all(limits.is_within_limits("", source=source, foreign=uri) for uri in own)

    def template(self, template: str) -> OfferedTemplate | None:
        """The template that is offered as this."""
        return next((one for one in self.templates if one.template == template), None)

    def _reads(self, source: str, own_uri: str) -> bool:
        """Whether a source reads this URI of its own, which is not listed as it was asked for.

        Raises `DefinitionChanged` where only a held template of it has that.
        """
        listed = self.snapshot.by_uri.get(own_uri)
        if listed is None or listed.source != source:
            listed = self.snapshot.by_uri.get(qualified(source, own_uri))
        has = listed is not None or any(one.source == source and one.fits_own(own_uri) for one in self.templates)
        if not has:
            self._refuse_held(own_uri, source=source)
        return (has or source in self._readers) and self._sees(source, own_uri)

    def _refuse_held(self, uri: str, *, source: str | None = None) -> None:
        for one in self.snapshot.held:
            is_meant = _has(one, uri) if source is None else one.source == source and one.fits_own(uri)
            if is_meant and self._sees(one.source, uri if source is not None else one.own_uri(uri)):
                is_new = one.identity in self.snapshot.held_as_new
                known = self.snapshot.pins_are_known
                raise refusal(
                    one.template,
                    one.source,
                    pins_are_known=known,
                    is_new=is_new,
                    is_refused=one.identity in self.snapshot.refused,
                    what=WHAT,
                )

    def _reader_of(self, uri: str) -> str | None:
        """The source that a URI which nobody lists belongs to: the only one with resources of its scheme, or at all."""
        readers = [source for source in self._readers if self._sees(source, uri)]
        alike = self._by_scheme.get(_scheme(uri), frozenset())
        candidates = [source for source in readers if source in alike] or readers
        return candidates[0] if len(candidates) == 1 else None

    def hint(self, uri: str) -> str:
        """` Did you mean …?`, where a listed URI is near."""
        return nearest(uri, neighbours(uri, self._uris)) if len(uri) <= MAX_HINTED else ""

    def _not_found(self, uri: str) -> ResourceNotFound:
        return ResourceNotFound(
            f"There is no resource {shown(uri)}.{self.hint(uri)} List the resources to see those this key may read."
        )


def _has(template: OfferedTemplate, uri: str) -> bool:
    """Whether the URI is one of the template's. `{+any}` does not mean the gateway's own."""
    return template.template.startswith(SCHEME) == uri.startswith(SCHEME) and template.fits(uri)


def _scheme(uri: str) -> str | None:
    found = _SCHEME.match(uri)
    return None if found is None else found[0].lower()


def changed_for(sight: Visibility, changes: Iterable[tuple[str, str]]) -> bool:
    """Whether the lists differ for whoever has this sight."""
    return any(sight.sees_resource(source, uri) for source, uri in changes)
