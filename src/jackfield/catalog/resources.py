"""Resources and their templates: what all sources offer, and what one key sees of it.

Above: `catalog.py`. Below: the listings of sources. Pure. URIs stay as they are; one that two sources have is offered
by the later of them as `jackfield://{source}/{uri}`, where the operator's own come before foreign ones and then the
order of the config decides. Templates are pinned, plain resources are not: what a template is may not change unseen,
what a resource holds is expected to.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.catalog.globs import fits
from jackfield.catalog.merge import Entry, Listings, named_entry
from jackfield.catalog.names import CatalogNotice, Identity, neighbours
from jackfield.catalog.pins import Pins, held_notices, new_notices, pinnable, refusal
from jackfield.catalog.skills import Directories, OfferedSkill, SkillSnapshot, merge_skills
from jackfield.catalog.view import MAX_HINTED, Visibility
from jackfield.errors import ResourceNotFound
from jackfield.model.resource import SCHEME, qualified, read_of, unqualified
from jackfield.model.text import nearest
from jackfield.model.tool import Tool
from jackfield.sources.base import Listing
from jackfield.sources.foreign import is_plain, shown

WHAT = "Template"
LONGEST_URI = 5_000
"""Characters of a URI that somebody asks for: as many as a query string holds, whatever they are."""
LONGEST_ON_RECORD = 2_000
"""Bytes of a URI on a call's record: what an index of any database takes."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_encode = msgspec.json.Encoder().encode


class OfferedResource(Struct, frozen=True, kw_only=True):
    """A resource under the URI that it is offered by."""

    uri: str
    source: str
    own_uri: str
    """As its source names it."""
    listed: dict[str, Any]
    json: bytes
    """As clients are shown it."""


class OfferedTemplate(Struct, frozen=True, kw_only=True):
    """A template under the one that it is offered by."""

    template: str
    source: str
    own_template: str
    """As its source writes it."""
    tool: Tool
    json: bytes
    literals: tuple[str, ...]
    """Of `template`: the text before, between and after its expressions."""
    digest: str | None

    @property
    def identity(self) -> Identity:
        return self.source, self.own_template

    @property
    def literal(self) -> int:
        """How many characters are not left open."""
        return sum(map(len, self.literals))

    def fits(self, uri: str) -> bool:
        """Whether the URI can be had from it, as it is offered."""
        return _fits(self.literals, uri)

    def fits_own(self, uri: str) -> bool:
        """Whether its source's own URI can be had from it."""
        return _fits(_literals(self.own_template), uri)

    def own_uri(self, uri: str) -> str:
        """The source's own URI of one that fits; what was filled in stays as it is."""
        literals, own = self.literals, _literals(self.own_template)
        if len(own) == 1:
            return own[0]
        place, end = len(literals[0]), len(uri) - len(literals[-1])
        parts = [own[0]]
        for literal, own_literal in zip(literals[1:-1], own[1:-1], strict=True):
            found = uri.index(literal, place, end)
            parts += [uri[place:found], own_literal]
            place = found + len(literal)
        return "".join([*parts, uri[place:end], own[-1]])


def _literals(template: str) -> tuple[str, ...]:
    return tuple(_EXPRESSION.split(template))


def _fits(literals: tuple[str, ...], uri: str) -> bool:
    first, *others = literals
    if not others:
        return uri == first
    *middle, last = others
    return fits(first, tuple(filter(None, middle)), last, uri)


class ResourceSnapshot(Struct, frozen=True, kw_only=True):
    """All of them at one moment."""

    resources: tuple[OfferedResource, ...] = ()
    """Sorted by URI."""
    by_uri: dict[str, OfferedResource] = {}
    templates: tuple[OfferedTemplate, ...] = ()
    held: tuple[OfferedTemplate, ...] = ()
    """Templates that wait for a person to accept them."""
    held_as_new: frozenset[Identity] = frozenset()
    readers: tuple[str, ...] = ()
    """Sources whose unlisted URIs can be read too."""
    renamed: dict[tuple[str, str], str] = {}
    """By source and own URI: what is offered under another one."""
    timeouts: dict[str, int] = {}
    """How many milliseconds a read may take, by source, where the operator says so."""
    skills: SkillSnapshot = SkillSnapshot()
    notices: tuple[CatalogNotice, ...] = ()
    made_from: tuple[tuple[str, Listing], ...] = ()
    judged_by: Pins | None = None
    """The pins of templates."""

    @property
    def pins_are_known(self) -> bool:
        return self.judged_by is None or self.judged_by.stored is not None

    def read(self, source: str, uri: str) -> Entry:
        """What a call that reads this resource of this source uses, whoever may."""
        tool = read_of(source, uri, timeout_ms=self.timeouts.get(source))
        return Entry(
            name=_on_record(uri),
            tool=tool,
            version="",
            manifest=b"",
            mcp_name=uri,
            deadline_ms=tool.deadline_ms,
            pending_ms=tool.pending_ms,
            answered_by_others=False,
        )

    def entry_of(self, template: OfferedTemplate) -> Entry:
        """A template as pins are shown and accepted by."""
        return named_entry(template.template, template.tool)

    def is_of(self, offering: Sequence[tuple[str, Listing]], pins: Pins) -> bool:
        """Whether it was made from the same."""
        return (
            len(offering) == len(self.made_from)
            and all(map(_offers_the_same, offering, self.made_from))
            and pins == self.judged_by
        )


