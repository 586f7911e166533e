"""The scripted model as a chat-completions server on loopback: it streams what `dialogue.py` says, and keeps what it
was asked, so that a case can look at what really reached the model.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from conformance.clients.dialogue import Json, Reply, arguments_of, reply_to

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class ChatModel:
    """A running server. `asked` are the bodies of its requests, the oldest first."""

    def __init__(self) -> None:
        self.asked: list[Json] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def running_model() -> Generator[ChatModel]:
    model = ChatModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: Json = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
            model.asked.append(body)
            told = chunks(reply_to(body)) if body.get("stream") else iter((whole(reply_to(body)),))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
            self.send_header("connection", "close")
            self.end_headers()
            for piece in told:
                self.wfile.write(piece)
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.port = server.server_address[1]
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        serving.join(5)


def chunks(reply: Reply) -> Iterator[bytes]:
    """The reply as a stream of chunks: thoughts, words, calls in two pieces each, the end, the usage."""
    yield _chunk({"role": "assistant", "content": ""})
    for word in reply.think.split(" "):
        yield _chunk({"reasoning_content": f"{word} "})
    for word in reply.say.split(" ") if reply.say else ():
        yield _chunk({"content": f"{word} "})
    for index, call in enumerate(reply.calls):
        text = arguments_of(call)
        half = len(text) // 2
        begun = {"name": call[0], "arguments": text[:half]}
        yield _calls({"index": index, "id": _call_id(index), "type": "function", "function": begun})
        yield _calls({"index": index, "function": {"arguments": text[half:]}})
    yield _chunk({}, finish="tool_calls" if reply.calls else "stop")
    yield _event({"choices": [], "usage": USAGE})
    yield b"data: [DONE]\n\n"


def whole(reply: Reply) -> bytes:
    """The reply as one answer."""
    calls = [
        {"id": _call_id(n), "type": "function", "function": {"name": call[0], "arguments": arguments_of(call)}}
        for n, call in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.say or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return msgspec.json.encode({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE})


_HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "scripted"}
_counted = iter(range(1, 1_000_000_000))


def _call_id(index: int) -> str:
    return f"call_{next(_counted)}_{index}"


def _calls(call: Json) -> bytes:
    return _chunk({"tool_calls": [call]})


def _chunk(delta: Json, *, finish: str | None = None) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _event(fields: Json) -> bytes:
    return b"data: " + msgspec.json.encode({**_HEAD, **fields}) + b"\n\n"
