"""A service in a process of its own that offers its functions in one line, asked over HTTP and by a gateway."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, free_port, running_gateway
from tests.requirement import requirement
from tests.stories.provider import RunningService, running_service
from tests.waiting import eventually

KEY = "fruit-key-0001"
HEADERS = {"Authorization": f"Bearer {KEY}"}

# Seed 004's tables: each field, its type, and whether it may be null or left out.
MANIFEST = {
    "protocol_version": (str, False),
    "scenario": (dict, False),
    "tools": (list, False),
    "categories": (list, False),
    "generated_at": (str, False),
}
SCENARIO = {"name": (str, False), "version": (str, False), "description": (str, False), "base_url": (str, True)}
DEFINITION = {
    "name": (str, False),
    "description": (str, False),
    "category": (str, True),
    "parameters": (dict, False),
    "metadata": (dict, False),
}
PARAMETERS = {
    "type": (str, False),
    "properties": (dict, False),
    "required": (list, True),
    "additionalProperties": (bool, True),
}
PARAMETER = {
    "type": (str, False),
    "description": (str, True),
    "enum": (list, True),
    "default": (object, True),
    "items": (dict, True),
    "properties": (dict, True),
    "minimum": (int, True),
    "maximum": (int, True),
    "minLength": (int, True),
    "maxLength": (int, True),
    "pattern": (str, True),
    "format": (str, True),
}
METADATA = {
    "enabled_by_default": (bool, False),
    "requires_approval": (bool, False),
    "timeout_seconds": (int, True),
    "rate_limit_per_minute": (int, True),
    "cost_estimate": (str, True),
    "long_running": (bool, True),
    "idempotent": (bool, True),
    "tags": (list, True),
    "examples": (list, True),
}
CATEGORY = {"id": (str, False), "name": (str, False), "description": (str, True), "icon": (str, True)}


@pytest.fixture(scope="module")
def shop() -> Iterator[RunningService]:
    with running_service(env={"SHOP_KEY": KEY}) as service:
        yield service


@pytest.fixture(scope="module")
def gateway(shop: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    config = f"""
[sources.shop]
kind = "manifest"
url = "{shop.url}"
headers = {{ Authorization = "Bearer ${{SHOP_KEY}}" }}
"""
    with running_gateway(tmp_path_factory.mktemp("gateway"), config, env={"SHOP_KEY": KEY}) as running:
        yield running


def conforms(value: dict[str, Any], table: Mapping[str, tuple[Any, bool]], *, beyond: set[str] | None = None) -> None:
    assert value.keys() - table.keys() <= (beyond or set())
    for name, (kind, optional) in table.items():
        if value.get(name) is None:
            assert optional, f"'{name}' is missing in {value}"
        else:
            assert isinstance(value[name], kind), f"'{name}' is no {kind.__name__} in {value}"


@requirement("DISC-provider-one-line")
def test_the_manifest_of_a_service_is_the_seeds_field_by_field(shop: RunningService) -> None:
    answer = httpx2.get(f"{shop.url}/api/v1/tools", headers=HEADERS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=60"
    manifest = answer.json()

    conforms(manifest, MANIFEST)
    assert list(manifest) == list(MANIFEST)
    assert manifest["protocol_version"] == "1.0"
    datetime.fromisoformat(manifest["generated_at"])
    conforms(manifest["scenario"], SCENARIO)
    assert manifest["scenario"] == {
        "name": "fruit-shop", "version": "1.2.0", "description": "Fruit, in stock and to order", "base_url": None,
    }  # fmt: skip
    assert manifest["categories"] == [
        {"id": "shop", "name": "Shop", "description": "All about fruit", "icon": "basket"}
    ]
    conforms(manifest["categories"][0], CATEGORY)
    assert [tool["name"] for tool in manifest["tools"]] == ["stock", "order"]
    for tool in manifest["tools"]:
        conforms(tool, DEFINITION, beyond={"version", "source"})
        conforms(tool["parameters"], PARAMETERS)
        for parameter in tool["parameters"]["properties"].values():
            conforms(parameter, PARAMETER)
        conforms(tool["metadata"], METADATA)
        assert tool["parameters"]["type"] == "object"
        assert tool["category"] == "shop"
        one = httpx2.get(f"{shop.url}/api/v1/tools/{tool['name']}", headers=HEADERS)
        assert (one.status_code, one.json()) == (200, tool)
    order = manifest["tools"][1]
    assert order["parameters"]["properties"] == {
        "fruit": {"type": "string", "enum": ["apples", "pears", "plums"]},
        "number": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
    }
    assert order["metadata"] == {
        "enabled_by_default": True,
        "requires_approval": False,
        "timeout_seconds": 10,
        "rate_limit_per_minute": 60,
        "cost_estimate": "low",
        "long_running": False,
        "idempotent": False,
        "tags": ["fruit"],
        "examples": [{"description": "Two plums", "input": {"fruit": "plums", "number": 2}}],
    }


def test_a_service_asks_for_its_key_says_what_is_not_there_and_knows_its_etag(shop: RunningService) -> None:
    tools = f"{shop.url}/api/v1/tools"
    assert httpx2.get(tools).status_code == 401
    assert httpx2.get(tools, headers={"X-Api-Key": "wrong-key"}).status_code == 401
    unknown = httpx2.get(f"{tools}/pineapple", headers=HEADERS)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "tool_not_found")
    etag = httpx2.get(tools, headers=HEADERS).headers["etag"]
    same = httpx2.get(tools, headers={**HEADERS, "If-None-Match": etag})
    assert (same.status_code, same.content) == (304, b"")
    assert httpx2.get(shop.url).text.startswith("The fruit shop.")


def test_a_service_executes_its_tools_over_plain_http(shop: RunningService) -> None:
    def execute(name: str, **arguments: Any) -> Any:
        where = f"{shop.url}/api/v1/tools/{name}/execute"
        return httpx2.post(where, headers=HEADERS, json={"arguments": arguments})

    done = execute("stock", fruit="pears").json()
    assert (done["success"], done["status"], done["result"], done["error"]) == (True, "completed", 0, None)
    failed = execute("order", fruit="pears").json()
    assert (failed["success"], failed["error"]) == (
        False,
        {"code": "tool_error", "message": "ValueError: only 0 pears left"},
    )
    refused = execute("order", fruit="kiwis")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_arguments")
    assert refused.json()["error"]["details"][0]["path"] == "fruit"


@requirement("DISC-any-provider", "DISC-future-execution-peer", "DISC-future-authentication-peer")
def test_a_gateway_lists_and_executes_a_services_tools_without_code_for_it(
    gateway: RunningGateway, shop: RunningService
) -> None:
    manifest = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers).json()
    tools = {tool["name"]: tool for tool in manifest["tools"]}
    assert tools.keys() == {"stock", "order"}
    assert tools["order"]["metadata"]["rate_limit_per_minute"] == 60
    assert {category["id"] for category in manifest["categories"]} == {"shop"}

    def execute(name: str, **arguments: Any) -> Any:
        where = f"{gateway.url}/api/v1/tools/{name}/execute"
        return httpx2.post(where, headers=gateway.headers, json={"arguments": arguments}, timeout=30)

    before = execute("stock", fruit="plums").json()["result"]
    ordered = execute("order", fruit="plums", number=2).json()
    assert (ordered["status"], ordered["result"]) == ("completed", {"fruit": "plums", "number": 2, "left": before - 2})
    failed = execute("order", fruit="pears").json()
    assert (failed["status"], failed["error"]["code"]) == ("failed", "tool_error")
    assert "only 0 pears left" in failed["error"]["message"]
    refused = execute("order", fruit="plums", number=0)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_arguments")
    assert KEY not in gateway.log


def test_a_service_that_is_killed_stays_listed_and_works_again_when_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    config = f'sources.shop = {{ kind = "manifest", url = "http://127.0.0.1:{port}", cache_ttl = 1 }}\n'
    with running_service(port=port) as first, running_gateway(tmp_path, config) as gateway:

        def execute() -> httpx2.Response:
            where = f"{gateway.url}/api/v1/tools/stock/execute"
            return httpx2.post(where, headers=gateway.headers, json={"arguments": {"fruit": "apples"}}, timeout=30)

        assert execute().json()["result"] == 40
        first.process.kill()
        first.process.wait(10)
        assert eventually(lambda: execute().status_code == 503)
        names = [
            tool["name"] for tool in httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers).json()["tools"]
        ]
        assert names == ["order", "stock"]
        with running_service(port=port):
            assert eventually(lambda: execute().status_code == 200)
            assert execute().json()["result"] == 40
