from typing import Any

import msgspec
import pytest

from jackfield.model.tool import Category
from jackfield.sources.openapi.document import Unreadable
from tests.requirement import requirement
from tests.sources.openapi.scene import document, json_body, offered, operation, parameter, tools_of

SHOP = document(
    {
        "/orders": {"get": operation("listOrders", tags=["Orders"]), "post": operation("createOrder", tags=["Orders"])},
        "/orders/{id}": {
            "get": operation("getOrder", tags=["Orders"]),
            "delete": operation("deleteOrder", tags=["Orders"]),
        },
        "/admin/users": {"get": operation("listUsers", tags=["Admin", "Users"])},
        "/health": {"get": {"responses": {}}},
    },
    tags=[{"name": "Orders", "description": "What was ordered"}],
)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({}, ["listOrders", "createOrder", "getOrder", "deleteOrder", "listUsers", "get_health"]),
        ({"include": {"tags": ["Orders"]}}, ["listOrders", "createOrder", "getOrder", "deleteOrder"]),
        ({"include": {"tags": ["Orders"], "methods": ["get"]}}, ["listOrders", "getOrder"]),
        ({"include": {"operations": ["list*", "getOrder"]}}, ["listOrders", "getOrder", "listUsers"]),
        ({"include": {"paths": ["/orders/*"]}}, ["getOrder", "deleteOrder"]),
        (
            {"include": {"paths": ["/orders*", "/health"]}},
            ["listOrders", "createOrder", "getOrder", "deleteOrder", "get_health"],
        ),
        ({"exclude": {"tags": ["Users"], "methods": ["DELETE", "POST"]}}, ["listOrders", "getOrder", "get_health"]),
        (
            {"include": {"tags": ["Orders"]}, "exclude": {"operations": ["delete*"]}},
            ["listOrders", "createOrder", "getOrder"],
        ),
    ],
)
def test_operations_are_chosen_by_tag_path_method_and_name(choice: dict[str, Any], names: list[str]) -> None:
    offer = offered(SHOP, **choice)
    assert [tool.name for tool in offer.listing.tools] == names
    assert offer.listing.faults == ()
    assert list(offer.operations) == names


def test_what_is_excluded_may_be_something_that_is_not_included_either() -> None:
    offer = offered(SHOP, include={"tags": ["Orders"]}, exclude={"tags": ["Users"], "operations": ["delete*"]})
    assert [tool.name for tool in offer.listing.tools] == ["listOrders", "createOrder", "getOrder"]
    assert offer.listing.faults == ()


def test_a_choice_that_fits_nothing_is_told() -> None:
    faults = offered(
        SHOP, include={"tags": ["Orders", "Odrers"]}, exclude={"paths": ["/x"]}, select={"nope": ["a"]}
    ).listing.faults
    assert faults == (
        "sources.shop.include.tags names 'Odrers', which no operation fits. Correct or remove it.",
        "sources.shop.exclude.paths names '/x', which no operation fits. Correct or remove it.",
        "sources.shop.select names 'nope', which is not one of its tools. Correct or remove it.",
    )


def test_a_tool_says_what_its_operation_is() -> None:
    made = document(
        {
            "/orders/{id}": {
                "delete": operation(
                    "deleteOrder", summary="Delete an order", description="For good.", tags=["Orders"], deprecated=True
                )
            }
        },
        tags=[{"name": "Orders", "description": "What was ordered"}],
    )
    offer = offered(made, call_timeout=7)
    (tool,) = offer.listing.tools

    assert tool.source == "shop"
    assert (tool.title, tool.description) == ("Delete an order", "Deprecated. Delete an order\n\nFor good.")
    assert (tool.category, tool.metadata.tags, tool.timeout_ms) == ("orders", ("Orders",), 7_000)
    assert offer.listing.categories == (Category(id="orders", name="Orders", description="What was ordered"),)


@pytest.mark.parametrize(
    ("method", "reads", "idempotent"),
    [
        ("get", True, True),
        ("head", True, True),
        ("put", False, True),
        ("delete", False, True),
        ("post", False, False),
        ("patch", False, False),
    ],
)
def test_the_method_says_whether_a_call_may_be_repeated_and_whether_it_changes_anything(
    method: str,
    reads: bool,  # noqa: FBT001 - a table
    idempotent: bool,  # noqa: FBT001 - a table
) -> None:
    tool = tools_of(document({"/x": {method: operation("x")}}))["x"]
    assert tool.metadata.idempotent is idempotent
    assert tool.metadata.modifies_state is not reads
    assert tool.annotations == {
        "readOnlyHint": reads,
        "destructiveHint": method in {"put", "patch", "delete"},
        "idempotentHint": idempotent,
        "openWorldHint": True,
    }


def test_operations_of_one_name_or_of_none_are_called_by_method_and_path() -> None:
    made = document(
        {"/a": {"get": operation("same"), "post": operation("same")}, "/a/{b}": {"get": {}}, "/a-{b}": {"get": {}}}
    )
    assert list(tools_of(made)) == ["same", "post_a", "get_a_b", "get_a_b_2"]


