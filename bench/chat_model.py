"""A model server that costs next to nothing: chat completions, streamed, each token with the moment it was sent.

    python -m bench.chat_model        # prints its port

Asked for `tokens=200 pace=0.01` in the last message it sends 200 tokens with 10 ms between them; without a pace as fast
as they go. With `hold` it then says nothing more. The clock is the machine's, so any process can tell a token's age.
"""

import asyncio
import re
import sys
import time
from typing import Any

import msgspec
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"fast","choices":'
    b'[{"index":0,"delta":{"content":"t%d "},"logprobs":null,"finish_reason":null}]}\n\n'
)
END = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"fast","choices":'
    b'[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"fast","choices":[],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\ndata: [DONE]\n\n'
)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_WISH = re.compile(r"tokens=(?P<tokens>\d+)(?: pace=(?P<pace>[\d.]+))?(?P<hold> hold)?")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, request after request."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            await answer(str(msgspec.json.decode(body)["messages"][-1]["content"]), reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
        pass  # it hung up, or asked something else
    finally:
        writer.close()


async def answer(asked: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One stream, each token a write of its own."""
    wish = _WISH.search(asked)
    assert wish is not None, asked
    pace = float(wish["pace"] or 0)
    writer.write(HEAD)
    for number in range(int(wish["tokens"])):
        if number:
            await asyncio.sleep(pace)
        writer.write(_framed(CHUNK % time.monotonic_ns()))
        await writer.drain()
    if wish["hold"]:
        await reader.read()  # until whoever asked hangs up
    writer.write(_framed(END) + b"0\r\n\r\n")
    await writer.drain()


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def main() -> None:
    """Until it is stopped."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with server:
        await ended


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
