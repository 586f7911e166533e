"""A small MCP server that starts at once, to be killed.

    python upstream_server.py modern|legacy PORT [STARTS]
    python upstream_server.py stdio FILE [STARTS]       # its pid goes into the file

Each call of its tool is written down in STARTS.

Run, not imported.
"""

import json
import os
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

TOKEN = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
MODE, PLACE = sys.argv[1:3]
STARTS = Path(sys.argv[3]) if len(sys.argv) > 3 else None
IS_MODERN = MODE == "modern"
NOTE = f"note://{MODE}"
CAPABLE: dict[str, Any] = {"tools": {}, "resources": {}}
LEGACY_HELLO = {"protocolVersion": "2025-11-25", "capabilities": CAPABLE, "serverInfo": {"name": "s"}}
MODERN_HELLO = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABLE, "resultType": "complete"}


def answer_to(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a request is answered with: a result, or an error."""
    if method == "tools/list":
        return {"result": {"tools": [{"name": "echo", "inputSchema": TOKEN}], "resultType": "complete"}}
    if method == "tools/call":
        token = params["arguments"]["token"]
        if STARTS is not None:
            with STARTS.open("a", encoding="utf-8") as file:
                file.write(f"{MODE}:{token}\n")
        return {"result": {"content": [{"type": "text", "text": token}], "resultType": "complete"}}
    if method == "resources/list":
        return {"result": {"resources": [{"uri": NOTE, "name": "note"}], "resultType": "complete"}}
    if method == "resources/read":
        return {"result": {"contents": [{"uri": params["uri"], "text": f"note of {MODE}"}], "resultType": "complete"}}
    if method == ("server/discover" if IS_MODERN else "initialize"):
        return {"result": MODERN_HELLO if IS_MODERN else LEGACY_HELLO}
    return {"error": {"code": -32601, "message": "Method not found"}}


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer, else the network waits for an acknowledgement in between
    sessions: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = message["method"], message.get("id")
        if method == "initialize" and not IS_MODERN:
            session = secrets.token_hex(8)
            self.sessions.add(session)
            self._answer(200, {"id": number, **answer_to(method, {})}, session)
        elif not IS_MODERN and method != "server/discover" and self.headers["mcp-session-id"] not in self.sessions:
            self._answer(404, {"id": number, "error": {"code": -32600, "message": "Session not found"}})
        elif number is None:
            self._answer(202, None)
        else:
            self._answer(200, {"id": number, **answer_to(method, message["params"])})

    def do_GET(self) -> None:
        self._answer(405, None)

    do_DELETE = do_GET  # noqa: N815 - the base class looks for this name

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, message: dict[str, Any] | None, session: str | None = None) -> None:
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if session is not None:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that are gone."""


def serve_stdio() -> None:
    Path(PLACE).write_text(str(os.getpid()), encoding="utf-8")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer = {
                "jsonrpc": "2.0",
                "id": message["id"],
                **answer_to(message["method"], message.get("params") or {}),
            }
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if MODE == "stdio":
        serve_stdio()
    else:
        Server(("127.0.0.1", int(PLACE)), Door).serve_forever()
