"""`jackfield mcp`: the catalog as an MCP server on stdin and stdout, for clients that start their servers themselves.

`stdio` has the client's side, `mcp_http` that of the gateway, which runs elsewhere or in this process.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Self

import httpx2
import msgspec

from jackfield.cli.mcp_http import GatewayGone, McpGateway
from jackfield.cli.options import CONFIG, GATEWAY, UsageError, argument, command
from jackfield.cli.target import find_target, run_in_process
from jackfield.protocol.backoff import backoff
from jackfield.protocol.jsonrpc import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    RequestId,
    RpcError,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    UncheckedMessage,
    error_response,
    message_of,
    notification,
)
from jackfield.protocol.lines import LineSplitter, TooLong
from jackfield.protocol.mcp import INITIALIZE
from jackfield.sdk import Client
from jackfield.sdk.address import Address, find_address

log = logging.getLogger(__name__)

READ_SIZE = 64 * 1024
MAX_LINE = 64 * 1024 * 1024
CANCELLED = "notifications/cancelled"
LISTS = ("tools", "prompts", "resources")
CLOSE_TIMEOUT = 2.0

_decode = msgspec.json.Decoder(UncheckedMessage).decode


class Stdio:
    """Messages as lines on stdin and stdout.

    Each direction has a thread, because not every system can poll a pipe. While it is open, descriptor 1 is stderr, so
    that nothing a tool prints gets between the messages: open it before the event loop starts.
    """

    def __init__(self, source: int = 0, target: int = 1) -> None:
        self._source = source
        self._target = target
        self._out = -1
        self._lines: asyncio.Queue[bytes | None] | None = None
        self._writing: asyncio.Lock | None = None

    def __enter__(self) -> Self:
        sys.stdout.flush()
        self._out = os.dup(self._target)
        os.dup2(2, self._target)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.dup2(self._out, self._target)
        os.close(self._out)

    async def lines(self) -> AsyncIterator[bytes]:
        """Every line until the client disconnects."""
        loop = asyncio.get_running_loop()
        lines = self._lines = asyncio.Queue()
        # A daemon: a thread that only reads ends with the process.
        threading.Thread(target=self._read, args=(loop, lines), name="stdin", daemon=True).start()
        while (line := await lines.get()) is not None:
            yield line

    def hang_up(self) -> None:
        """End `lines`, as if the client had disconnected."""
        if self._lines is not None:
            self._lines.put_nowait(None)

    def _read(self, loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]") -> None:
        splitter = LineSplitter(limit=MAX_LINE)
        while chunk := self._read_chunk():
            for line in splitter.feed(chunk):
                if isinstance(line, TooLong):
                    _hand_over(loop, lines, None)
                    return
                if line.strip() and not _hand_over(loop, lines, line.strip()):
                    return
        if splitter.partial.strip():
            _hand_over(loop, lines, splitter.partial.strip())
        _hand_over(loop, lines, None)

    def _read_chunk(self) -> bytes:
        try:
            return os.read(self._source, READ_SIZE)
        except OSError:
            return b""

    async def write(self, message: bytes) -> None:
        """Write one message as a line."""
        if self._writing is None:
            self._writing = asyncio.Lock()
        # JSON has line breaks only between tokens, never in a string.
        line = message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        async with self._writing:
            await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._out, view) :]


def _hand_over(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]", line: bytes | None) -> bool:
    """Pass a line to the event loop; False if it is closed."""
    try:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    except RuntimeError:
        return False
    return True


class StdioBridge:
    """Passes messages between one client and the gateway, until the client disconnects.

    Messages pass unchanged. Cancellation and server messages, which are messages on stdio but connections on HTTP, are
    translated.
    """

    def __init__(self, gateway: McpGateway, stdio: Stdio) -> None:
        self._gateway = gateway
        self._stdio = stdio
        self._open: dict[RequestId, asyncio.Task[None]] = {}
        """Requests without a response so far."""
        self._batches: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run until the client disconnects."""
        try:
            async for line in self._stdio.lines():
                await self._receive(line)
        finally:
            await self._hang_up()

    async def _hang_up(self) -> None:
        tasks = [*self._open.values(), *self._batches, *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
        await self._gateway.end_session(within=CLOSE_TIMEOUT)

    async def _receive(self, line: bytes) -> None:
        if line.startswith(b"[") and self._gateway.has_session:
            task = asyncio.create_task(self._batch(line))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)
            return
        try:
            message = message_of(_decode(line))
        except RpcError as error:
            await self._stdio.write(error_response(None, error))
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            await self._stdio.write(error_response(None, RpcError(PARSE_ERROR, f"Not a JSON-RPC message: {fault}.")))
        else:
            await self._forward(message, line)

    async def _forward(self, message: RpcRequest | RpcNotification | RpcResponse, line: bytes) -> None:
        if isinstance(message, RpcRequest):
            task = self._open[message.id] = asyncio.create_task(self._request(message, line))
            task.add_done_callback(lambda _: self._forget(message.id, task))
            if message.method == INITIALIZE:
                await asyncio.wait((task,))  # later messages need the session
        elif isinstance(message, RpcNotification) and message.method == CANCELLED and not self._gateway.has_session:
            self._cancel(message.params.get("requestId"))
        elif self._gateway.has_session:
            await self._notify(line)

    def _forget(self, request_id: RequestId, task: "asyncio.Task[None]") -> None:
        if self._open.get(request_id) is task:
            del self._open[request_id]

    def _cancel(self, request_id: object) -> None:
        """From 2026-07-28 on, a request over HTTP is cancelled by closing it."""
        task = self._open.get(request_id) if isinstance(request_id, (str, int)) else None
        if task is not None:
            task.cancel()

    async def _request(self, request: RpcRequest, line: bytes) -> None:
        """Send a request and pass back every message that belongs to it."""
        try:
            async with aclosing(self._gateway.request(request, line)) as messages:
                async for message in messages:
                    await self._stdio.write(message)
        except RpcError as error:
            await self._stdio.write(error_response(request.id, error))
        except GatewayGone as fault:
            await self._stdio.write(error_response(request.id, RpcError(INTERNAL_ERROR, str(fault))))
        except Exception:
            log.exception("could not pass the request %s to the gateway", request.method)
            broken = RpcError(INTERNAL_ERROR, "The bridge to the gateway failed. Its log (stderr) has the details.")
            await self._stdio.write(error_response(request.id, broken))
        if request.method == INITIALIZE and self._gateway.has_session and self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _batch(self, line: bytes) -> None:
        try:
            responses = await self._gateway.batch(line)
        except GatewayGone as fault:
            responses = error_response(None, RpcError(INTERNAL_ERROR, str(fault)))
        if responses:
            await self._stdio.write(responses)

    async def _notify(self, line: bytes) -> None:
        try:
            await self._gateway.notify(line)
        except GatewayGone as fault:
            log.warning("lost a message of the client: %s", fault)

    async def _listen(self) -> None:
        """Pass on the gateway's own messages, across its restarts."""
        attempt = renewals = 0
        while True:
            try:
                if attempt:
                    await self._gateway.renew_session()
                async with aclosing(self._gateway.listen()) as messages:
                    async for message in messages:
                        attempt = 0
                        if message is not None:
                            await self._stdio.write(message)
                        elif renewals != self._gateway.renewals:
                            renewals = self._gateway.renewals
                            await self._tell_all_changed()
            except GatewayGone as fault:
                log.warning("%s Trying again.", fault)
            await asyncio.sleep(backoff(attempt))
            attempt += 1

    async def _tell_all_changed(self) -> None:
        """In a new session: anything may have changed meanwhile."""
        for name in LISTS:
            await self._stdio.write(notification(f"notifications/{name}/list_changed"))
        for uri in self._gateway.subscriptions:
            await self._stdio.write(notification("notifications/resources/updated", {"uri": uri}))


