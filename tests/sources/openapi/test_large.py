"""A document in the shape of a large public one: hundreds of operations, references everywhere, cycles."""

from pathlib import Path

from bench.openapi_document import large_document
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.pins import Pins
from jackfield.http.openapi import openapi_document
from jackfield.identity.keys import ADMIN
from jackfield.sources.openapi.operations import METHODS
from tests.routes import ROUTES
from tests.sources.openapi.scene import echo, offered, service

OPERATIONS = 600


async def test_a_large_document_becomes_tools_that_can_be_listed_found_checked_and_called(tmp_path: Path) -> None:
    async with service(tmp_path, large_document(OPERATIONS)) as shop:
        listing = await shop.list()
        catalog = Catalog(pins=Pins(stored={}))
        catalog.update([("shop", listing)])
        view = catalog.view(ADMIN)

        assert (len(view.entries), listing.faults, catalog.notices) == (OPERATIONS, (), ())
        assert view.search("replace one ticket5", limit=1)[0].name == "replace_ticket5"
        entry = view.get("create_ticket5")
        owner = {
            "login": "a-b",
            "email": None,
            "team": {"name": "x", "lead": {"login": "c"}, "parent": {"parent": None}},
        }
        arguments = {"name": "n", "owner": owner, "rule": {"all": ["x", {"not": "y"}]}, "weight": 0.5}
        assert await catalog.check_arguments(entry, arguments) == []
        assert await catalog.check_arguments(entry, {**arguments, "weight": 0}) != []
        assert await catalog.check_arguments(entry, {**arguments, "owner": {"team": {"lead": {"login": "No!"}}}}) != []
        assert await catalog.check_arguments(entry, {**arguments, "id": "read only"}) != []

        shop.upstream.answers["/v1/ticket5"] = echo
        made = await shop.result("create_ticket5", **arguments)
        assert (made["method"], made["target"]) == ("POST", "/v1/ticket5")


def test_the_gateways_own_document_becomes_a_tool_for_each_of_its_routes() -> None:
    document = openapi_document(ROUTES)
    listing = offered(document, base_url="https://gateway.example").listing

    described = {
        item[method]["operationId"] for item in document["paths"].values() for method in item if method in METHODS
    }
    assert {tool.name for tool in listing.tools} == described
    assert listing.faults == ()
    catalog = Catalog()
    catalog.update([("shop", listing)])
    assert len(catalog.view(ADMIN).entries) == len(listing.tools)


def test_what_a_tool_brings_along_is_what_its_own_input_refers_to() -> None:
    """The ring of what resources answer with has two hundred members; none is in what is sent."""
    tools = {tool.name: tool for tool in offered(large_document(OPERATIONS)).listing.tools}
    assert set(tools["create_ticket5"].input_schema["$defs"]) == {"Owner", "Team", "Condition"}
    assert "$defs" not in tools["list_ticket5"].input_schema
