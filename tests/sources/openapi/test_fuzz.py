"""Documents that nobody meant: a clear fault of that source, nothing else touched, no hang, no blow-up."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bench.openapi_document import large_document
from jackfield.catalog.catalog import Catalog
from jackfield.identity.keys import ADMIN
from jackfield.model.call import Done
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.openapi.operations import MAX_DEFINITIONS, OpenApiListing
from tests.sources.openapi.scene import document, echo, json_body, offered, operation, service

WITHIN = 5.0
"""Seconds for the worst document of a test; most take milliseconds. A blow-up would take minutes."""
WORDS = st.sampled_from(
    [
        "$ref", "allOf", "anyOf", "properties", "items", "type", "required", "enum", "nullable", "readOnly", "schema",
        "parameters", "requestBody", "content", "application/json", "in", "name", "style", "explode", "get", "post",
        "servers", "url", "variables", "default", "tags", "operationId", "description", "additionalProperties", "not",
        "/x", "/x/{id}", "paths", "components", "schemas", "A", "B", "object", "string", "query", "path", "header",
        "#/components/schemas/A", "#/components/schemas/B", "#/paths", "#", "#/", "http://127.0.0.1/x", "3.0.0", "{",
    ]
)  # fmt: skip
LEAVES = st.one_of(
    WORDS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=3)), inner, max_size=5)
    ),
    max_leaves=25,
)
SCHEMAS = st.recursive(
    st.one_of(
        JSON,
        st.sampled_from(
            [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}, {"type": "object"}, True]
        ),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"allOf": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.text(max_size=4), inner, max_size=3)}),
        st.fixed_dictionaries({"items": inner, "nullable": st.booleans()}),
    ),
    max_leaves=8,
)
PARAMETERS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {
            "name": st.one_of(st.text(max_size=6), JSON),
            "in": st.one_of(st.sampled_from(["path", "query", "header", "cookie", "body"]), JSON),
            "schema": SCHEMAS,
        },
        optional={"style": WORDS, "explode": JSON, "content": JSON, "required": st.booleans()},
    ),
)
OPERATIONS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"parameters": st.one_of(JSON, st.lists(PARAMETERS, max_size=4))},
        optional={
            "requestBody": st.one_of(JSON, SCHEMAS.map(json_body)),
            "operationId": st.one_of(JSON, st.text(max_size=5)),
            "tags": JSON,
            "servers": JSON,
            "summary": JSON,
        },
    ),
)
DOCUMENTS = st.builds(
    lambda paths, schemas, more: {**more, **document(paths, components={"schemas": schemas})},
    st.dictionaries(
        st.one_of(st.sampled_from(["/x", "/x/{id}"]), st.text(max_size=6)),
        st.one_of(
            JSON, st.dictionaries(st.sampled_from(["get", "post", "put", "parameters", "$ref"]), OPERATIONS, max_size=3)
        ),
        max_size=4,
    ),
    st.one_of(JSON, st.dictionaries(st.sampled_from(["A", "B"]), SCHEMAS)),
    st.dictionaries(st.sampled_from(["servers", "tags"]), JSON),
)


def read(content: bytes) -> OpenApiListing | None:
    """What a document offers; None where it is refused in a sentence. Nothing else may happen."""
    began = time.process_time()
    try:
        return offered(content)
    except Unreadable as refused:
        sentence = str(refused)
        assert sentence.endswith(".")
        assert sentence.isprintable()
        return None
    finally:
        assert time.process_time() - began < WITHIN


def check(offer: OpenApiListing | None) -> None:
    """What is offered can be merged with others' tools, and none of those is touched."""
    if offer is None:
        return
    assert all(fault.isprintable() for fault in offer.listing.faults)
    other = offered(document({"/other": {"get": operation("other")}})).listing
    catalog = Catalog()
    catalog.update([("other", other), ("shop", offer.listing)])
    assert catalog.view(ADMIN).get("other").tool.name == "other"
    msgspec.json.decode(catalog.view(ADMIN).manifest)


@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
@example(b'{"openapi":"3.0.0","paths":{"/x":{"get":{"operationId":"\\ud800"}}}}')
def test_bytes_that_are_no_document_are_refused_in_a_sentence(content: bytes) -> None:
    check(read(content))


