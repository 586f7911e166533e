"""Resources and their templates: what all sources offer, and what one key sees of it.

Above: `catalog.py`. Below: the listings of sources. Pure. URIs stay as they are; one that two sources have is offered
by the later of them as `jackfield://{source}/{uri}`, where the operator's own come before foreign ones and then the
order of the config decides. Templates are pinned, plain resources are not: what a template is may not change unseen,
what a resource holds is expected to.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.catalog.globs import fits
from jackfield.catalog.merge import Entry, Listings, named_entry
from jackfield.catalog.names import CatalogNotice, Identity
from jackfield.catalog.pins import Pins, held_notices, new_notices, pinnable, refusal
from jackfield.catalog.view import Visibility
from jackfield.errors import ResourceNotFound
from jackfield.model.resource import qualified, read_of, unqualified
from jackfield.model.tool import Tool
from jackfield.sources.base import Listing
from jackfield.sources.foreign import is_hidden_in, shown

LONGEST_URI = 16_384
"""A qualified URI may be longer than the one that it stands for."""
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
    tool: Tool
    json: bytes
    fits: Callable[[str], bool]
    literal: int
    """How many characters are not left open."""
    digest: str | None


class ResourceSnapshot(Struct, frozen=True, kw_only=True):
    """All of them at one moment."""

    resources: tuple[OfferedResource, ...] = ()
    """Sorted by URI."""
    by_uri: dict[str, OfferedResource] = {}
    templates: tuple[OfferedTemplate, ...] = ()
    held: tuple[OfferedTemplate, ...] = ()
    """Templates that wait for a person to accept them."""
    held_as_new: frozenset[Identity] = frozenset()
    pins_are_known: bool = True
    readers: tuple[str, ...] = ()
    """Sources whose unlisted URIs can be read too."""
    renamed: dict[tuple[str, str], str] = {}
    """By source and own URI: what is offered under another one."""
    notices: tuple[CatalogNotice, ...] = ()
    made_from: tuple[object, ...] = ()

    def entry_of(self, template: OfferedTemplate) -> Entry:
        """A template as pins are shown and accepted by."""
        return named_entry(template.template, template.tool)


def merge_resources(listings: Listings, *, pins: Pins, previous: ResourceSnapshot) -> ResourceSnapshot:
    """What all sources offer; the snapshot before where nothing changed."""
    offering = [(source, one) for source, one in listings if one.resources or one.templates or one.reads_unlisted]
    made_from = (*(part for _, one in offering for part in (one.resources, one.templates)), pins)
    if len(made_from) == len(previous.made_from) and all(map(_is, made_from, previous.made_from)):
        return previous
    known = {(one.source, one.own_uri): one for one in previous.resources}
    by_uri: dict[str, OfferedResource] = {}
    own_first = sorted(offering, key=lambda pair: _is_foreign(pair[1]))
    for source, listing in own_first:
        for resource in listing.resources:
            uri = resource.uri if resource.uri not in by_uri else qualified(source, resource.uri)
            before = known.get((source, resource.uri))
            if before is None or before.uri != uri or before.listed != resource.listed:
                before = _offered(uri, source, resource.uri, resource.listed)
            by_uri[uri] = before
    templates = _templates(own_first)
    accepting = frozenset(source for source, listing in offering if listing.accepts_changes)
    as_new = frozenset(
        identity
        for one in templates
        if one.digest is not None and (pins.awaits(identity := _identity(one)) or pins.holds_new(identity))
    )
    held = tuple(
        one
        for one in templates
        if one.digest is not None
        and (_identity(one) in as_new or pins.holds(_identity(one), one.digest, accepting=accepting))
    )
    changed = ((one.source, one.template) for one in held if _identity(one) not in as_new)
    return ResourceSnapshot(
        resources=tuple(sorted(by_uri.values(), key=lambda one: one.uri)),
        by_uri=by_uri,
        templates=tuple(one for one in templates if one not in held),
        held=held,
        held_as_new=as_new,
        pins_are_known=pins.stored is not None,
        renamed={(one.source, one.own_uri): uri for uri, one in by_uri.items() if uri != one.own_uri},
        readers=tuple(source for source, listing in offering if listing.reads_unlisted),
        notices=(*held_notices(changed, pins_are_known=pins.stored is not None), *new_notices(as_new)),
        made_from=made_from,
    )


def _is_foreign(listing: Listing) -> bool:
    """Whether it is not the operator's own."""
    return any(one.is_foreign for one in listing.resources) or any(one.definition for one in listing.templates)


def _is(one: object, other: object) -> bool:
    return one is other


def _identity(template: OfferedTemplate) -> Identity:
    return template.source, template.own_template


def _offered(uri: str, source: str, own_uri: str, listed: dict[str, Any]) -> OfferedResource:
    json = _encode(listed if uri == own_uri else {**listed, "uri": uri})
    return OfferedResource(uri=uri, source=source, own_uri=own_uri, listed=listed, json=json)


