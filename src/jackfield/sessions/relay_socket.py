"""The socket of a session: newline-delimited JSON-RPC 2.0, for the program inside and nobody else's user.

On connect, and whenever the caller declares its tools anew, the gateway sends `caller_tools_config`. The program sends
`caller_tool {tool, arguments}`, as many at once as it likes, and gets each answer when it is there; one that it sent
without an `id`, as the seed's own example does, is answered without one. Whatever else comes is answered with an error;
neither it nor a program that vanishes harms another connection.
Above: `registry.py`. Below: `relay.py`. The codes are those of wire/oubliette.md.
"""

import asyncio
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackfield.errors import BadRequest, InvalidArguments, Refused, ToolNotFound
from jackfield.model.call import Call, Done, Failed
from jackfield.model.ids import new_id
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_ERROR,
    RequestId,
    RpcError,
    UncheckedMessage,
    encode,
    error_response,
    response,
)
from jackfield.protocol.lines import LineSplitter, TooLong
from jackfield.sessions.relay import Relay
from jackfield.sessions.session import AgentSession

log = logging.getLogger("jackfield.sessions")

SOCKET = "relay.sock"
UNREADY = "new.sock"
LONGEST_LINE = 32 * 1024 * 1024
PIECE = 64 * 1024
TURN = 50
"""Lines of one connection that are taken in before others have their turn."""
MOST_AT_ONCE = 1_000
"""Requests of one connection that may be open; the next is refused until one is answered."""
MOST_UNREAD = 64 * 1024 * 1024
"""Bytes of answers that a program may leave unread."""
MOST_CONNECTIONS = 64
MOST_UNFINISHED = 64 * 1024 * 1024
"""Bytes of lines without their ends, of all connections of a session; the one that goes past it is hung up on."""
LONGEST_PATH = 100
"""What every system takes as the path of a socket."""

HEADER = b"OUBLIETTE-DOWNSTREAM "
"""How clients of the seed's era begin."""
CANCELLED = "notifications/cancelled"

_decode = msgspec.json.Decoder(UncheckedMessage).decode


