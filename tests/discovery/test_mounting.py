"""Mounted in a Starlette app, asked through ASGI; `tests/stories/test_provider.py` does so over HTTP."""

import subprocess
import sys
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from jackfield import discovery
from tests.requirement import requirement


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def other(_: object) -> PlainTextResponse:
    return PlainTextResponse("the service's own")


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    app = Starlette(routes=[Route("/own", other), Mount("/", Route("/{rest:path}", other))])
    discovery.mount(app, tools=[add], name="maths")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://maths.test") as made:
        yield made


@requirement("DISC-provider-one-line")
async def test_one_line_gives_an_app_the_endpoints_before_what_it_has(client: httpx2.AsyncClient) -> None:
    manifest = (await client.get("/api/v1/tools")).json()
    assert [tool["name"] for tool in manifest["tools"]] == ["add"]
    assert (await client.get("/api/v1/tools/add")).json() == manifest["tools"][0]
    answer = await client.post("/api/v1/tools/add/execute", json={"arguments": {"a": 2}})
    assert answer.json()["result"] == 3
    assert (await client.get("/own")).text == "the service's own"
    assert (await client.get("/anything")).text == "the service's own"


async def test_head_options_and_other_methods_are_answered_as_a_gateway_does(client: httpx2.AsyncClient) -> None:
    head = await client.head("/api/v1/tools")
    assert (head.status_code, head.content) == (200, b"")
    assert (await client.options("/api/v1/tools")).status_code == 204
    wrong = await client.delete("/api/v1/tools/add")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize("name", ["n%C3%B6", "%22quoted%22", "a%20b", "%5C", "x" * 3_000])
async def test_any_name_that_is_no_tool_is_404_in_valid_json(client: httpx2.AsyncClient, name: str) -> None:
    for answer in (
        await client.get(f"/api/v1/tools/{name}"),
        await client.post(f"/api/v1/tools/{name}/execute", json={}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "tool_not_found")


async def test_a_body_that_is_too_large_is_not_read_to_its_end(client: httpx2.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(200):
            sent += 1
            yield b" " * 1_000_000

    answer = await client.post(
        "/api/v1/tools/add/execute", content=endless(), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert sent < 50


def test_the_import_brings_no_gateway_along() -> None:
    """A service that offers two functions should not load a database driver."""
    code = "import sys, jackfield.discovery; print(*sorted(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    rooms = {name.split(".")[1] for name in loaded if name.startswith("jackfield.")}
    assert "jackfield.discovery" in loaded
    assert (
        rooms & {"app", "store", "calls", "agents", "spaces", "sessions", "sources", "workers", "llm", "cli"} == set()
    )
    assert loaded & {"asyncpg", "sqlite3", "uvicorn", "watchfiles", "websockets"} == set()
