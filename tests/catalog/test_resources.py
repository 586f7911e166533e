"""Resources and templates of several sources: who has which URI, who sees it, and where a read goes. Pure."""

import time
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.kinds import TEMPLATE, pins_of
from jackfield.catalog.pins import Pins, pinnable
from jackfield.catalog.resource_view import ResourceView, changed_for
from jackfield.catalog.resources import ResourceSnapshot, merge_resources, resource_changes
from jackfield.catalog.view import visibility_of
from jackfield.errors import DefinitionChanged, ResourceNotFound, Unavailable
from jackfield.model.resource import Resource
from jackfield.model.tool import CallKind, Tool
from jackfield.sources.base import Listing
from tests.catalog.given import key

ALL = key("admin")
FIRST = Pins(stored={})


def resource(uri: str, source: str = "docs", *, own: bool = False) -> Resource:
    return Resource(source=source, uri=uri, listed={"uri": uri, "name": uri}, is_foreign=not own)


def template(text: str, source: str = "docs", description: str = "") -> Tool:
    listed = {"uriTemplate": text, "name": text, "description": description}
    return Tool(
        source=source,
        name=text,
        operation=CallKind.RESOURCE,
        listed=listed,
        definition=Raw(msgspec.json.encode(listed)),
    )


def listing(*uris: str, templates: tuple[str, ...] = (), source: str = "docs", **more: Any) -> tuple[str, Listing]:
    return source, Listing(
        resources=tuple(resource(uri, source) for uri in uris),
        templates=tuple(template(text, source) for text in templates),
        **more,
    )


def merged(
    *listings: tuple[str, Listing], pins: Pins = FIRST, previous: ResourceSnapshot | None = None
) -> ResourceSnapshot:
    return merge_resources(listings, pins=pins, previous=previous or ResourceSnapshot())


def view(*listings: tuple[str, Listing], pins: Pins = FIRST, tools: tuple[str, ...] | None = None) -> ResourceView:
    return ResourceView(merged(*listings, pins=pins), sight=visibility_of(key("call", tools=tools)))


def target(view: ResourceView, uri: str) -> tuple[str, str]:
    """The source that a read goes to, and the URI that it is asked for."""
    tool = view.find(uri).tool
    return tool.source, tool.name


def pinned(text: str, description: str, *, source: str = "docs") -> Pins:
    tool = template(text, source, description)
    assert tool.definition is not None
    return Pins(stored={(source, text): pinnable(tool.definition).digest}, listed=frozenset({source}))


def test_the_later_of_two_sources_offers_a_uri_with_its_own_name_before_it() -> None:
    seen = view(listing("x://a", "x://b"), listing("x://a", "x://c d", source="more"))
    again = "jackfield://more/x%3A%2F%2Fa"
    assert [one.uri for one in seen.resources] == [again, "x://a", "x://b", "x://c d"]
    assert target(seen, "x://a") == ("docs", "x://a")
    assert target(seen, again) == ("more", "x://a")
    assert target(seen, "jackfield://docs/x%3A%2F%2Fa") == ("docs", "x://a"), "also the first can be named so"
    with pytest.raises(ResourceNotFound):
        seen.find("jackfield://docs/x%3A%2F%2Fc%20d")
    assert msgspec.json.decode(seen.resources[0].json)["uri"] == again


def test_the_operators_own_come_first_whatever_the_order() -> None:
    own = ("own", Listing(resources=(resource("x://a", "own", own=True),)))
    seen = view(listing("x://a"), own)
    assert target(seen, "x://a") == ("own", "x://a")
    assert target(seen, "jackfield://docs/x%3A%2F%2Fa") == ("docs", "x://a")


def test_a_template_takes_what_was_filled_in_as_it_is() -> None:
    text = "x://{kind}/by/{name}"
    seen = view(listing(templates=(text,)), listing(templates=(text,), source="more"))
    assert [one.template for one in seen.templates] == [text, "jackfield://more/x%3A%2F%2F{kind}%2Fby%2F{name}"]
    assert target(seen, "x://note/by/a%20b") == ("docs", "x://note/by/a%20b")
    assert target(seen, "jackfield://more/x%3A%2F%2Fnote%2Fby%2Fa%20b%2Fc") == ("more", "x://note/by/a%20b%2Fc")


def test_the_template_that_says_most_is_meant_and_one_for_anything_does_not_mean_the_gateways_own() -> None:
    seen = view(listing(templates=("{+any}",)), listing("x://a", templates=("x://by/{name}",), source="more"))
    assert target(seen, "x://by/ada") == ("more", "x://by/ada")
    assert target(seen, "y://else") == ("docs", "y://else")
    assert target(seen, "jackfield://more/x%3A%2F%2Fa") == ("more", "x://a")
    with pytest.raises(ResourceNotFound):
        seen.find("jackfield://nobody/x%3A%2F%2Fa")


