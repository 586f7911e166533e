"""Resources and their templates: what all sources offer.

Above: `catalog.py`, and `resource_view.py` for what one key sees of it. Below: the listings of sources. Pure. URIs stay
as they are; one that two sources have is offered by the later of them as `jackfield://{source}/{uri}`, where the
operator's own come before foreign ones and then the order of the config decides. Templates are pinned, plain resources
are not: what a template is may not change unseen, what a resource holds is expected to.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.catalog.globs import fits
from jackfield.catalog.merge import Entry, Listings, named_entry
from jackfield.catalog.names import CatalogNotice, Identity
from jackfield.catalog.pins import Pins, held_notices, new_notices, pinnable
from jackfield.catalog.skills import SkillSnapshot, merge_skills
from jackfield.model.resource import SCHEME, qualified, read_of
from jackfield.model.tool import Tool
from jackfield.sources.base import Listing

WHAT = "Template"
LONGEST_URI = 5_000
"""Characters of a URI that somebody asks for: as many as a query string holds, whatever they are."""
LONGEST_ON_RECORD = 2_000
"""Bytes of a URI on a call's record: what an index of any database takes."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")
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
    refused: frozenset[Identity] = frozenset()
    """Those of them whose definition a person refused."""
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
    refused = frozenset(one for one in held if pins.is_refused(one, pinned[one]))
    changed = ((one[0], offered_as[one]) for one in held - as_new - refused)
    new = ((one[0], offered_as[one]) for one in as_new - refused)
    return ResourceSnapshot(
        resources=tuple(sorted(by_uri.values(), key=lambda one: one.uri)),
        by_uri=by_uri,
        templates=tuple(one for one in templates if one.identity not in held),
        held=tuple(one for one in templates if one.identity in held),
        held_as_new=as_new,
        refused=refused,
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


def is_cut(tool: str) -> bool:
    """Whether the record of a read has not the whole URI."""
    return tool.endswith("…") and len(tool.encode()) > LONGEST_ON_RECORD - 8


def _on_record(uri: str) -> str:
    """The URI, or of a very long one the beginning; the call's arguments have it whole."""
    if len(uri) * 4 <= LONGEST_ON_RECORD or len(encoded := uri.encode()) <= LONGEST_ON_RECORD:
        return uri
    return encoded[: LONGEST_ON_RECORD - 4].decode(errors="ignore") + "…"


def resource_changes(before: ResourceSnapshot, after: ResourceSnapshot) -> list[tuple[str, str]]:
    """What came, went or is shown otherwise: its source, and its URI or template there."""
    if before is after:
        return []
    old, new = _shown(before), _shown(after)
    return [one for one in old.keys() | new.keys() if old.get(one) != new.get(one)]


def _shown(snapshot: ResourceSnapshot) -> dict[tuple[str, str], bytes]:
    return {
        **{(one.source, one.own_uri): one.json for one in snapshot.resources},
        **{one.identity: one.json for one in snapshot.templates},
        **{(one.source, one.skill.uri): one.json for one in snapshot.skills.skills},
    }
