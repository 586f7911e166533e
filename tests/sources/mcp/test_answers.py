"""Everything an answer may hold, over every transport and in both eras, from servers made with the SDK."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from jackfield.model.tool import ToolKind
from jackfield.sources.base import ElicitAnswer, ElicitRequest, LogNote, Progress
from jackfield.sources.client import CallerClient, SampleRequest
from tests.requirement import requirement
from tests.sources.invocations import asking
from tests.sources.mcp.scene import EVERYTHING, HttpServer, Scene, failed, opened, raw_json, result
from tests.waiting import eventually_async

ALL = ["http-modern", "http-legacy", "sse", "stdio-modern", "stdio-legacy"]


@pytest.fixture(params=ALL)
async def far(
    request: pytest.FixtureRequest, tmp_path: Path, carrier: Callable[[str, Path], dict[str, Any]]
) -> AsyncIterator[Scene]:
    async with opened(tmp_path, **carrier(request.param, tmp_path)) as scene:
        yield scene


@pytest.fixture
def carrier(modern: HttpServer, legacy: HttpServer) -> Callable[[str, Path], dict[str, Any]]:
    def options(kind: str, folder: Path) -> dict[str, Any]:
        if kind == "sse":
            return {"url": modern.sse_url, "transport": "sse"}
        if kind.startswith("http"):
            return {"url": (modern if kind == "http-modern" else legacy).url}
        more = ["--legacy"] if kind == "stdio-legacy" else []
        command = [sys.executable, "-W", "ignore", str(EVERYTHING), "stdio", "--state", str(folder), *more]
        return {"command": command, "connect_timeout": 30}

    return options


@requirement(
    "TOOL-mcp-executes",
    "TOOL-mcp-transport-stdio",
    "TOOL-mcp-transport-sse",
    "TOOL-mcp-transport-streamable",
    "TOOL-deliver-mcp-client",
    "TOOL-deliver-mcp-transport",
    "SPACE-dynamic-mcp",
)
async def test_everything_an_answer_may_hold_comes_through_whole(far: Scene, caplog: pytest.LogCaptureFixture) -> None:
    # One long scene, because a server on stdio takes seconds to start.
    caplog.set_level(logging.INFO, logger="jackfield.mcp")
    await the_tools_are_listed(far)
    await answers_keep_their_shape(far)
    await failures_have_the_servers_words(far)
    await progress_and_logs_are_told(far, caplog)
    await a_person_can_be_asked(far)
    await many_calls_share_the_connection(far)
    await new_tools_are_told_of(far)


async def the_tools_are_listed(far: Scene) -> None:
    names = set(far.tools)
    assert {"echo", "weather", "picture", "mixed", "resources", "fail", "boom", "steps", "ask", "count"} <= names
    weather = far.tools["weather"]
    assert (weather.kind, weather.type, weather.visible, weather.title) == (ToolKind.MCP, "mcp", False, "Weather")
    assert weather.output_schema is not None
    assert weather.definition is not None
    assert json.loads(bytes(weather.definition))["outputSchema"] == weather.output_schema
    assert far.tools["count"].annotations == {"idempotentHint": True, "title": "Counter"}
    assert not far.tools["count"].metadata.idempotent, "what a server says of itself opens nothing"
    assert all(far.source.can_execute(tool) for tool in far.tools.values())
    assert (await far.source.refresh()).faults == (), "a server need not have templates of resources"


async def answers_keep_their_shape(far: Scene) -> None:
    assert await far.result("echo", text="grüezi ☕") == "grüezi ☕"
    assert await far.result("weather", city="Zürich") == {"celsius": 21.5}
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    assert await far.result("picture") == {"content": [image, audio]}
    note = {"type": "text", "text": "for people", "annotations": {"audience": ["user"], "priority": 0.5}}
    assert await far.result("mixed") == {
        "content": [note, {"type": "text", "text": "more"}],
        "structuredContent": {"n": 1},
        "_meta": {"acme/trace": "t1"},
    }
    inner = {"uri": "file:///notes.txt", "mimeType": "text/plain", "text": "notes"}
    link = {"type": "resource_link", "uri": "file:///a.txt", "name": "a"}
    assert await far.result("resources") == {"content": [link, {"type": "resource", "resource": inner}]}


async def failures_have_the_servers_words(far: Scene) -> None:
    failure = failed(await far.call("fail"))
    assert (failure.code, failure.message) == ("tool_error", "no luck")
    assert failure.result is not None
    assert bytes(failure.result) == b'"no luck"'
    boom = failed(await far.call("boom"))
    assert (boom.code, boom.message) == (
        "mcp_error",
        "The server of 'boom' answered with error -32050: the engine fell off",
    )
    assert "Unknown tool: gone" in failed(await far.call("gone")).message


async def progress_and_logs_are_told(far: Scene, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Progress] = []
    noted: list[LogNote] = []
    assert result(await far.call("steps", report=told.append, note=noted.append)) == "done"
    assert told == [Progress(progress=step, total=3, message=f"step {step}") for step in (1, 2, 3)]
    logged = ("jackfield.mcp.far", logging.WARNING, 'engine: {"disk":"full"}')
    await eventually_async(lambda: logged in caplog.record_tuples)
    await eventually_async(lambda: bool(noted))
    (note,) = noted
    assert (note.level, note.message, note.logger) == ("warning", '{"disk":"full"}', "engine")
    assert note.data is not UNSET
    assert msgspec.json.decode(note.data) == {"disk": "full"}


async def a_person_can_be_asked(far: Scene) -> None:
    asked: list[ElicitRequest] = []

    async def ada(request: ElicitRequest) -> ElicitAnswer:
        asked.append(request)
        return ElicitAnswer(action="accept", content={"name": "Ada"})

    async def nobody(_: ElicitRequest) -> ElicitAnswer:
        return ElicitAnswer(action="cancel")

    assert result(await far.call("ask", ask=asking(ada))) == 'accept {"name": "Ada"}'
    assert [request.message for request in asked] == ["Who is it?"]
    assert asked[0].schema is not None
    assert asked[0].schema["required"] == ["name"]
    assert result(await far.call("ask", ask=asking(nobody))) == "cancel null"
    assert result(await far.call("ask")) == "decline null", "nobody is there to be asked"


async def many_calls_share_the_connection(far: Scene) -> None:
    texts = [f"call {number}" for number in range(40)]
    assert await asyncio.gather(*(far.result("echo", text=text) for text in texts)) == texts


async def new_tools_are_told_of(far: Scene) -> None:
    far.changes.clear()
    revision = await far.result("grow", name=f"grown_{id(far)}")
    assert revision in {"2025-11-25", "2026-07-28"}
    async with asyncio.timeout(5):
        await far.changes.wait()
    assert f"grown_{id(far)}" in await far.list()


async def test_a_cancelled_call_is_cancelled_at_the_server(
    modern: HttpServer, legacy: HttpServer, tmp_path: Path
) -> None:
    for options, state in (
        ({"url": modern.url}, modern.state),
        ({"url": legacy.url}, legacy.state),
        ({"url": modern.sse_url, "transport": "sse"}, modern.state),
    ):
        for mark in ("hanging", "stopped"):
            (state / mark).unlink(missing_ok=True)
        async with opened(tmp_path, **options) as far:
            call = asyncio.create_task(far.call("hang"))
            await eventually_async((state / "hanging").exists)
            call.cancel()
            await asyncio.wait([call])
            await eventually_async((state / "stopped").exists)
            assert call.cancelled()
            assert await far.result("echo", text="still here") == "still here"


@requirement("TOOL-mcp-client-per-server")
async def test_one_connection_is_kept_for_all_calls(legacy: HttpServer, tmp_path: Path) -> None:
    async with opened(tmp_path, url=legacy.url) as far:
        before = int(await far.result("count"))
        await asyncio.gather(*(far.result("echo", text="x") for _ in range(10)))
        assert int(await far.result("count")) == before + 11, "one server process saw all of them, in one session"


async def test_only_allowed_tools_are_listed_and_called(modern: HttpServer, tmp_path: Path) -> None:
    async with opened(tmp_path, url=modern.url, allowed_tools=["ec*", "count", "gone"], call_timeout=2.5) as far:
        assert set(far.tools) == {"echo", "count"}
        assert {tool.timeout_ms for tool in far.tools.values()} == {2500}
        listing = await far.source.refresh()
        assert listing.faults == (
            "sources.far.allowed_tools names 'gone', which the server does not offer. Correct or remove it.",
        )


async def test_a_server_that_may_sample_gets_a_models_answer_and_no_other_does(
    modern: HttpServer, legacy: HttpServer, tmp_path: Path
) -> None:
    for server in (modern, legacy):
        async with opened(tmp_path, url=server.url, sampling="small") as far:
            thought = json.loads(await far.result("think"))
            assert (thought["type"], thought["text"]) == ("text", "small, 50 tokens: What is two and two?")
            own = asking(_client_model)
            client = CallerClient(capabilities={"sampling": {}}, ask=own)
            assert json.loads(result(await far.call("think", ask=own, client=client)))["text"] == "the client's"
        async with opened(tmp_path, url=server.url) as far:
            failed(await far.call("think"))


async def _client_model(_: SampleRequest) -> Raw:
    content = {"type": "text", "text": "the client's"}
    return raw_json({"role": "assistant", "content": content, "model": "m"})
