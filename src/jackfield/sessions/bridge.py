"""Inside the sandbox: the caller's tools as an MCP server on stdin and stdout.

Above: any MCP client that starts its servers itself, through `jackfield bridge --socket PATH` or, where jackfield is
not installed, this file alone: `python bridge.py --socket PATH`. Below: the session's socket (`relay_socket.py`).
Standard library only. No timeout here is shorter than the gateway's: a call ends when the gateway says so, or with the
socket.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
SERVER = {"name": "jackfield-bridge", "version": "1"}
LIST_CHANGED = "notifications/tools/list_changed"

CONFIG_WITHIN = 5.0
"""Seconds for which the first list waits to be told which tools there are."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two tries to reach a socket that is not there."""
PIECE = 64 * 1024
LONGEST_LINE = 128 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603

Message = dict[str, Any]


class CallFailed(Exception):
    """The call came to nothing; the text is for the model."""


class RpcFault(Exception):
    """What a request of the client is answered with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class SessionLine:
    """The connection to the session's socket: which tools there are, and calls of them, many at once."""

    def __init__(self, path: str, *, on_change: Callable[[], None]) -> None:
        self.tools: dict[str, Message] = {}
        """By the name that the agent uses."""
        self.is_told = asyncio.Event()
        self.was_listed = False
        """The client has asked which tools there are, and will not ask again unless it is told to."""
        self.is_lost = asyncio.Event()
        self._path = path
        self._on_change = on_change
        self._writer: asyncio.StreamWriter | None = None
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._connecting = asyncio.Lock()
        self._hearing: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Be connected. Raises `CallFailed`."""
        async with self._connecting:
            if self._writer is not None:
                return
            reader, self._writer = await self._reached()
            self.is_lost.clear()
            self._hearing = asyncio.create_task(self._hear(reader))

    async def call(self, tool: str, arguments: Message) -> Any:
        """What the caller answered. Raises `CallFailed`."""
        await self.connect()
        assert self._writer is not None
        self._last_id += 1
        request_id = self._last_id
        answer = self._open[request_id] = asyncio.get_running_loop().create_future()
        self._send({"id": request_id, "method": "caller_tool", "params": {"tool": tool, "arguments": arguments}})
        try:
            await self._writer.drain()
            return await answer
        except ConnectionError as fault:
            raise CallFailed(f"The connection to the session broke: {fault}") from None
        except asyncio.CancelledError:
            self._send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
            raise
        finally:
            self._open.pop(request_id, None)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._path, limit=LONGEST_LINE)
        except OSError as fault:
            why = fault.strerror or str(fault)
        perhaps = "The session may be over." if self.is_told.is_set() else "The session may not have begun."
        raise CallFailed(f"The session's socket {self._path} cannot be reached: {why}. {perhaps}")

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError) as fault:
            note(f"the session's socket broke: {fault}")
        finally:
            self.close()
            self._writer = None
            self.is_lost.set()
            lost = CallFailed("The connection to the session is lost: the session is over, or its gateway stopped.")
            for answer in self._open.values():
                if not answer.done():
                    answer.set_exception(lost)

    def _take(self, message: Message) -> None:
        if "caller_tools_config" in (message.get("method"), message.get("type")):
            self._configure(message.get("params") or {})
            return
        answer = self._open.get(message.get("id") or 0)
        if answer is None or answer.done():
            return
        if (error := message.get("error")) is not None:
            answer.set_exception(CallFailed(_words(error)))
        else:
            answer.set_result(message.get("result"))

    def _configure(self, config: Message) -> None:
        prefix, tools, others = (
            config.get("caller_id") or "",
            config.get("tools") or [],
            config.get("agent_names") or {},
        )
        named = {others.get(tool["name"]) or f"{prefix}_{tool['name']}": tool for tool in tools}
        has_changed, self.tools = self.was_listed and named != self.tools, named
        self.is_told.set()
        if has_changed:
            self._on_change()

    def _send(self, message: Message) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


class BridgeServer:
    """The MCP server that the client sees, for both eras of the protocol."""

    def __init__(self, path: str, *, write: Callable[[bytes], None], wait: float | None = None) -> None:
        """`wait`: seconds after which a socket that is not there is not waited for any more; None: never."""
        self._write = write
        self._wait = wait
        self._line = SessionLine(path, on_change=self._tell_changed)
        self._open: dict[Any, asyncio.Task[None]] = {}
        self._listeners: dict[Any, asyncio.Event] = {}
        """Subscriptions of 2026-07-28, by the id of the request."""
        self._has_session = False

    async def run(self, lines: AsyncIterator[bytes]) -> bool:
        """Until the client hangs up. False: the session was waited for in vain."""
        reaching = asyncio.create_task(self._reach())
        reading = asyncio.create_task(self._read(lines))
        try:
            await asyncio.wait((reaching, reading), return_when=asyncio.FIRST_COMPLETED)
            return not reaching.done()
        finally:
            tasks = [reaching, reading, *self._open.values()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1)
            self._line.close()

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            self._take(line)

    async def _reach(self) -> None:
        """Be connected, at once and again whenever the socket is gone. Comes back when that is waited for no longer."""
        while await self._connected():
            await self._line.is_lost.wait()

    async def _connected(self) -> bool:
        loop = asyncio.get_running_loop()
        began, pause, said = loop.time(), FIRST_PAUSE, ""
        while True:
            try:
                await self._line.connect()
            except CallFailed as fault:
                why = str(fault)
            else:
                return True
            if why != said:
                note(f"{why} It is tried again.")
                said = why
            if self._wait is not None and loop.time() - began >= self._wait:
                note(f"{why} It was waited for {self._wait:g} s, as --wait says. Start the session first.")
                return False
            left = LONGEST_PAUSE if self._wait is None else self._wait - (loop.time() - began)
            await asyncio.sleep(max(0.0, min(pause, left)))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as fault:
            self._refuse(None, RpcFault(PARSE_ERROR, f"This is not a message: {fault}"))
            return
        if not _is_message(message):
            self._refuse(None, RpcFault(INVALID_REQUEST, "This is not a JSON-RPC message."))
        elif "id" in message:
            task = self._open[message["id"]] = asyncio.create_task(self._answer(message))
            task.add_done_callback(lambda _: self._open.pop(message["id"], None))
        elif message["method"] == "notifications/cancelled":
            self._cancel((message.get("params") or {}).get("requestId"))

    def _cancel(self, request_id: Any) -> None:
        if (task := self._open.get(request_id)) is not None:
            task.cancel()

    async def _answer(self, message: Message) -> None:
        params = message.get("params") or {}
        is_modern = VERSION_KEY in (params.get("_meta") or {})
        try:
            result = await self._method(message["method"])(message["id"], params)
        except RpcFault as fault:
            self._refuse(message["id"], fault)
            return
        except Exception as fault:  # noqa: BLE001 - the border of one request
            note(f"{message['method'][:100]} failed: {fault!r}")
            self._refuse(message["id"], RpcFault(INTERNAL_ERROR, "The bridge failed. Its stderr has the details."))
            return
        if is_modern:
            result = {"resultType": "complete", **result, "_meta": {SERVER_KEY: SERVER, **result.get("_meta", {})}}
        self._say({"id": message["id"], "result": result})

    def _method(self, name: str) -> Callable[[Any, Message], Coroutine[Any, Any, Message]]:
        methods: dict[str, Callable[[Any, Message], Coroutine[Any, Any, Message]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/list": self._list,
            "tools/call": self._call,
            "subscriptions/listen": self._listen,
        }
        if name not in methods:
            raise RpcFault(METHOD_NOT_FOUND, f"Method not found: {name[:100]}")
        return methods[name]

    async def _initialize(self, _id: Any, params: Message) -> Message:
        asked = params.get("protocolVersion")
        self._has_session = True
        return {
            "protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[-1],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": SERVER,
        }

    async def _discover(self, _id: Any, _params: Message) -> Message:
        capabilities = {"tools": {"listChanged": True}}
        return {"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}

    async def _ping(self, _id: Any, _params: Message) -> Message:
        return {}

    async def _list(self, _id: Any, params: Message) -> Message:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIG_WITHIN):
                await self._line.is_told.wait()
        self._line.was_listed = True
        tools = [
            {
                "name": name,
                "description": tool.get("description") or "",
                "inputSchema": tool.get("inputSchema") or {"type": "object"},
            }
            for name, tool in sorted(self._line.tools.items())
        ]
        caching = {"ttlMs": 0, "cacheScope": "private"} if VERSION_KEY in (params.get("_meta") or {}) else {}
        return {"tools": tools, **caching}

    async def _call(self, _id: Any, params: Message) -> Message:
        name, arguments = params.get("name"), params.get("arguments") or {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIG_WITHIN):
                await self._line.is_told.wait()
        tool = self._line.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            known = ", ".join(sorted(self._line.tools)) or "none"
            raise RpcFault(INVALID_PARAMS, f"Unknown tool: {str(name)[:100]}. There are: {known}.")
        try:
            return told(await self._line.call(tool["name"], arguments))
        except CallFailed as failure:
            return {"content": [{"type": "text", "text": str(failure)}], "isError": True}

    async def _listen(self, request_id: Any, params: Message) -> Message:
        """Tell of changes until the client calls it off."""
        wanted = (params.get("notifications") or {}).get("toolsListChanged") is True
        meta = {SUBSCRIPTION_KEY: request_id}
        honoured = {"toolsListChanged": True} if wanted else {}
        acknowledged = {"notifications": honoured, "_meta": meta}
        self._say({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
        changed = self._listeners[request_id] = asyncio.Event()
        try:
            while True:
                await changed.wait()
                changed.clear()
                if wanted:
                    self._say({"method": LIST_CHANGED, "params": {"_meta": meta}})
        finally:
            del self._listeners[request_id]

    def _tell_changed(self) -> None:
        if self._has_session:
            self._say({"method": LIST_CHANGED})
        for changed in self._listeners.values():
            changed.set()

    def _refuse(self, request_id: Any, fault: RpcFault) -> None:
        self._say({"id": request_id, "error": {"code": fault.code, "message": str(fault)}})

    def _say(self, message: Message) -> None:
        self._write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _is_message(message: Any) -> bool:
    """A request or a notification; a client has nothing to respond to here."""
    return (
        isinstance(message, dict)
        and isinstance(message.get("method"), str)
        and isinstance(message.get("id", 0), (str, int))
        and isinstance(message.get("params") or {}, dict)
    )


def told(result: Any) -> Message:
    """A caller's answer as the result of a tool."""
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    content = {"content": [{"type": "text", "text": text}]}
    return {**content, "structuredContent": result} if isinstance(result, dict) else content