@given(JSON)
def test_json_that_is_no_document_is_refused_in_a_sentence(value: Any) -> None:
    check(read(msgspec.json.encode(value)))


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENTS)
def test_a_document_with_anything_anywhere_offers_what_can_be_offered_and_tells_the_rest(value: dict[str, Any]) -> None:
    check(read(msgspec.json.encode(value)))


@settings(max_examples=80)
@given(st.data())
def test_a_good_document_with_a_few_bytes_changed_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(content), len(content) // 2]))
    check(read(bytes(content[:cut])))


GOOD = large_document(20)


def test_references_that_multiply_are_bounded() -> None:
    """Many operations over a dense web of parts, which written out would have gigabytes."""
    names = [f"S{n}" for n in range(300)]
    schemas = {
        name: {"type": "object", "properties": {other: {"$ref": f"#/components/schemas/{other}"} for other in names}}
        for name in names
    }
    body = json_body({"$ref": "#/components/schemas/S0"})
    made = document(
        {f"/p{n}": {"post": operation(f"o{n}", requestBody=body)} for n in range(3_000)},
        components={"schemas": schemas},
    )
    offer = read(msgspec.json.encode(made))

    assert offer is not None
    sizes = [len(bytes(tool.definition or b"")) for tool in offer.listing.tools]
    assert sum(sizes) < MAX_DEFINITIONS + max(sizes)


def test_parts_within_parts_that_are_all_referred_to_are_bounded() -> None:
    """Each level of a deep part is referred to on its own: read without a bound, that is the square of the size."""
    inner: dict[str, Any] = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}
    for _ in range(40):
        inner = {"type": "object", "properties": {"n": inner}}
    levels = ["#/components/schemas/A" + "/properties/n" * level for level in range(40)]
    body = json_body({"type": "array", "prefixItems": [{"$ref": level} for level in levels]})
    made = document({"/x": {"post": operation("x", requestBody=body)}}, components={"schemas": {"A": inner}})

    check(read(msgspec.json.encode(made)))


def test_a_document_of_which_nothing_can_be_used_is_not_read_to_its_end() -> None:
    chain = {f"S{n}": {"properties": {"n": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(200)}
    body = json_body({"$ref": "#/components/schemas/S0"})
    paths = {f"/p{n}": {"post": operation(f"o{n}", requestBody=body)} for n in range(20_000)}
    offer = read(msgspec.json.encode(document(paths, components={"schemas": chain})))

    assert offer is not None
    assert offer.listing.tools == ()
    assert offer.listing.faults[0] == "So many operations cannot be used that the rest is not looked at."
    assert len(offer.listing.faults) == 2
    assert offer.listing.faults[1].startswith("1,001 operations are left out. POST /p0: it refers to ")
    assert offer.listing.faults[1].endswith(", POST /p9 and 991 more.")


def test_names_that_many_would_have_are_given_without_end_to_end_search() -> None:
    paths: dict[str, Any] = {f"/{chr(0x4E00 + n % 150)}{chr(0x4E00 + n // 150)}": {"get": {}} for n in range(20_000)}
    offer = read(msgspec.json.encode(document(paths)))
    assert offer is not None
    assert len({tool.name for tool in offer.listing.tools}) == len(offer.listing.tools) == 5_000


def test_a_schema_that_is_nested_absurdly_deep_is_left_out() -> None:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        inner = {"type": "array", "items": inner}
    offer = read(msgspec.json.encode(document({"/x": {"post": operation("x", requestBody=json_body(inner))}})))
    assert offer is not None
    assert offer.listing.tools == ()
    assert offer.listing.faults == (
        "The operation POST /x is left out: its schema is nested more than 100 levels deep.",
    )


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 1_000, b'{"openapi":"3.0.0","paths":{"/x":', b"[1]", b'{"openapi":"9"}']
)
async def test_a_source_goes_on_serving_whatever_its_document_becomes(tmp_path: Path, content: bytes) -> None:
    made = document({"/x": {"get": operation("look")}})
    async with service(tmp_path, made) as shop:
        shop.upstream.answers["/x"] = echo
        shop.publish(content)
        async with asyncio.timeout(WITHIN):
            listing = await shop.list()
            outcome = await shop.call("look")
        assert [tool.name for tool in listing.tools] == ["look"]
        assert len(listing.faults) == 1
        assert isinstance(outcome, Done)
