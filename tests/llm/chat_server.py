"""A chat-completions server on loopback that says what a test wrote down, however odd: one play per request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Any

import msgspec

from jackfield.llm.openai import OpenAIModel
from jackfield.llm.types import Delta, Model, ModelRequest, OpenAIOptions, StepEnd
from jackfield.model.items import InputText, Message
from jackfield.outgoing import Outgoing
from tests.sources.upstream import Received, Upstream, reply

KEY = "sk-test-0123456789"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
Play = Callable[[], AsyncIterator[bytes]]


class ChatServer(Upstream):
    """`server.plays` are performed in order, the last one again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.plays: list[Play] = []

    async def _respond(self, request: Received, writer: asyncio.StreamWriter) -> None:
        del request
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        async for part in play():
            writer.write(part)
            await writer.drain()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.received]


def model_at(server: ChatServer, outgoing: Outgoing, **options: Any) -> OpenAIModel:
    given = {"base_url": server.base_url, "model": "tiny", "api_key": KEY, "retry_delay": 0.01, **options}
    return OpenAIModel("default", msgspec.convert(given, OpenAIOptions), send=outgoing.send, chance=lambda: 0.5)


def asked(text: str = "hello", **fields: Any) -> ModelRequest:
    return ModelRequest(items=(Message(role="user", content=(InputText(text=text),)),), **fields)


async def step(model: Model, request: ModelRequest | None = None) -> list[Delta]:
    """All deltas of one step. The last is the end, as it must be."""
    async with aclosing(model.stream(request or asked())) as stream:
        deltas = [delta async for delta in stream]
    assert isinstance(deltas[-1], StepEnd)
    assert not any(isinstance(delta, StepEnd) for delta in deltas[:-1])
    return deltas


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk as vLLM sends it."""
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "tiny",
        "choices": [choice],
        **fields,
    }


def text(words: str) -> dict[str, Any]:
    return chunk({"content": words})


def call(index: int | None = None, *, id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:  # noqa: A002 - the wire's word
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece = {"index": index, "id": id, "type": "function", "function": function}
    return chunk({"tool_calls": [{key: value for key, value in piece.items() if value is not None}]})


USAGE = chunk(
    choices=[],
    usage={
        "prompt_tokens": 12,
        "completion_tokens": 5,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
)
END = chunk(finish="stop")
ROLE = chunk({"role": "assistant", "content": ""})


def event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def events(*chunks: Any, done: bool = True) -> bytes:
    return b"".join(event(value) for value in chunks) + (DONE if done else b"")


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def streams(parts: Iterable[bytes], *, ends: bool = True) -> Play:
    """An answer whose body is these parts, each in a write of its own. `ends=False`: then silence."""
    body = list(parts)

    async def play() -> AsyncIterator[bytes]:
        yield HEAD
        for part in body:
            yield http_chunk(part)
        if not ends:
            await asyncio.Event().wait()
        yield b"0\r\n\r\n"

    return play


def says(*chunks: Any, done: bool = True) -> Play:
    return streams([event(value) for value in chunks] + ([DONE] if done else []))


def breaks_off(*chunks: Any) -> Play:
    """The connection is reset after these."""

    async def play() -> AsyncIterator[bytes]:
        yield HEAD
        for value in chunks:
            yield http_chunk(event(value))
        raise ConnectionResetError

    return play


def refuses(status: int, body: Any = b"", **headers: str) -> Play:
    async def play() -> AsyncIterator[bytes]:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        yield reply(status, content, content_type="application/json", **headers)

    return play


async def silence() -> AsyncIterator[bytes]:
    """Takes the request and never answers."""
    await asyncio.Event().wait()
    yield b""


FINE = says(ROLE, text("Hello"), text(" there"), END, USAGE)