def _offers_the_same(one: tuple[str, Listing], other: tuple[str, Listing]) -> bool:
    """Whether both are the same source's, with the very same lists."""
    (source, now), (known, before) = one, other
    return (
        source == known
        and now.resources is before.resources
        and now.templates is before.templates
        and now.skills is before.skills
        and (now.skills_unlisted, now.reads_directories) == (before.skills_unlisted, before.reads_directories)
        and now.reads_unlisted == before.reads_unlisted
        and now.accepts_changes == before.accepts_changes
        and now.read_timeout_ms == before.read_timeout_ms
    )


def merge_resources(listings: Listings, *, pins: Pins, previous: ResourceSnapshot) -> ResourceSnapshot:
    """What all sources offer; the snapshot before where nothing changed."""
    offering = tuple((source, one) for source, one in listings if offers_resources(one))
    if previous.is_of(offering, pins):
        return previous
    own_first = sorted(offering, key=lambda pair: _is_foreign(pair[1]))
    by_uri = _resources(own_first, previous)
    templates = _templates(own_first, previous)
    accepting = frozenset(source for source, listing in offering if listing.accepts_changes)
    pinned = {one.identity: one.digest for one in templates if one.digest is not None}
    as_new = frozenset(one for one in pinned if pins.awaits(one) or pins.holds_new(one))
    held = {one for one, digest in pinned.items() if one in as_new or pins.holds(one, digest, accepting=accepting)}
    offered_as = {one.identity: one.template for one in templates}
    changed = ((one[0], offered_as[one]) for one in held - as_new)
    new = ((one[0], offered_as[one]) for one in as_new)
    return ResourceSnapshot(
        resources=tuple(sorted(by_uri.values(), key=lambda one: one.uri)),
        by_uri=by_uri,
        templates=tuple(one for one in templates if one.identity not in held),
        held=tuple(one for one in templates if one.identity in held),
        held_as_new=as_new,
        renamed={(one.source, one.own_uri): uri for uri, one in by_uri.items() if uri != one.own_uri},
        readers=tuple(source for source, listing in offering if listing.reads_unlisted),
        timeouts={source: one.read_timeout_ms for source, one in offering if one.read_timeout_ms is not None},
        skills=merge_skills(
            own_first, owners={one.uri: one.source for one in by_uri.values()}, previous=previous.skills
        ),
        notices=(
            *held_notices(changed, pins_are_known=pins.stored is not None, what=WHAT),
            *new_notices(new, what=WHAT),
        ),
        made_from=offering,
        judged_by=pins,
    )


def _is_foreign(listing: Listing) -> bool:
    resources, templates = listing.resources, listing.templates
    return (
        listing.skills_unlisted or any(one.is_foreign for one in resources) or any(one.definition for one in templates)
    )


def offers_resources(listing: Listing) -> bool:
    """Whether there is something in it that could be read."""
    has_skills = listing.skills or listing.skills_unlisted
    return bool(listing.resources or listing.templates or listing.reads_unlisted or has_skills)


def _resources(offering: Iterable[tuple[str, Listing]], previous: ResourceSnapshot) -> dict[str, OfferedResource]:
    known = {(one.source, one.own_uri): one for one in previous.resources}
    found: dict[str, OfferedResource] = {}
    for source, listing in offering:
        for resource in listing.resources:
            uri = resource.uri if resource.uri not in found else qualified(source, resource.uri)
            if len(uri) > LONGEST_URI:
                continue  # another source has the URI, and with this one's name before it nobody could ask for it
            before = known.get((source, resource.uri))
            if before is None or before.uri != uri or before.listed != resource.listed:
                before = _offered(uri, source, resource.uri, resource.listed)
            found[uri] = before
    return found


