"""Changes of the catalog, live, and streams that end when the gateway does."""

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from jackfield.protocol.sse import EventParser, ServerEvent
from tests.harness.api import ADMIN_KEY, Api, open_api
from tests.requirement import requirement
from tests.waiting import Stopwatch, eventually

NEW_TOOL = 'def {name}() -> str:\n    """New here."""\n    return "{name}"\n'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


def events_of(answer: httpx2.Response) -> Iterator[ServerEvent]:
    parser = EventParser()
    for chunk in answer.iter_bytes():
        yield from parser.feed(chunk)


@requirement("CON-disc-changes-sse")
def test_changes_of_the_catalog_arrive_as_events(api: Api) -> None:
    file = api.gateway.folder / "tools" / "fresh.py"
    with api.client.stream("GET", "/api/v1/tools/changes", headers={"x-api-key": "reader-key"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        events = events_of(answer)
        connected = next(events)
        version = api.ask("GET", "/api/v1/tools/add").json()["version"]
        assert (connected.type, json.loads(connected.data)["type"]) == ("connected", "connected")
        told = []
        for text in (NEW_TOOL.format(name="fresh"), NEW_TOOL.format(name="fresh").replace("New", "Newer"), None):
            file.unlink() if text is None else file.write_text(text)
            event = next(events)
            assert event.type == "tools.changed"
            told.append(json.loads(event.data))
            assert event.id == told[-1]["version"]
    assert [(one["added"], one["removed"], one["changed"]) for one in told] == [
        (["fresh"], [], []),
        ([], [], ["fresh"]),
        ([], ["fresh"], []),
    ]
    assert {tuple(one) for one in told} == {("type", "added", "removed", "changed", "version")}
    assert told[-1]["version"] == json.loads(connected.data)["version"]
    assert api.ask("GET", "/api/v1/tools/add").json()["version"] == version


@asynccontextmanager
async def socket_to(api: Api, **headers: str) -> AsyncIterator[ClientConnection]:
    url = api.gateway.url.replace("http", "ws") + "/api/v1/tools/changes"
    async with connect(url, additional_headers=headers, proxy=None) as connection:
        yield connection


async def receive(connection: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await connection.recv())
    return found


@requirement("DISC-future-websocket")
async def test_changes_of_the_catalog_arrive_over_websocket(api: Api) -> None:
    file = api.gateway.folder / "tools" / "socket.py"
    async with socket_to(api, Authorization="Bearer reader-key") as connection:
        connected = await receive(connection)
        assert connected == {"type": "connected", "version": connected["version"]}
        file.write_text(NEW_TOOL.format(name="plugged"))
        told = await receive(connection)
        file.unlink()
        assert (told["type"], told["added"]) == ("tools.changed", ["plugged"])
        assert (await receive(connection))["removed"] == ["plugged"]


async def test_a_key_hears_only_of_tools_it_may_see(api: Api) -> None:
    folder = api.gateway.folder / "tools"
    async with socket_to(api, **{"x-api-key": "server-key"}) as connection:
        await receive(connection)
        (folder / "hidden.py").write_text(NEW_TOOL.format(name="hidden"))
        (folder / "shown.py").write_text(NEW_TOOL.format(name="echoes"))
        assert (await receive(connection))["added"] == ["echoes"]
        (folder / "hidden.py").unlink()
        (folder / "shown.py").unlink()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "wrong"}, 401),
        ({"x-api-key": "answerer-key"}, 403),
        ({"x-api-key": ADMIN_KEY, "Origin": "http://evil.example"}, 403),
    ],
)
async def test_a_websocket_is_refused_like_a_request(api: Api, headers: dict[str, str], status: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with socket_to(api, **headers):
            pass
    answer = refused.value.response
    assert answer.status_code == status
    assert set(json.loads(answer.body or b"")["error"]) == {"type", "code", "message", "param"}


async def test_a_websocket_by_cookie_opens_for_the_gateways_own_page_only(api: Api) -> None:
    login = httpx2.post(f"{api.gateway.url}/api/login", headers={"x-api-key": "reader-key"}).cookies["jackfield"]
    cookie = f"jackfield={login}"
    async with socket_to(api, Cookie=cookie, Origin=api.gateway.url) as connection:
        assert (await receive(connection))["type"] == "connected"
    for origin in ({}, {"Origin": "http://localhost:1"}):
        with pytest.raises(InvalidStatus) as refused:
            async with socket_to(api, Cookie=cookie, **origin):
                pass
        assert refused.value.response.status_code == 403


async def test_a_websocket_to_a_foreign_host_is_refused(api: Api) -> None:
    url = f"ws://evil.example:{api.gateway.port}/api/v1/tools/changes"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, host="127.0.0.1", additional_headers={"x-api-key": ADMIN_KEY}, proxy=None):
            pass
    assert refused.value.response.status_code == 421


async def test_an_unknown_websocket_path_is_404(api: Api) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(api.gateway.url.replace("http", "ws") + "/nowhere", proxy=None):
            pass
    assert refused.value.response.status_code == 404


async def test_open_streams_end_promptly_when_the_gateway_stops(tmp_path: Path) -> None:
    with open_api(tmp_path) as api:
        async with socket_to(api, **{"x-api-key": ADMIN_KEY}) as connection, httpx2.AsyncClient() as client:
            await receive(connection)
            headers = {"x-api-key": ADMIN_KEY}
            async with (
                client.stream("GET", f"{api.gateway.url}/api/v1/tools/changes", headers=headers) as changes,
                client.stream("GET", f"{api.gateway.url}/api/v1/calls/stream", headers=headers) as calls,
            ):
                assert (changes.status_code, calls.status_code) == (200, 200)
                watch = Stopwatch()
                assert await asyncio.to_thread(api.gateway.stop) == 0
                assert watch.seconds() < 5
                assert b"event: connected" in await changes.aread()
                assert (await calls.aread()).startswith(b": connected")
            with pytest.raises(ConnectionClosed):
                await connection.recv()


def test_a_call_that_runs_when_the_gateway_stops_is_answered_and_on_record(tmp_path: Path) -> None:
    with open_api(tmp_path) as api, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(api.execute, "slow", {"gate": str(tmp_path / "gate")})
        eventually(lambda: api.ask("GET", "/api/v1/calls?status=running").json()["calls"])
        watch = Stopwatch()
        assert api.gateway.stop() == 0
        assert watch.seconds() < 10
        told = answer.result(1).json()
        assert (told["status"], told["error"]["code"]) == ("failed", "interrupted")
    with open_api(tmp_path) as api:
        record = api.ask("GET", f"/api/v1/calls/{told['call_id']}").json()["call"]
        assert (record["status"], record["error"]) == ("failed", told["error"])