CONNECT_TIMEOUT = 10.0


@command(
    """\
Serve the catalog to an MCP client over stdin and stdout: tools, resources and prompts, with all their notifications and
requests to the client. Uses the gateway if it is running, else runs the config in this process until the client
disconnects. Logs go to stderr.""",
    CONFIG,
    argument(
        "--search-above",
        metavar="N",
        type=int,
        help="list only 'search_tools' if there are more than N tools; 0: never",
    ),
    argument("--group", metavar="NAME", help="only what this group has"),
    *GATEWAY,
    examples="""\
  jackfield mcp
  jackfield mcp --group docs
  jackfield mcp --config demo/jackfield.toml
  jackfield mcp --search-above 50        (one search tool instead of a large catalog)""",
)
def mcp(options: Namespace) -> int:
    if options.search_above is not None and options.search_above < 0:
        raise UsageError(f"--search-above is {options.search_above}; it takes 0 or more. 0: never.")
    with Stdio() as stdio:
        asyncio.run(_serve(options, stdio))
    return 0


async def _serve(options: Namespace, stdio: Stdio) -> None:
    search_above = options.search_above
    headers = {} if search_above is None else {"Jackfield-Search-Above": str(search_above)}
    target = await find_target(options, in_process=True)
    address = find_address(target.url, target.key)
    if target.in_process is None:
        await _bridge(address, stdio, headers=headers, group=options.group)
        return
    async with run_in_process(target.in_process) as transport:
        await _bridge(address, stdio, headers=headers, group=options.group, transport=transport)


def serve_url(url: str, key: str) -> int:
    """Serve exactly this gateway with this key, as `jackfield bridge --url` does."""
    with Stdio() as stdio:
        asyncio.run(_bridge(find_address(url, key), stdio, headers={}))
    return 0


async def _bridge(
    address: Address,
    stdio: Stdio,
    *,
    headers: dict[str, str],
    group: str | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stdio.hang_up)
    async with (
        _http_client(address, transport) as http,
        Client(address.url, address.key, transport=transport) as client,
    ):
        await StdioBridge(McpGateway(http, client, headers=headers, group=group), stdio).run()


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
