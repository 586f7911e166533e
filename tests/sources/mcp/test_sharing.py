"""Who shares a connection to a server, and what becomes of it when one of them is done or finds it broken."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.model.call import done
from jackfield.outgoing import Outgoing
from jackfield.sources.mcp.options import parse_options
from jackfield.sources.mcp.source import McpSource, server_of_a_request
from jackfield.sources.mcp.transport import McpClientError
from tests.requirement import requirement
from tests.sources.invocations import invocation_of
from tests.sources.network import surroundings_in
from tests.sources.upstream import Received, Upstream, json_reply, reply

KEY = {"Authorization": "Bearer one"}


class Server:
    """An MCP server of the handshake era that counts its clients."""

    def __init__(self, upstream: Upstream) -> None:
        self.url = f"{upstream.url}/mcp"
        self.clients = 0
        self.is_broken = False
        upstream.answers["/mcp"] = self._answer

    def _answer(self, request: Received) -> bytes:
        if request.method != "POST":
            return reply(405)
        message = msgspec.json.decode(request.body)
        method = message["method"]
        if "id" not in message:
            return reply(202)
        if method == "initialize":
            self.clients += 1
            told: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
        elif method == "tools/list":
            if self.is_broken:
                return reply(500)
            told = {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]}
        else:
            told = {"content": [{"type": "text", "text": "hello"}]}
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": told})


class Place:
    """A server, and sources that are made for it."""

    def __init__(self, server: Server, folder: Path, outgoing: Outgoing) -> None:
        self.server = server
        self.changed: list[str] = []
        self.source_context = surroundings_in(folder, outgoing=outgoing, changed=self.changed.append)
        self._made: list[McpSource] = []

    async def source(self, name: str, *, owner: str = "", from_config: bool = True, **options: Any) -> McpSource:
        parsed = parse_options({"url": self.server.url, "era": "handshake", **options}, where=name)
        made = McpSource(name, parsed, self.source_context, from_config=from_config, owner=owner)
        self._made.append(made)
        await made.open()
        await made.refresh()
        return made

    async def close(self) -> None:
        for source in self._made:
            await source.close()


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    async with Upstream() as upstream, Outgoing(allow=("127.0.0.1",)) as outgoing:
        made = Place(Server(upstream), folder, outgoing)
        try:
            yield made
        finally:
            await made.close()


async def hello(source: McpSource) -> Any:
    [tool] = (await source.refresh()).tools
    return await source.execute(invocation_of(tool))


@requirement("TOOL-mcp-one-client")
@pytest.mark.parametrize(
    ("one", "other", "clients"),
    [
        ({}, {}, 1),
        ({"headers": KEY}, {"headers": {"authorization": "Bearer one"}}, 1),
        ({"headers": KEY, "owner": "a"}, {"headers": KEY, "owner": "b"}, 1),
        ({"headers": KEY, "owner": "a"}, {"headers": KEY}, 1),
        ({"headers": KEY}, {"headers": {"Authorization": "Bearer two"}}, 2),
        ({"headers": KEY}, {}, 2),
        ({"owner": "a"}, {"owner": "b"}, 2),
        ({"headers": {"X-Trace": "1"}, "owner": "a"}, {"headers": {"X-Trace": "1"}, "owner": "b"}, 2),
        ({"headers": KEY}, {"headers": KEY, "from_config": False}, 2),
    ],
)
async def test_a_connection_is_shared_where_url_and_credentials_are_equal_and_never_otherwise(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], clients: int
) -> None:
    async with place(tmp_path) as at:
        first, second = await at.source("first", **one), await at.source("second", **other)
        assert at.server.clients == clients
        assert isinstance(await hello(first), type(done(1)))
        assert isinstance(await hello(second), type(done(1)))
        assert at.server.clients == clients


@requirement("TOOL-mcp-one-client")
async def test_the_connection_stays_until_the_last_one_is_done_with_it(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        first, second = await at.source("first"), await at.source("second")
        await first.close()
        assert isinstance(await hello(second), type(done(1)))
        assert at.server.clients == 1
        await second.close()
        await first.open()
        assert at.server.clients == 2


@requirement("TOOL-mcp-one-client")
async def test_whoever_finds_the_connection_broken_has_it_made_anew_for_the_others_too(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        first, second = await at.source("first"), await at.source("second")
        at.server.is_broken = True
        with pytest.raises(McpClientError):
            await first.refresh()
        at.server.is_broken = False
        await first.close()
        await first.open()
        assert isinstance(await hello(second), type(done(1)))
        assert at.server.clients == 2


async def test_a_server_of_a_request_is_its_own_without_credentials(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        made = [
            server_of_a_request(name, url=at.server.url, headers=headers, source_context=at.source_context)
            for name in ("request_a", "request_b")
            for headers in ({}, KEY)
        ]
        shares = [source._session.upstream for source in made]
        assert shares[1] is shares[3]
        assert len({id(share) for share in shares}) == 3