def _offered(uri: str, source: str, own_uri: str, listed: dict[str, Any]) -> OfferedResource:
    json = _encode(listed if uri == own_uri else {**listed, "uri": uri})
    return OfferedResource(uri=uri, source=source, own_uri=own_uri, listed=listed, json=json)


def _templates(offering: Iterable[tuple[str, Listing]], previous: ResourceSnapshot) -> list[OfferedTemplate]:
    known = {one.identity: one for one in (*previous.templates, *previous.held)}
    found: dict[str, OfferedTemplate] = {}
    for source, listing in offering:
        for tool in listing.templates:
            template = tool.name if tool.name not in found else _qualified_template(source, tool.name)
            before = known.get((source, tool.name))
            if before is None or before.template != template or before.tool != tool:
                before = _offered_template(template, source, tool)
            found[template] = before
    return list(found.values())


def _offered_template(template: str, source: str, tool: Tool) -> OfferedTemplate:
    return OfferedTemplate(
        template=template,
        source=source,
        own_template=tool.name,
        tool=tool,
        json=_encode({**tool.listed, "uriTemplate": template}),
        literals=_literals(template),
        digest=None if tool.definition is None else pinnable(tool.definition).digest,
    )


def _qualified_template(source: str, template: str) -> str:
    """As `qualified`, with the expressions left to be filled in."""
    literals, expressions = _literals(template), [*_EXPRESSION.findall(template), ""]
    inside = "".join(quote(text, safe="") + expression for text, expression in zip(literals, expressions, strict=True))
    return f"{SCHEME}{source}/{inside}"


class ResourceView:
    """What one key sees of them. Immutable."""

    def __init__(self, snapshot: ResourceSnapshot, *, sight: Visibility) -> None:
        self.snapshot = snapshot
        self._sight = sight
        whole = sight.is_whole
        self.resources = (
            snapshot.resources
            if whole
            else tuple(one for one in snapshot.resources if self._sees(one.source, one.own_uri))
        )
        """Sorted by URI."""
        self.templates = (
            snapshot.templates
            if whole
            else tuple(one for one in snapshot.templates if self._sees(one.source, one.own_template))
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could be read."""
        return not (self.resources or self.templates or self._readers)

    @cached_property
    def _readers(self) -> tuple[str, ...]:
        return tuple(source for source in self.snapshot.readers if self._sees(source, ""))

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
        return every if self._sight.is_whole else tuple(one for one in every if self._sees(one.source, one.skill.uri))

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
                raise refusal(one.template, one.source, pins_are_known=known, is_new=is_new, what=WHAT)

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


def is_cut(tool: str) -> bool:
    """Whether the record of a read has not the whole URI."""
    return tool.endswith("…") and len(tool.encode()) > LONGEST_ON_RECORD - 8


def _on_record(uri: str) -> str:
    """The URI, or of a very long one the beginning; the call's arguments have it whole."""
    if len(uri) * 4 <= LONGEST_ON_RECORD or len(encoded := uri.encode()) <= LONGEST_ON_RECORD:
        return uri
    return encoded[: LONGEST_ON_RECORD - 4].decode(errors="ignore") + "…"


def _has(template: OfferedTemplate, uri: str) -> bool:
    """Whether the URI is one of the template's. `{+any}` does not mean the gateway's own."""
    return template.template.startswith(SCHEME) == uri.startswith(SCHEME) and template.fits(uri)


def _scheme(uri: str) -> str | None:
    found = _SCHEME.match(uri)
    return None if found is None else found[0].lower()


def resource_changes(before: ResourceSnapshot, after: ResourceSnapshot) -> list[tuple[str, str]]:
    """What came, went or is shown otherwise: its source, and its URI or template there."""
    if before is after:
        return []
    old, new = _shown(before), _shown(after)
    return [one for one in old.keys() | new.keys() if old.get(one) != new.get(one)]


def changed_for(sight: Visibility, changes: Iterable[tuple[str, str]]) -> bool:
    """Whether the lists differ for whoever has this sight."""
    return any(sight.sees_resource(source, uri) for source, uri in changes)


def _shown(snapshot: ResourceSnapshot) -> dict[tuple[str, str], bytes]:
    return {
        **{(one.source, one.own_uri): one.json for one in snapshot.resources},
        **{one.identity: one.json for one in snapshot.templates},
        **{(one.source, one.skill.uri): one.json for one in snapshot.skills.skills},
    }
