"""`jackfield mcp` passes on all of MCP: resources, prompts, completion, subscriptions, requests to the client."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mcp.types as t
import pytest
from mcp import Client

from jackfield.calls.rows import CallFilter, call_page
from tests.harness.in_process import KEY, make_gateway, serve_on_port
from tests.harness.process import clean_environment, start_gateway
from tests.mcp.library import Library, library
from tests.mcp.test_client_requests import CALLBACKS
from tests.requirement import requirement
from tests.sources.mcp.scene import http_server
from tests.stories.mcp_clients import ERAS, stdio_client
from tests.waiting import eventually_async

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
GROUPS = '[groups.notes]\ntools = ["docs:*"]\n'


TALKING = """
[sources.local]
kind = "files"
path = "tools/*.py"
"""
STEPS = '''
import asyncio


async def steps(ctx) -> str:
    """Tell two steps."""
    ctx.progress(1, 2, "one")
    await asyncio.sleep(0.5)
    ctx.progress(2, 2, "two")
    return "there"
'''


@asynccontextmanager
async def cutting_proxy(url: str, *, after: bytes) -> AsyncIterator[tuple[str, list[bool]]]:
    """A TCP proxy that cuts the first connection over which these bytes come back; its url, and whether it has."""
    host, _, port = url.removeprefix("http://").partition(":")
    cut: list[bool] = []

    async def pipe(reader: asyncio.StreamReader, *writers: asyncio.StreamWriter, watched: bool) -> None:
        try:
            while data := await reader.read(65_536):
                writers[0].write(data)
                await writers[0].drain()
                if watched and not cut and after in data:
                    cut.append(True)
                    break
        except OSError:
            pass
        for writer in writers:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(
            pipe(reader, far_writer, writer, watched=False), pipe(far_reader, writer, far_writer, watched=True)
        )

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", cut
    finally:
        server.close()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The url of a server that asks its client for everything."""
    with http_server(tmp_path_factory.mktemp("asking")) as server:
        yield server.url


def config(shelf: Library, asking: str) -> str:
    return (
        f'[sources.docs]\nkind = "mcp"\nurl = "{shelf.url}"\n'
        f'[sources.asking]\nkind = "mcp"\nurl = "{asking}"\nprefix = "asking_"\n{GROUPS}'
    )


@asynccontextmanager
async def bridged(
    folder: Path, config: str, *arguments: str, way: str, mode: str, **more: Any
) -> AsyncIterator[Client]:
    """A client of `jackfield mcp`, before a gateway that runs or one in its own process."""
    if way == "in process":
        (folder / "jackfield.toml").write_text(f"[server]\nport = 1\n{config}")
        env = {"JACKFIELD_STORE": "memory:"}
        async with stdio_client(folder, "--config", "jackfield.toml", *arguments, mode=mode, env=env, **more) as client:
            yield client
        return
    async with make_gateway(folder, config) as gateway, serve_on_port(gateway) as url:
        await gateway.source_registry.settled(within=10)
        await gateway.catalog.update_aside(gateway.source_registry.listings())
        env = {"JACKFIELD_URL": url, "JACKFIELD_KEY": KEY}
        async with stdio_client(folder, *arguments, mode=mode, env=env, **more) as client:
            yield client


@requirement("MCP2-stdio")
@pytest.mark.parametrize("way", ["running", "in process"])
@pytest.mark.parametrize("mode", ERAS)
async def test_everything_passes_over_stdio(tmp_path: Path, asking: str, mode: str, way: str) -> None:
    notes: list[Any] = []

    async def listen(message: object) -> None:
        notes.append(message)

    async with (
        library() as shelf,
        bridged(tmp_path, config(shelf, asking), way=way, mode=mode, message_handler=listen, **CALLBACKS) as client,
        asyncio.timeout(40),
    ):
        uris = [one.uri for one in (await client.list_resources()).resources]
        assert {"note://one", "note://two"} <= set(uris)
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        assert "note://by/{name}" in templates
        assert "review" in [one.name for one in (await client.list_prompts()).prompts]
        read = (await client.read_resource("note://by/ada")).contents[0]
        assert getattr(read, "text", None) == "A note by ada."
        got = await client.get_prompt("review", {"code": "x"})
        assert getattr(got.messages[0].content, "text", None) == "Please review x."
        completed = await client.complete(t.PromptReference(name="review"), {"name": "code", "value": "al"})
        assert completed.completion.values == ["alpha", "alphabet"]

        asked = await client.call_tool("asking_inquire", {})
        answers = json.loads(asked.content[0].text)  # type: ignore[union-attr]
        assert answers["who"]["action"] == "accept"
        assert answers["thought"]["model"] == "the client's"
        assert answers["folders"]["roots"] == [{"name": "home", "uri": "file:///home/ada"}]
        await _follow(client, shelf, notes, mode=mode)


