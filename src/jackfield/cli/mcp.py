"""`jackfield mcp`: the catalog as an MCP server on stdin and stdout, for clients that start their servers themselves.

`stdio` has the client's side, `mcp_http` that of the gateway, which runs elsewhere or in this process.
"""

import asyncio
import signal
from argparse import Namespace

import httpx2

from jackfield.cli.mcp_http import McpGateway
from jackfield.cli.options import CONFIG, GATEWAY, argument, command
from jackfield.cli.stdio import Stdio, StdioBridge
from jackfield.cli.target import find_target, run_in_process
from jackfield.sdk import Client
from jackfield.sdk.address import Address, find_address

CONNECT_TIMEOUT = 10.0


@command(
    """\
Serve the catalog to an MCP client over stdin and stdout. Uses the gateway if it is running, else runs the config in
this process until the client disconnects. Logs go to stderr.""",
    CONFIG,
    argument(
        "--search-above",
        metavar="N",
        type=int,
        help="list only 'search_tools' if there are more than N tools; 0: never",
    ),
    *GATEWAY,
    examples="""\
  jackfield mcp
  jackfield mcp --config demo/jackfield.toml
  jackfield mcp --search-above 50        (one search tool instead of a large catalog)""",
)
def mcp(options: Namespace) -> int:
    with Stdio() as stdio:
        asyncio.run(_serve(options, stdio))
    return 0


async def _serve(options: Namespace, stdio: Stdio) -> None:
    search_above = options.search_above
    headers = {} if search_above is None else {"Jackfield-Search-Above": str(search_above)}
    target = await find_target(options, in_process=True)
    address = find_address(target.url, target.key)
    if target.in_process is None:
        await _bridge(address, stdio, headers=headers)
        return
    async with run_in_process(target.in_process) as transport:
        await _bridge(address, stdio, headers=headers, transport=transport)


def serve_url(url: str, key: str) -> int:
    """Serve exactly this gateway with this key, as `jackfield bridge --url` does."""
    with Stdio() as stdio:
        asyncio.run(_bridge(find_address(url, key), stdio, headers={}))
    return 0


async def _bridge(
    address: Address, stdio: Stdio, *, headers: dict[str, str], transport: httpx2.AsyncBaseTransport | None = None
) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stdio.hang_up)
    async with (
        _http_client(address, transport) as http,
        Client(address.url, address.key, transport=transport) as client,
    ):
        await StdioBridge(McpGateway(http, client, headers=headers), stdio).run()


def _http_client(address: Address, transport: httpx2.AsyncBaseTransport | None) -> httpx2.AsyncClient:
    """For `/mcp`, which the SDK does not speak. No timeouts: those of calls and streams are the gateway's."""
    return httpx2.AsyncClient(
        base_url=address.url,
        headers={"Authorization": f"Bearer {address.key}"} if address.key else {},
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
        transport=transport,
        trust_env=not address.is_local,
    )