def _templates(offering: Sequence[tuple[str, Listing]]) -> list[OfferedTemplate]:
    found: dict[str, OfferedTemplate] = {}
    for source, listing in offering:
        for tool in listing.templates:
            template = tool.name if tool.name not in found else _qualified_template(source, tool.name)
            first, *others = _EXPRESSION.split(template)
            *middle, last = others or [""]
            found[template] = OfferedTemplate(
                template=template,
                source=source,
                own_template=tool.name,
                tool=tool,
                json=_encode({**tool.listed, "uriTemplate": template}),
                fits=partial(fits, first, tuple(filter(None, middle)), last) if others else template.__eq__,
                literal=len(_EXPRESSION.sub("", template)),
                digest=None if tool.definition is None else pinnable(tool.definition).digest,
            )
    return list(found.values())


def _qualified_template(source: str, template: str) -> str:
    """As `qualified`, with the expressions left to be filled in."""
    literals, expressions = _EXPRESSION.split(template), [*_EXPRESSION.findall(template), ""]
    inside = "".join(quote(text, safe="") + expression for text, expression in zip(literals, expressions, strict=True))
    return f"jackfield://{source}/{inside}"


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
    def _by_scheme(self) -> dict[str | None, set[str]]:
        """Which sources list resources of a scheme."""
        found: dict[str | None, set[str]] = {}
        for one in self.resources:
            found.setdefault(_scheme(one.own_uri), set()).add(one.source)
        for template in self.templates:
            found.setdefault(_scheme(template.own_template), set()).add(template.source)
        return found

    @cached_property
    def _own_uris(self) -> frozenset[tuple[str, str]]:
        return frozenset((one.source, one.own_uri) for one in self.resources)

    def _sees(self, source: str, uri: str) -> bool:
        return self._sight.sees_resource(source, uri)

    def page(self, after: str | None, *, size: int) -> tuple[Sequence[OfferedResource], str | None]:
        """The resources after this URI, and the last of them if there are more."""
        start = 0 if after is None else bisect_right(self.resources, after, key=lambda one: one.uri)
        found = self.resources[start : start + size]
        return found, found[-1].uri if start + size < len(self.resources) else None

    def find(self, uri: str) -> Entry:
        """What a call that reads this URI uses. Raises `ResourceNotFound`; for a held template `DefinitionChanged`."""
        if len(uri) > LONGEST_URI or is_hidden_in(uri):
            raise _not_found(uri)
        listed = self.snapshot.by_uri.get(uri)
        if listed is not None and self._sees(listed.source, listed.own_uri):
            return _read(listed.source, listed.own_uri)
        named = unqualified(uri)
        if named is not None:
            return self._named(uri, *named)
        fitting = [one for one in self.templates if one.fits(uri)]
        if fitting:
            best = max(fitting, key=lambda one: one.literal)
            return _read(best.source, uri)
        self._refuse_held(uri)
        source = self._reader_of(uri)
        if source is None:
            raise _not_found(uri)
        return _read(source, uri)

    def template(self, template: str) -> OfferedTemplate | None:
        """The template that is offered as this."""
        return next((one for one in self.templates if one.template == template), None)

    def _named(self, uri: str, source: str, own_uri: str) -> Entry:
        if source in self._readers or (source, own_uri) in self._own_uris:
            if not any(one.source == source and _fits_own(one, own_uri) for one in self.templates):
                self._refuse_held(own_uri, source=source)
            if self._sees(source, own_uri):
                return _read(source, own_uri)
        raise _not_found(uri)

    def _refuse_held(self, uri: str, *, source: str | None = None) -> None:
        for one in self.snapshot.held:
            own = one.fits(uri) if source is None else one.source == source and _fits_own(one, uri)
            if own and self._sees(one.source, uri):
                is_new = _identity(one) in self.snapshot.held_as_new
                known = self.snapshot.pins_are_known
                raise refusal(one.template, one.source, pins_are_known=known, is_new=is_new, what="Template")

    def _reader_of(self, uri: str) -> str | None:
        """The source that a URI which nobody lists belongs to: the only one with resources of its scheme, or at all."""
        readers = [source for source in self._readers if self._sees(source, uri)]
        alike = self._by_scheme.get(_scheme(uri), set())
        candidates = [source for source in readers if source in alike] or readers
        return candidates[0] if len(candidates) == 1 else None


def _fits_own(template: OfferedTemplate, uri: str) -> bool:
    first, *others = _EXPRESSION.split(template.own_template)
    *middle, last = others or [""]
    return fits(first, tuple(filter(None, middle)), last, uri) if others else uri == template.own_template


def _scheme(uri: str) -> str | None:
    found = _SCHEME.match(uri)
    return None if found is None else found[0].lower()


def _read(source: str, uri: str) -> Entry:
    tool = read_of(source, uri)
    return Entry(
        name=uri,
        tool=tool,
        version="",
        manifest=b"",
        mcp_name=uri,
        deadline_ms=tool.deadline_ms,
        pending_ms=tool.pending_ms,
        answered_by_others=False,
    )


def _not_found(uri: str) -> ResourceNotFound:
    return ResourceNotFound(
        f"There is no resource {shown(uri)}. List the resources to see those that this key may read."
    )


def changed_for(sight: Visibility, before: ResourceSnapshot, after: ResourceSnapshot) -> bool:
    """Whether the lists differ for whoever has this sight."""
    if before is after:
        return False
    old, new = ResourceView(before, sight=sight), ResourceView(after, sight=sight)
    return old.resources != new.resources or _shown(old.templates) != _shown(new.templates)


def _shown(templates: Iterable[OfferedTemplate]) -> list[bytes]:
    return [one.json for one in templates]
