"""Documents of Swagger 2.0: their operations are called as those of OpenAPI 3 are."""

from pathlib import Path
from typing import Any

import pytest

from jackfield.sources.openapi.document import Unreadable
from tests.requirement import requirement
from tests.sources.openapi.scene import URL, echo, offered, operation, service, tools_of

PETS: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Pets", "version": "1"},
    "basePath": "/v2",
    "consumes": ["application/json"],
    "parameters": {"Limit": {"name": "limit", "in": "query", "type": "integer", "maximum": 50}},
    "definitions": {
        "Pet": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "owner": {"$ref": "#/definitions/Owner"},
                "nick": {"type": "string", "x-nullable": True},
            },
        },
        "Owner": {"type": "object", "properties": {"pets": {"type": "array", "items": {"$ref": "#/definitions/Pet"}}}},
    },
    "paths": {
        "/pets": {
            "parameters": [{"$ref": "#/parameters/Limit"}],
            "get": operation(
                "list_pets",
                parameters=[
                    {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}},
                    {"name": "ids", "in": "query", "type": "array", "items": {}, "collectionFormat": "multi"},
                    {"name": "X-Trace", "in": "header", "type": "string"},
                ],
            ),
            "post": operation(
                "create_pet",
                parameters=[
                    {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}},
                ],
            ),
        },
        "/pets/{id}": {
            "patch": operation(
                "rename_pet",
                consumes=["application/x-www-form-urlencoded"],
                parameters=[
                    {"name": "id", "in": "path", "required": True, "type": "string"},
                    {"name": "name", "in": "formData", "type": "string", "required": True, "description": "New."},
                    {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}},
                ],
            )
        },
        "/pets/{id}/photo": {
            "put": operation(
                "set_photo",
                consumes=["multipart/form-data"],
                parameters=[
                    {"name": "id", "in": "path", "required": True, "type": "string"},
                    {"name": "photo", "in": "formData", "type": "file", "required": True},
                ],
            )
        },
    },
}


@requirement("CON-openapi-formats")
async def test_every_kind_of_parameter_is_sent_where_swagger_says(tmp_path: Path) -> None:
    async with service(tmp_path, PETS) as shop:
        shop.upstream.answers |= dict.fromkeys(("/v2/pets", "/v2/pets/7", "/v2/pets/7/photo"), echo)
        listed = await shop.result("list_pets", tags=["a", "b"], ids=[1, 2], limit=5, **{"X-Trace": "t"})
        assert (listed["method"], listed["target"]) == ("GET", "/v2/pets?limit=5&tags=a,b&ids=1&ids=2")
        assert listed["headers"]["x-trace"] == "t"

        made = await shop.result("create_pet", name="Rex", owner={"pets": [{"name": "Tom"}]}, nick=None)
        assert made["headers"]["content-type"] == "application/json"
        assert made["body"] == '{"name":"Rex","owner":{"pets":[{"name":"Tom"}]},"nick":null}'

        renamed = await shop.result("rename_pet", id="7", name="Max & Moritz", tags=["a", "b"])
        assert (renamed["target"], renamed["body"]) == ("/v2/pets/7", "name=Max%20%26%20Moritz&tags=a,b")

        sent = await shop.result("set_photo", id="7", photo={"text": "not really", "filename": "rex.txt"})
        assert sent["headers"]["content-type"].startswith("multipart/form-data; boundary=")
        assert 'name="photo"; filename="rex.txt"' in sent["body"]


def test_schemas_come_along_by_the_names_that_they_have_there() -> None:
    tools = tools_of(PETS)
    assert set(tools["create_pet"].input_schema["$defs"]) == {"Pet", "Owner"}
    assert tools["rename_pet"].input_schema["required"] == ["id", "name"]
    assert tools["rename_pet"].input_schema["properties"]["name"]["description"] == "New."
    assert offered(PETS).listing.faults == ()


@pytest.mark.parametrize(
    ("where", "url"),
    [
        ({"host": "service.example", "schemes": ["http", "https"]}, "https://service.example/v2"),
        ({"host": "service.example"}, "https://service.example/v2"),
        ({}, "https://service.example/v2"),
        ({"basePath": "/"}, "https://service.example"),
    ],
)
def test_the_service_is_where_host_schemes_and_base_path_say(where: dict[str, Any], url: str) -> None:
    offer = offered({**PETS, **where})
    assert {operation.base.url for operation in offer.operations.values()} == {url}


def test_another_host_is_only_reached_where_the_config_names_it() -> None:
    elsewhere = {**PETS, "host": "elsewhere.example"}
    with pytest.raises(Unreadable, match="is not where the document is from"):
        offered(elsewhere)
    offer = offered(elsewhere, url=URL, base_url="https://elsewhere.example/api")
    assert {operation.base.url for operation in offer.operations.values()} == {"https://elsewhere.example/api"}


def test_an_operation_with_two_bodies_is_left_out() -> None:
    both = [{"name": "a", "in": "body", "schema": {}}, {"name": "b", "in": "formData", "type": "string"}]
    offer = offered({**PETS, "paths": {"/x": {"post": operation("x", parameters=both)}}})
    assert offer.listing.faults == ("The operation POST /x is left out: it has more than one body.",)
