"""A model behind HTTP, as vLLM streams it, that does what a word asks for: `add`, `pay`, `hold`; else it answers.

with model_server() as model:
    model.url, model.asked, model.may_answer.clear()
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "Done. <img src=x onerror='window.poisoned=9'> **Three** \u202eeerht\u202c"
USAGE = {"prompt_tokens": 1200, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 1000}}


class ModelServer:
    """What it was asked, and whether it answers now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_out_of_order = False


@contextmanager
def model_server() -> Iterator[ModelServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            made.asked.append(body)
            made.may_answer.wait(60)
            if made.is_out_of_order:
                self.send_error(400, "Out of order")
                return
            events = [*(_chunk(delta) for delta in _turn(body["messages"])), _chunk({}, finish="stop")]
            usage = {**_chunk({}), "choices": [], "usage": USAGE}
            said = "".join(f"data: {json.dumps(event)}\n\n" for event in [*events, usage]) + "data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(said.encode())))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = ModelServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def _turn(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if messages[-1]["role"] == "tool":
        return [{"content": ANSWER}]
    words = str(messages[-1]["content"])
    if "add" in words:
        return [{"content": "Let me add."}, _call("add", {"a": 1, "b": 2})]
    if "pay" in words:
        return [_call("pay", {"amount": 5})]
    return [{"content": ANSWER}]


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"id_{name}", "type": "function", "function": function}]}


def _chunk(delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
