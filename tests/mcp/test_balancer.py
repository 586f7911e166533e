"""Two gateways behind a balancer that sends each request to the other one than before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from tests.mcp.scene import KEY, Scene, mcp_scene


class Balancer(httpx2.AsyncBaseTransport):
    """Takes turns."""

    def __init__(self, *scenes: Scene) -> None:
        self._turns = cycle(scene.transport for scene in scenes)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await next(self._turns).handle_async_request(request)


@asynccontextmanager
async def two_gateways(tmp_path: Path) -> AsyncIterator[tuple[Scene, Scene, Balancer]]:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    async with mcp_scene(one) as first, mcp_scene(other) as second:
        yield first, second, Balancer(first, second)


def through(balancer: Balancer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=balancer, headers={"x-api-key": KEY}, base_url="http://localhost:8420")


async def test_a_client_of_2026_does_not_notice(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (first, second, balancer), through(balancer) as http:
        transport = streamable_http_client("http://localhost:8420/mcp", http_client=http)
        async with Client(transport, mode="2026-07-28") as client:
            assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
            for number in range(6):
                result = await client.call_tool("echo", {"text": str(number)})
                assert result.content[0].text == str(number)  # type: ignore[union-attr]
        served = [
            count
            for scene in (first, second)
            for series, count in scene.gateway.pipeline.counters.calls.items()
            if series[0] == "echo"
        ]
        assert served == [3, 3]


async def test_a_session_is_known_to_its_own_gateway_and_404_at_the_other(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (first, second, _):
        session = await first.shake_hands()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await second.post(body, headers=session)).status_code == 404
        assert (await first.post(body, headers=session)).status_code == 200
        assert (await second.post(body, headers=await second.shake_hands())).status_code == 200


async def test_an_answer_that_comes_to_another_gateway_is_told_so(tmp_path: Path) -> None:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with two_gateways(tmp_path) as (first, second, balancer), through(balancer) as http:
        transport = streamable_http_client("http://localhost:8420/mcp", http_client=http)
        async with Client(transport, mode="2026-07-28", elicitation_callback=answer) as client:
            with pytest.raises(MCPError, match="was made at another gateway"):
                await client.call_tool("ask", {})
        for scene in (first, second):
            await scene.cancel_all()
