"""A model server for the agent that is traced: `python -m bench.trace.model` prints its port.

Woken by a service it calls `ask`, whose answer comes later. Woken by that answer it enters the space and says it there,
unless it is something else than 42: then it has nothing to do.
"""

import asyncio
import re
import sys
from typing import Any

import msgspec

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def answer(messages: list[dict[str, Any]]) -> bytes:
    """The events of one answer."""
    last = messages[-1]
    woken_by = str(last["content"]) if last["role"] == "user" else ""
    if "[Tool Result:" in woken_by and '"answer":42' in woken_by.replace(" ", ""):
        calls = [_call(0, "enter_space", {"spaceId": "lobby"}), _call(1, "send_message", {"text": "It is 42."})]
    else:
        calls = [_call(0, "ask", {})] if "[Service:" in woken_by else []
    delta: dict[str, Any] = {"tool_calls": calls} if calls else {"content": "Done."}
    chunks = [_chunk(delta, None), _chunk({}, "tool_calls" if calls else "stop")]
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def _call(index: int, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
    return {"index": index, "id": f"c{index}", "type": "function", "function": function}


def _chunk(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, request after request."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            data = answer(msgspec.json.decode(body)["messages"])
            writer.write(HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Until it is stopped."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