@pytest.mark.parametrize(
    ("servers", "options", "url"),
    [
        (None, {}, "https://service.example/x"),
        ([{"url": ""}], {}, "https://service.example/x"),
        ([{"url": "/v1/"}], {}, "https://service.example/v1/x"),
        ([{"url": "https://service.example/v2"}], {}, "https://service.example/v2/x"),
        (
            [{"url": "https://other.example"}, {"url": "https://service.example:443/v3"}],
            {},
            "https://service.example/v3/x",
        ),
        ([{"url": "/{v}", "variables": {"v": {"default": "v4"}}}], {}, "https://service.example/v4/x"),
        ([{"url": "https://other.example"}], {"base_url": "https://mine.example/api/"}, "https://mine.example/api/x"),
    ],
)
def test_a_request_goes_to_the_config_s_base_or_to_a_server_on_the_documents_own_origin(
    servers: Any, options: dict[str, str], url: str
) -> None:
    more = {} if servers is None else {"servers": servers}
    (found,) = offered(document({"/x": {"get": operation("x")}}, **more), **options).operations.values()
    assert f"{found.base.url}{found.path}" == url


@pytest.mark.parametrize(
    "server",
    [
        "https://evil.example/v1",
        "http://service.example/",
        "https://service.example:8443",
        "//evil.example",
        "https://service.example@evil.example/",
        "https://me@service.example/",
        "file:///etc",
    ],
)
def test_a_document_cannot_send_requests_elsewhere(server: str) -> None:
    made = document({"/x": {"get": operation("x")}}, servers=[{"url": server}])
    with pytest.raises(Unreadable, match="Set base_url to where calls are to go"):
        offered(made)


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "",
        "/../admin",
        "/a/..",
        "/./a",
        "/%2e%2E/a",
        "/a%2f..%2Fb",
        "/a\\..\\b",
        "/a?b=1",
        "/a#b",
        "https://evil.example/",
    ],
)
def test_a_path_that_would_leave_the_base_is_left_out(path: str) -> None:
    offer = offered(document({path: {"get": operation("x")}, "/fine": {"get": operation("fine")}}))
    assert list(offer.operations) == ["fine"]
    assert len(offer.listing.faults) == 1


def test_an_operation_on_another_server_is_left_out_and_one_on_the_same_stays() -> None:
    made = document(
        {
            "/up": {"post": operation("upload", servers=[{"url": "https://uploads.example"}])},
            "/in": {"servers": [{"url": "/internal"}], "get": operation("inside")},
        }
    )
    offer = offered(made)
    assert {name: found.base.url for name, found in offer.operations.items()} == {
        "inside": "https://service.example/internal"
    }
    assert offer.listing.faults == (
        "The operation POST /up is left out: it is on another server ('https://uploads.example') than the rest.",
    )


@requirement("CON-openapi-base-url")
def test_where_the_config_says_where_the_service_is_every_operation_is_there() -> None:
    own = [{"url": "https://kubernetes.example:6443/apis"}]
    paths = {f"/apis/v{n}": {"servers": own, "get": operation(f"get_{n}", servers=own)} for n in range(845)}
    offer = offered(document(paths, servers=own), base_url="https://127.0.0.1:6443")
    assert len(offer.listing.tools) == 845
    assert {found.base.url for found in offer.operations.values()} == {"https://127.0.0.1:6443"}
    assert offer.listing.faults == ()


@requirement("CON-openapi-faults")
def test_a_fault_that_many_operations_have_is_one_line_with_their_number() -> None:
    paths: dict[str, Any] = {
        f"/a{n}": {"get": operation(f"a{n}", parameters=[{"$ref": f"other{n}.yaml#/X"}])} for n in range(30)
    }
    paths["/b"] = {"get": operation("b", parameters=[parameter("x", "trailer")])}
    listing = offered(document(paths)).listing
    assert listing.faults == (
        (
            "30 operations are left out. GET /a0: it refers to 'other0.yaml#/X', and nothing outside the document is "
            "fetched. Likewise GET /a1, GET /a2, GET /a3, GET /a4, GET /a5, GET /a6, GET /a7, GET /a8, GET /a9 and "
            "20 more."
        ),
        "The operation GET /b is left out: it has a parameter 'x' in 'trailer', which OpenAPI 3 does not know.",
    )


def definition(content: dict[str, Any], **options: Any) -> Any:
    (tool,) = offered(content, **options).listing.tools
    assert tool.definition is not None
    return msgspec.json.decode(tool.definition)


def test_a_tool_is_pinned_by_what_it_is_and_where_its_request_goes_and_not_by_the_operators_words() -> None:
    def made(**more: Any) -> dict[str, Any]:
        item = operation("x", **{"parameters": [parameter("q")], **more})
        return document({"/x": {"post": item}}, components={"schemas": {"B": {"type": "string"}}})

    before = definition(made())
    assert definition(made(responses={"200": {"description": "changed"}})) == before
    assert definition(made(), fields=False, cache_ttl=5) == before
    for changed in (
        made(summary="Do something else"),
        made(parameters=[parameter("q", "header")]),
        made(parameters=[parameter("q", schema={"type": "integer"})]),
        made(requestBody=json_body({"$ref": "#/components/schemas/B"})),
        {**made(), "servers": [{"url": "/elsewhere"}]},
    ):
        assert definition(changed) != before


def test_only_so_many_operations_are_taken_and_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = document({f"/p{n}": {"get": operation(f"o{n}")} for n in range(20)})
    monkeypatch.setattr("jackfield.sources.openapi.operations.MAX_TOOLS", 7)
    listing = offered(made).listing
    assert [tool.name for tool in listing.tools] == [f"o{n}" for n in range(7)]
    assert len(listing.faults) == 1
    assert "the first 7 are. Choose some with 'include'." in listing.faults[0]
