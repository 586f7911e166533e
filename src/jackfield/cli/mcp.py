"""`jackfield mcp`: the catalog as an MCP server over stdin and stdout, for clients that start their servers themselves.

Above: `main.py`. Below: `stdio_bridge.py`, which carries messages between the client and `/mcp` of a gateway: one that
runs, or one inside this process. Nothing but messages goes to stdout.
"""

import asyncio
import importlib
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2

from jackfield.cli.reach import find_road
from jackfield.cli.stdio import Stdio
from jackfield.cli.stdio_bridge import StdioBridge
from jackfield.cli.stdio_gateway import McpGateway
from jackfield.cli.usage import add_gateway_arguments
from jackfield.sdk.address import find_address
from jackfield.settings import Settings

CONNECT_WITHIN = 10.0
DESCRIPTION = """\
Serve the catalog to an MCP client that speaks over stdin and stdout. Uses a running gateway if there is one, else runs
the config in this process until the client hangs up. Logs go to stderr."""
EXAMPLES = """\
  jackfield mcp
  jackfield mcp --config demo/jackfield.toml
  jackfield mcp --search-above 50        (one search tool in place of a large catalog)"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help="use this config; without a running gateway, run it in process"
    )
    parser.add_argument(
        "--search-above",
        metavar="N",
        type=int,
        help="list 'search_tools' instead of the tools when there are more than N; 0: never",
    )
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    with Stdio() as stdio:
        asyncio.run(_serve(options, stdio))
    return 0


def serve_at(url: str, key: str) -> int:
    """The same for exactly this gateway and this key, as a bridge inside a sandbox does it."""

    async def carry(stdio: Stdio) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stdio.hang_up)
        address = find_address(url, key)
        async with _client(address.url, address.key, trust_env=not address.is_local) as http:
            await StdioBridge(McpGateway(http, headers={}), stdio).run()

    with Stdio() as stdio:
        asyncio.run(carry(stdio))
    return 0


async def _serve(options: Namespace, stdio: Stdio) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stdio.hang_up)
    extra = {} if options.search_above is None else {"Jackfield-Search-Above": str(options.search_above)}
    async with _gateway(options) as http:
        await StdioBridge(McpGateway(http, headers=extra), stdio).run()


@asynccontextmanager
async def _gateway(options: Namespace) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the gateway's `/mcp`, wherever the gateway is."""
    road = await find_road(options, may_run_inside=True)
    if road.inside is not None and road.key is not None:
        async with _transport_inside(road.inside) as transport, _client(road.inside.url, road.key, transport) as http:
            yield http
        return
    address = find_address(road.url, road.key)
    async with _client(address.url, address.key, trust_env=not address.is_local) as http:
        yield http


def _transport_inside(settings: Settings) -> AbstractAsyncContextManager[httpx2.AsyncBaseTransport]:
    """`inside.py` is loaded here and not above: it brings the whole server, which a bridge does without."""
    inside = importlib.import_module("jackfield.cli.inside")
    road: AbstractAsyncContextManager[httpx2.AsyncBaseTransport] = inside.transport_inside(settings)
    return road


def _client(
    url: str, key: str | None, transport: httpx2.AsyncBaseTransport | None = None, *, trust_env: bool = True
) -> httpx2.AsyncClient:
    """Without a limit of time, because calls and streams have none but the gateway's."""
    return httpx2.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx2.Timeout(None, connect=CONNECT_WITHIN),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
        transport=transport,
        trust_env=trust_env,
    )
