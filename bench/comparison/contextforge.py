"""ContextForge as its documentation sets it up for production, with what a benchmark on loopback needs besides.

The tuning guide of its documentation names the settings of log, cache and HTTP pool. Its database is SQLite, its
default, as Jackfield's is. Servers and tools are registered once; they stay in the database.
"""

import os
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import msgspec

from bench.comparison.environments import PeerMissing, environment
from bench.comparison.places import LOOK_EVERY, READY_WITHIN, Place, Running, free_port, serving, wait_for
from bench.comparison.service import BODY
from bench.comparison.talk import ARGUMENTS, TOOL, Endpoint, HttpWay, StreamWay
from bench.load import UNIQUE
from bench.processes import Server

SECRET = "a-secret-of-the-bench-0123456789-0123456789"
ADMIN = "admin@example.com"
PASSWORD = "Bench-of-2026!"
SETTINGS = {
    # what it needs to start, and to talk to servers of this machine as often as it is asked
    "JWT_SECRET_KEY": SECRET,
    "AUTH_ENCRYPTION_SECRET": SECRET,
    "BASIC_AUTH_PASSWORD": PASSWORD,
    "PLATFORM_ADMIN_EMAIL": ADMIN,
    "PLATFORM_ADMIN_PASSWORD": PASSWORD,
    "DEFAULT_USER_PASSWORD": PASSWORD,
    "SSRF_ALLOW_LOCALHOST": "true",
    "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    "RATE_LIMITING_ENABLED": "false",
    # what its tuning guide advises, with memory in the place of Redis because there is one process
    "LOG_LEVEL": "ERROR",
    "DISABLE_ACCESS_LOG": "true",
    "AUDIT_TRAIL_ENABLED": "false",
    "CACHE_TYPE": "memory",
    "HTTPX_MAX_CONNECTIONS": "200",
    "HTTPX_MAX_KEEPALIVE_CONNECTIONS": "100",
    "HTTPX_KEEPALIVE_EXPIRY": "30.0",
    "HTTPX_READ_TIMEOUT": "120.0",
    "HTTPX_POOL_TIMEOUT": "10.0",
}
UPSTREAM, SERVICE_TOOL = "up", "give-back"
TOKEN_MINUTES = "10080"


@contextmanager
def running(place: Place, folder: Path, *, sessions: bool) -> Generator[Running]:
    """The gateway before the MCP servers, the HTTP service and the model, registered at its first start."""
    programs = environment("contextforge")
    variables = {**os.environ, **SETTINGS, "USE_STATEFUL_SESSIONS": str(sessions).lower()}
    variables["DATABASE_URL"] = f"sqlite:///{folder / 'mcp.db'}"
    port = free_port()
    command: list[str | Path] = [programs / "mcpgateway", "--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
    with serving(command, folder, port, variables) as server:
        token = folder / "token"
        if not token.exists():
            _wait_until_up(server, folder)
            said = _token(programs / "python", folder, variables)
            _register(server, said, place)
            token.write_text(said, encoding="utf-8")
        key = {"Authorization": f"Bearer {token.read_text(encoding='utf-8')}"}
        call = {"name": SERVICE_TOOL, "arguments": ARGUMENTS}
        endpoint = Endpoint(port=port, path="/mcp/", headers=key, tool=f"{UPSTREAM}-{TOOL}")
        body = {"jsonrpc": "2.0", "id": UNIQUE, "method": "tools/call", "params": call}
        http = HttpWay(port=port, path="/rpc", body=body, headers=key)
        streams = (StreamWay(says="chat", port=port, path="/v1/chat/completions", headers=key),)
        yield wait_for(Running(server=server, endpoint=endpoint, http=http, streams=streams), folder)


def _wait_until_up(server: Server, folder: Path) -> None:
    """The first start makes the database."""
    end = time.monotonic() + READY_WITHIN
    while time.monotonic() < end and server.process.poll() is None:
        try:
            if server.get("/health").status == 200:
                return
        except (OSError, HTTPException):
            time.sleep(LOOK_EVERY)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise PeerMissing(f"could not be started. It said: {' '.join(said)[:300]}")


def _token(python: Path, folder: Path, variables: Mapping[str, str]) -> str:
    """A key for its API, made by its own command."""
    who = ("--username", ADMIN, "--admin", "--exp", TOKEN_MINUTES, "--secret", SECRET)
    command = [str(python), "-m", "mcpgateway.utils.create_jwt_token", *who]
    said = subprocess.run(
        command, cwd=folder, env=dict(variables), capture_output=True, text=True, timeout=READY_WITHIN, check=False
    )
    if said.returncode:
        raise PeerMissing(f"made no key for its API: {said.stderr.strip()[-300:]}")
    return said.stdout.split()[-1]


def _register(server: Server, token: str, place: Place) -> None:
    """What stands behind it, through its API."""
    for name, url in zip((UPSTREAM, "spare"), place.urls, strict=False):
        _post(server, token, "/gateways", {"name": name, "url": url, "transport": "STREAMABLEHTTP"})
    tool = {
        "name": SERVICE_TOOL,
        "url": f"http://127.0.0.1:{place.service.port}/echo",
        "integration_type": "REST",
        "request_type": "POST",
        "description": "Give the body back.",
        "input_schema": BODY,
    }
    _post(server, token, "/tools", {"tool": tool})
    models = {"name": "bench", "provider_type": "openai_compatible", "api_key": "none"}
    provider = _post(server, token, "/llm/providers", {**models, "api_base": f"http://127.0.0.1:{place.model.port}/v1"})
    _post(server, token, "/llm/models", {"provider_id": provider["id"], "model_id": "fast", "model_name": "fast"})


def _post(server: Server, token: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=READY_WITHIN)) as connection:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", path, msgspec.json.encode(body), headers)
        answer = connection.getresponse()
        said = answer.read().decode("utf-8", errors="replace")
    if answer.status >= 300:
        raise PeerMissing(f"answered {answer.status} to POST {path}: {said[:300]}")
    return msgspec.json.decode(said, type=dict[str, Any])
