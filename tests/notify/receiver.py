"""A webhook receiver in the test's own process: takes what comes, checks signatures by the reference library."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from standardwebhooks.webhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq="


NO_ANSWER = 0
"""In place of a status: the message is taken, and the connection closed without an answer."""


class Received(Struct, frozen=True, kw_only=True):
    """One attempt."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def is_taken(self) -> bool:
        return self.status < 300

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content

    def verify(self, secret: str = SECRET) -> None:
        """Raises where the reference library does."""
        Webhook(secret).verify(self.body, self.headers)


class Receiver:
    """What was received, in order, and what is answered."""

    def __init__(self) -> None:
        self.url = ""
        self.attempts: list[Received] = []
        self.answer: Callable[[str, dict[str, str]], int | tuple[int, dict[str, str]]] = lambda _path, _headers: 204
        self.check: Callable[[Received], None] = lambda _attempt: None
        self._lock = threading.Lock()

    @property
    def taken(self) -> list[Received]:
        """Those that were answered with success, or not at all."""
        with self._lock:
            return [attempt for attempt in self.attempts if attempt.is_taken]

    def of(self, path: str) -> list[Received]:
        return [attempt for attempt in self.taken if attempt.path == path]

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        with self._lock:
            answer = self.answer(path, headers)
            status, more = answer if isinstance(answer, tuple) else (answer, {})
            attempt = Received(path=path, headers=headers, body=body, status=status)
            self.check(attempt)
            self.attempts.append(attempt)
        return status, more


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A gateway that is killed resets its connections."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, more = receiver.receive(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            if status == NO_ANSWER:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
