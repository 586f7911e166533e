"""The model of the tasks: a chat-completions server that says what its script says next, and counts what it read.

Above: `sides.py`. It streams over HTTP as servers of models do, after a while as they do. A token is four bytes of
JSON, the rule by which the gateway estimates (`docs/responses.md`).
"""

import asyncio
import itertools
import re
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from bench.bfcl.answers import ToolCall
from jackfield.llm.chat_request import BYTES_PER_TOKEN

NAME = "scripted"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Step(Struct, frozen=True, kw_only=True):
    """What the model says when it is asked once: a call, or a text that ends the turn."""

    call: ToolCall | None = None
    text: str = ""


class Tokens(Struct, frozen=True, kw_only=True):
    """What steps read and wrote."""

    steps: int = 0
    definitions: int = 0
    """Read: the tools and the instructions, which are the same in each step of a task."""
    conversation: int = 0
    """Read: everything else."""
    written: int = 0

    def plus(self, other: "Tokens") -> "Tokens":
        return Tokens(
            steps=self.steps + other.steps,
            definitions=self.definitions + other.definitions,
            conversation=self.conversation + other.conversation,
            written=self.written + other.written,
        )


class ScriptedModel:
    """A running server. It waits so many seconds before each answer."""

    def __init__(self, wait: float) -> None:
        self.port = 0
        self.wait = wait
        self._script: deque[Step] = deque()
        self._spent = Tokens()
        self._said: list[Step] = []
        self._calls = itertools.count(1)
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, script: Sequence[Step]) -> None:
        """From now on say this, one step each time it is asked."""
        self._script, self._spent, self._said = deque(script), Tokens(), []

    def spent(self) -> Tokens:
        """Since `play`; the script has to be at its end."""
        if self._script:
            raise ValueError(f"The model was not asked for the last {len(self._script)} steps of its script.")
        return self._spent

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        if (serving := asyncio.current_task()) is not None:
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                await asyncio.sleep(self.wait)
                writer.write(self._answer(msgspec.json.decode(body)))
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def close(self) -> None:
        """Hang up."""
        for serving in list(self._serving):
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _answer(self, body: dict[str, Any]) -> bytes:
        fault = self._fault(body["messages"])
        if fault:
            said = msgspec.json.encode({"error": {"message": fault, "type": "invalid_request_error"}})
            return b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said)
        step = self._script.popleft()
        self._said.append(step)
        spent = tokens_of(body, step)
        self._spent = self._spent.plus(spent)
        told = b"".join(_events(step, spent, call_id=f"call_{next(self._calls)}"))
        return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b" % (len(told), told)

    def _fault(self, messages: list[dict[str, Any]]) -> str:
        """What is wrong with being asked now: after a call the model has to be given its result."""
        if not self._script:
            return "The script is at its end."
        expected = "tool" if self._said and self._said[-1].call else "user"
        role = messages[-1]["role"]
        return "" if role == expected else f"The last message is of the role {role!r}, not {expected!r}."


@asynccontextmanager
async def running_model(wait: float) -> AsyncIterator[ScriptedModel]:
    """On a free port of loopback."""
    model = ScriptedModel(wait)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.port = server.sockets[0].getsockname()[1]
    try:
        yield model
    finally:
        server.close()
        await model.close()


def tokens_of(body: dict[str, Any], step: Step) -> Tokens:
    """Of one request and its answer."""
    fixed = [message for message in body["messages"] if message["role"] in {"system", "developer"}]
    rest = [message for message in body["messages"] if message not in fixed]
    definitions = len(msgspec.json.encode(body.get("tools", ""))) + len(msgspec.json.encode(fixed))
    written = len(step.text.encode())
    if step.call is not None:
        written += len(step.call.tool) + len(msgspec.json.encode(step.call.arguments))
    return Tokens(
        steps=1,
        definitions=_tokens(definitions),
        conversation=_tokens(len(msgspec.json.encode(rest))),
        written=_tokens(written),
    )


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _events(step: Step, spent: Tokens, *, call_id: str) -> list[bytes]:
    delta: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if step.call is not None:
        function = {"name": step.call.tool, "arguments": msgspec.json.encode(step.call.arguments).decode()}
        delta["tool_calls"] = [{"index": 0, "id": call_id, "type": "function", "function": function}]
    read = spent.definitions + spent.conversation
    usage = {"prompt_tokens": read, "completion_tokens": spent.written, "total_tokens": read + spent.written}
    return [
        _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if step.call else "stop"}]}),
        _event({"choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _event(fields: dict[str, Any]) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": NAME}
    return b"data: " + msgspec.json.encode({**head, **fields}) + b"\n\n"