def _words(error: Message) -> str:
    """What a model can do something with. The sentence names the arguments that are wrong, so `data` is left out."""
    return str(error.get("message"))


def note(text: str) -> None:
    """For the log; stdout is the protocol's."""
    sys.stderr.write(f"jackfield bridge: {text}\n")
    sys.stderr.flush()


async def _lines_of_stdin() -> AsyncIterator[bytes]:
    """Read by a thread, because a pipe cannot be waited for on every system; it ends with the process.

    By the descriptor: Python does not end well while a thread holds the lock of `sys.stdin`.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        rest = b""
        with contextlib.suppress(RuntimeError, OSError):  # the loop is gone, or stdin is
            while piece := os.read(0, PIECE):
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line + b"\n")
        with contextlib.suppress(RuntimeError):
            if rest:
                loop.call_soon_threadsafe(lines.put_nowait, rest)
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while line := await lines.get():
        if line.strip():
            yield line


def serve(path: str, *, wait: float | None = None) -> int:
    """Run until the client hangs up, or a socket that is not there has been waited for long enough."""
    out = os.dup(1)
    os.dup2(2, 1)

    def write(message: bytes) -> None:
        view = memoryview(message)
        while view:
            view = view[os.write(out, view) :]

    async def run() -> bool:
        return await BridgeServer(path, write=write, wait=wait).run(_lines_of_stdin())

    try:
        return 0 if asyncio.run(run()) else 1
    except BrokenPipeError:
        note("the client is gone")
    return 0


def main() -> int:
    """`python bridge.py`, for sandboxes without jackfield."""
    parser = argparse.ArgumentParser(description="Serve a session's caller tools over stdin and stdout, as MCP.")
    parser.add_argument("--socket", default=os.environ.get("JACKFIELD_SOCKET"))
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="exit if the socket is not there for so long")
    options = parser.parse_args()
    if not options.socket:
        parser.error("give --socket PATH, or set JACKFIELD_SOCKET")
    return serve(options.socket, wait=options.wait)


if __name__ == "__main__":
    sys.exit(main())