class RelaySocket:
    """One listening socket, in a folder that only its owner can enter."""

    def __init__(self, session: AgentSession, *, relay: Relay, folder: Path) -> None:
        self._session = session
        self._relay = relay
        self._wished = folder / session.id
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def open(self) -> Path:
        """Listen, and say where."""
        self._folder = await asyncio.to_thread(_own_folder, self._wished)
        path, unready = self._folder / SOCKET, self._folder / UNREADY
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(unready))
            unready.chmod(0o600)
            listener.listen()
            # It has its name only now, so that nobody ever finds it dead while it lives.
            unready.rename(path)
            self._server = await asyncio.start_unix_server(self._connected, sock=listener, limit=PIECE)
        except BaseException:
            listener.close()
            raise
        return path

    def tell_config(self) -> None:
        """The caller has declared its tools anew."""
        for connection in self._connections:
            connection.tell_config()

    async def close(self) -> None:
        """Hang up on everybody and leave nothing."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.hang_up()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _has_room(self) -> bool:
        return sum(connection.unfinished for connection in self._connections) <= MOST_UNFINISHED

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            log.warning("session %s has %d connections; another is refused", self._session.id, MOST_CONNECTIONS)
            writer.close()
            return
        connection = _Connection(self._session, relay=self._relay, writer=writer, has_room=self._has_room)
        self._connections.add(connection)
        try:
            await connection.serve(reader)
        except ConnectionError:
            log.debug("a program of session %s hung up", self._session.id)
        except Exception:
            log.exception("a connection of session %s failed", self._session.id)
        finally:
            self._connections.discard(connection)
            connection.hang_up()


class _Connection:
    """One program that is connected."""

    def __init__(
        self, session: AgentSession, *, relay: Relay, writer: asyncio.StreamWriter, has_room: Callable[[], bool]
    ) -> None:
        self._session = session
        self._relay = relay
        self._writer = writer
        self._has_room = has_room
        self._lines = LineSplitter(limit=LONGEST_LINE)
        self._open: dict[object, asyncio.Task[None]] = {}
        """Requests by id; one without an id by itself."""
        self._is_first = True

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Until the program hangs up, which it may do at any time."""
        self.tell_config()
        while piece := await reader.read(PIECE):
            for place, line in enumerate(self._lines.feed(piece), start=1):
                self._take(line)
                if place % TURN == 0:
                    await asyncio.sleep(0)
            if not self._has_room():
                log.warning(
                    "the programs of session %s leave too many responses unread; one is disconnected", self._session.id
                )
                return
            await self._writer.drain()

    @property
    def unfinished(self) -> int:
        """Bytes of a line whose end has not come."""
        return self._lines.pending

    def tell_config(self) -> None:
        """Under both words: the seed's own clients look for `type`."""
        method = "caller_tools_config"
        self._send(
            encode({"jsonrpc": "2.0", "method": method, "type": method, "params": self._session.caller_tools.config()})
        )

    def hang_up(self) -> None:
        for task in self._open.values():
            task.cancel()
        self._writer.close()

    def _take(self, line: bytes | TooLong) -> None:
        is_first, self._is_first = self._is_first, False
        if isinstance(line, TooLong):
            self._refuse(None, RpcError(INVALID_REQUEST, f"A message has at most {LONGEST_LINE:,} bytes. Send less."))
            return
        if not line.strip() or (is_first and line.startswith(HEADER)):
            return
        request_id: RequestId | UnsetType | None = None
        try:
            message = _read(line)
            request_id = UNSET if message.id is UNSET else _checked_id(message.id)
            self._act_on(message, request_id)
        except RpcError as fault:
            self._refuse(request_id, fault)

    def _act_on(self, message: UncheckedMessage, request_id: RequestId | UnsetType) -> None:
        params = {} if message.params in (UNSET, None) else message.params
        if not isinstance(message.method, str):
            raise RpcError(INVALID_REQUEST, "A request has a 'method', which is a text.")
        if message.method != "caller_tool":
            if request_id is not UNSET:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method[:100]}")
            if message.method == CANCELLED and isinstance(params, dict):
                self._cancel(params.get("requestId"))
            return  # a notification, which is never answered
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "'params' is an object with 'tool' and 'arguments'.")
        if request_id in self._open:
            raise RpcError(INVALID_REQUEST, "A request with this id is still open. Give each its own.")
        if len(self._open) >= MOST_AT_ONCE:
            raise RpcError(
                SERVER_ERROR, f"{MOST_AT_ONCE:,} requests of this connection are open. Wait for some answers."
            )
        key = object() if request_id is UNSET else request_id
        task = self._open[key] = asyncio.create_task(self._caller_tool(request_id, params))
        task.add_done_callback(lambda _: self._open.pop(key, None))

    def _cancel(self, request_id: Any) -> None:
        task = self._open.get(request_id) if isinstance(request_id, (int, str)) else None
        if task is not None:
            task.cancel()

    async def _caller_tool(self, request_id: RequestId | UnsetType, params: dict[str, Any]) -> None:
        try:
            result = await self._result_of(params)
            if isinstance(request_id, UnsetType):
                self._send(b'{"jsonrpc":"2.0","result":%b}' % bytes(result))
            else:
                self._send(response(request_id, result))
        except RpcError as fault:
            self._refuse(request_id, fault)
        except asyncio.CancelledError:
            self._refuse(request_id, RpcError(SERVER_ERROR, "Request was cancelled", {"code": "cancelled"}))
            raise
        except Exception:
            log.exception("a request of session %s failed", self._session.id)
            self._refuse(
                request_id,
                RpcError(INTERNAL_ERROR, "Something went wrong inside the gateway. Its log has the details."),
            )

    async def _result_of(self, params: dict[str, Any]) -> Raw:
        tool, arguments = params.get("tool"), params.get("arguments")
        if not isinstance(tool, str) or not tool:
            raise RpcError(INVALID_PARAMS, "tool is required")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "arguments must be an object")
        if not self._session.caller_tools.tools:
            raise RpcError(SERVER_ERROR, "No caller tools configured for this session")
        try:
            call = await self._relay.call(self._session, tool, arguments or {}, call_id=new_id("call"))
        except InvalidArguments as refusal:
            raise RpcError(
                INVALID_PARAMS, refusal.message, {"code": refusal.code, "details": refusal.details}
            ) from None
        except (ToolNotFound, BadRequest) as refusal:
            raise RpcError(INVALID_PARAMS, refusal.message, {"code": refusal.code}) from None
        except Refused as refusal:
            raise RpcError(SERVER_ERROR, refusal.message, {"code": refusal.code}) from None
        whole = await self._relay.whole_result(call)
        return _result(call, whole)

    def _refuse(self, request_id: RequestId | UnsetType | None, fault: RpcError) -> None:
        self._send(error_response(request_id, fault))

    def _send(self, message: bytes) -> None:
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MOST_UNREAD:
            log.warning("a program of session %s does not read its responses and is disconnected", self._session.id)
            self.hang_up()
        else:
            self._writer.write(message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")


def _result(call: Call, whole: Raw | None) -> Raw:
    """What the caller answered, or the fault that its error is."""
    outcome = call.outcome
    if isinstance(outcome, Done):
        return outcome.result if whole is None else whole
    assert isinstance(outcome, Failed)
    message = outcome.message
    if outcome.code == "timeout":
        message = f"Caller tool request timed out after {call.timeout_ms / 1000:g} s"
    raise RpcError(SERVER_ERROR, message, {"code": outcome.code})


def _read(line: bytes) -> UncheckedMessage:
    try:
        message = _decode(line)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "A message is one JSON object.") from None
    except UNREADABLE as fault:
        raise RpcError(PARSE_ERROR, f"This line is not JSON: {fault}") from None
    if message.jsonrpc not in ("2.0", UNSET):
        raise RpcError(INVALID_REQUEST, "This is not JSON-RPC 2.0.")
    return message


def _checked_id(value: Any) -> RequestId:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value
    raise RpcError(INVALID_REQUEST, "'id' is a text or a whole number.")


def _own_folder(wished: Path) -> Path:
    """A folder of mode 0700: the wished one, or where its path is too long for a socket, a temporary one."""
    if len(os.fsencode(wished / SOCKET)) > LONGEST_PATH:
        return Path(tempfile.mkdtemp(prefix="jackfield-"))
    wished.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    wished.mkdir(mode=0o700)
    return wished


def sweep(folder: Path) -> None:
    """Take away the sockets of gateways that were killed. Another gateway's that lives has its own in here too."""
    if not folder.is_dir():
        return
    for other in folder.iterdir():
        if not _is_listened_to(other / SOCKET):
            shutil.rmtree(other, ignore_errors=True)


def _is_listened_to(path: Path) -> bool:
    """False only where it is certain that nobody does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