async def _follow(client: Client, shelf: Library, notes: list[Any], *, mode: str) -> None:
    """Updated resources and changed lists are heard of."""
    if mode == "legacy":
        await client.subscribe_resource("note://one")
        await shelf.update("note://one", "changed")
        shelf.prompts.append(t.Prompt(name="another"))
        await shelf.announce()
        kinds = (t.ResourceUpdatedNotification, t.PromptListChangedNotification)
        await eventually_async(lambda: all(any(isinstance(note, kind) for note in notes) for kind in kinds))
        await client.unsubscribe_resource("note://one")
        return
    async with client.listen(resource_subscriptions=["note://one"], prompts_list_changed=True) as events:
        following = aiter(events)
        await shelf.update("note://one", "changed")
        assert getattr(await anext(following), "uri", None) == "note://one"
        shelf.prompts.append(t.Prompt(name="another"))
        await shelf.announce()
        await anext(following)
    assert "another" in [one.name for one in (await client.list_prompts()).prompts]


async def test_one_group_over_stdio(tmp_path: Path, asking: str) -> None:
    async with (
        library() as shelf,
        bridged(tmp_path, config(shelf, asking), "--group", "notes", way="running", mode="legacy") as client,
        asyncio.timeout(20),
    ):
        assert (await client.list_tools()).tools == []
        assert [one.name for one in (await client.list_prompts()).prompts] == ["review"]


@requirement("MCP2-stdio-restart")
async def test_subscriptions_outlive_the_gateway(tmp_path: Path) -> None:
    notes: list[Any] = []

    updated: list[str] = []

    async def listen(message: object) -> None:
        notes.append(message)
        if isinstance(message, t.ResourceUpdatedNotification):
            updated.append(str(message.params.uri))

    async with library() as shelf, asyncio.timeout(60):
        source = f'[server]\nport = 1\n[sources.docs]\nkind = "mcp"\nurl = "{shelf.url}"\n'
        gateway = await asyncio.to_thread(start_gateway, tmp_path, source)
        try:
            async with stdio_client(tmp_path, mode="legacy", message_handler=listen) as client:
                await client.subscribe_resource("note://one")
                await client.subscribe_resource("note://two")
                await client.unsubscribe_resource("note://two")
                await asyncio.to_thread(gateway.stop)
                gateway = await asyncio.to_thread(start_gateway, tmp_path)
                lists = (t.ToolListChangedNotification, t.PromptListChangedNotification)
                await eventually_async(lambda: all(any(isinstance(n, kind) for n in notes) for kind in lists))
                await eventually_async(lambda: updated == ["note://one"])
                await shelf.update("note://two", "nobody follows this any more")
                await shelf.update("note://one", "changed")
                await eventually_async(lambda: updated == ["note://one", "note://one"])
        finally:
            await asyncio.to_thread(gateway.stop)


@requirement("MCP2-stdio-resumed")
async def test_a_request_whose_connection_broke_gets_its_response_all_the_same(tmp_path: Path) -> None:
    """Between the bridge and the gateway stands a proxy that cuts the connection of a call after its first event."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/t.py").write_text(STEPS, encoding="utf-8")
    async with make_gateway(tmp_path, TALKING) as gateway, serve_on_port(gateway) as url:
        await gateway.source_registry.settled(within=10)
        await gateway.catalog.update_aside(gateway.source_registry.listings())
        told: list[str | None] = []

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        async with cutting_proxy(url, after=b"one") as (proxy, cut):
            env = {"JACKFIELD_URL": proxy, "JACKFIELD_KEY": KEY}
            async with stdio_client(tmp_path, mode="legacy", env=env) as client, asyncio.timeout(30):
                result = await client.call_tool("steps", {}, progress_callback=tell)
                assert getattr(result.content[0], "text", None) == "there"
        assert cut, "the connection was cut"
        assert told == ["one", "two"]
        calls = (await gateway.store.read(partial(call_page, CallFilter(), limit=10))).calls
        assert [call.tool for call in calls] == ["steps"], "it was made once"


async def test_a_batch_of_2025_03_26_is_passed_on_as_one(tmp_path: Path) -> None:
    (tmp_path / "jackfield.toml").write_text("[server]\nport = 1\n", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jackfield.cli", "mcp", "--config", "jackfield.toml"),
        cwd=tmp_path,
        env=clean_environment({"JACKFIELD_STORE": "memory:"}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    handshake = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (2, 3)]
    async with asyncio.timeout(30):
        said = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake}
        process.stdin.write(json.dumps(said).encode() + b"\n")
        assert json.loads(await process.stdout.readline())["result"]["protocolVersion"] == "2025-03-26"
        process.stdin.write(json.dumps(batch).encode() + b"\n")
        assert [one["id"] for one in json.loads(await process.stdout.readline())] == [2, 3]
        process.stdin.close()
        assert await process.wait() == 0