def test_what_nobody_lists_goes_to_the_one_source_that_reads_such_things() -> None:
    seen = view(
        listing("x://a", reads_unlisted=True),
        listing("y://a", source="more", reads_unlisted=True),
        listing("z://a", source="third"),
    )
    assert target(seen, "x://later") == ("docs", "x://later")
    assert target(seen, "y://later") == ("more", "y://later")
    assert target(seen, "jackfield://more/x%3A%2F%2Flater") == ("more", "x://later")
    for uri in ("z://later", "file:///etc/passwd", "jackfield://third/z%3A%2F%2Flater", "", "jackfield://docs/"):
        with pytest.raises(ResourceNotFound):
            seen.find(uri)


def test_a_key_sees_the_uris_that_its_patterns_mean() -> None:
    both = (listing("x://a/1", "x://b/1", templates=("x://a/{n}", "x://{n}")), listing("y://a", source="more"))
    seen = view(*both, tools=("docs:x://a/*",))
    assert [one.uri for one in seen.resources] == ["x://a/1"]
    assert [one.template for one in seen.templates] == ["x://a/{n}"]
    assert target(seen, "x://a/2") == ("docs", "x://a/2")
    for uri in ("x://b/1", "x://b/2", "y://a", "jackfield://more/y%3A%2F%2Fa", "jackfield://docs/x%3A%2F%2Fb%2F1"):
        with pytest.raises(ResourceNotFound):
            seen.find(uri)
    assert view(*both, tools=("x*", "more*")).is_empty, "plain names mean tools and prompts"
    with pytest.raises(ResourceNotFound) as missing:
        view(*both, tools=("docs:*",)).find("y://b")
    assert "y://a" not in str(missing.value), "no hint at what is not seen"


def test_a_template_that_changed_is_held_and_blocks_what_it_alone_has() -> None:
    pins = pinned("x://{n}", "Before.")
    source = ("docs", Listing(resources=(resource("x://listed"),), templates=(template("x://{n}", "docs", "After."),)))
    seen = view(source, pins=pins)
    assert seen.templates == ()
    assert target(seen, "x://listed") == ("docs", "x://listed")
    with pytest.raises(DefinitionChanged, match="jackfield accept docs"):
        seen.find("x://other")
    with pytest.raises(DefinitionChanged):
        seen.find("jackfield://docs/x%3A%2F%2Fother")
    other = listing(templates=("x://ot{rest}",), source="more")
    assert target(view(source, other, pins=pins), "x://other") == ("more", "x://other")
    with pytest.raises(ResourceNotFound):
        view(source, pins=pins, tools=("more:*",)).find("x://other")
    unknown = view(source, pins=Pins(stored=None))
    with pytest.raises(Unavailable):
        unknown.find("x://other")
    (notice,) = merged(source, pins=pins).notices
    assert "template 'x://{n}'" in notice.message


def test_nothing_is_made_again_where_nothing_changed() -> None:
    listings = (listing("x://a", templates=("x://{n}",)), listing("x://a", source="more"))
    first = merged(*listings)
    assert merged(*listings, pins=Pins(stored={}), previous=first) is first
    changed = merged(listings[0], listing("x://a", "x://b", source="more"), previous=first)
    assert changed is not first
    assert changed.by_uri["x://a"] is first.by_uri["x://a"]
    assert changed.templates[0] is first.templates[0]
    assert merged(*reversed(listings), previous=first).by_uri["x://a"].source == "more"


def test_twenty_thousand_changed_templates_are_judged_in_time() -> None:
    texts = tuple(f"x://{number}/{{name}}" for number in range(20_000))
    pins = Pins(stored={("docs", text): "another" for text in texts}, listed=frozenset({"docs"}))
    started = time.process_time()
    snapshot = merged(listing(templates=texts), pins=pins)
    assert len(snapshot.held) == 20_000
    assert time.process_time() - started < 10


def test_a_catalog_whose_tools_change_keeps_its_resources_and_prompt_names() -> None:
    catalog = Catalog()
    prompt = Tool(source="docs", name="review", operation=CallKind.PROMPT, listed={"name": "review"})
    first = Listing(resources=(resource("x://a"),), prompts=(prompt,))
    catalog.update([("docs", first)])
    resources, names = catalog._moment.resources, catalog.names
    second = msgspec.structs.replace(first, tools=(Tool(source="docs", name="tool"),))
    catalog.update([("docs", second)])
    assert catalog._moment.resources is resources
    assert catalog._moment.names.prompts == names.prompts
    assert [entry.name for entry in catalog.prompts(ALL).entries] == ["review"]
    assert pins_of(catalog.pins, TEMPLATE).unwritten == {}
    worker = catalog.prompts(key("worker:rev*"))
    assert worker.entries == (), "a tool server's key sees the tools it serves, not prompts"


def test_who_sees_a_change_is_told_of_it() -> None:
    first = merged(listing("x://a", templates=("x://{n}",)), listing("y://a", source="more"))
    second = merged(listing("x://a", templates=("x://{n}",)), listing("y://b", source="more"), previous=first)
    assert resource_changes(first, first) == []
    changes = resource_changes(first, second)
    assert sorted(changes) == [("more", "y://a"), ("more", "y://b")]
    assert changed_for(visibility_of(ALL), changes)
    assert changed_for(visibility_of(key("read", tools=("more:*",))), changes)
    assert not changed_for(visibility_of(key("read", tools=("docs:*",))), changes)
    assert not changed_for(visibility_of(key("worker:*")), changes)
