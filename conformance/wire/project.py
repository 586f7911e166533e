"""The project of the snapshot: every kind of tool, agents, sessions, and a model that plays a script."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import httpx2

ROOT = Path(__file__).parent.parent.parent
KEYS = {"admin": "key-of-admin", "caller": "key-of-caller", "reader": "key-of-reader", "answerer": "key-of-answerer"}
KEYS |= {"limited": "key-of-limited", "agent": "key-of-agent"}
READY_WITHIN = 60.0

CONFIG = """\
[scenario]
name = "wire"
version = "1.0.0"
description = "One of everything."
base_url = "http://localhost:8420"

[[categories]]
id = "maths"
name = "Maths"
description = "Numbers"
icon = "plus"

[auth.keys.caller]
key = "key-of-caller"
scopes = ["call"]

[auth.keys.reader]
key = "key-of-reader"
scopes = ["read"]

[auth.keys.answerer]
key = "key-of-answerer"
scopes = ["answer"]

[auth.keys.limited]
key = "key-of-limited"
scopes = ["call"]
tools = ["add", "echo"]

[auth.keys.agent]
key = "key-of-agent"
scopes = ["agent:concierge"]

[models.demo]
provider = "scripted"
script = "script.toml"

[sources.local]
kind = "files"
path = "tools/*.py"
config = {{ units = "metric" }}
tools.add.category = "maths"
tools.guarded.metadata = {{ requires_approval = true }}
tools.rare.metadata = {{ rate_limit_per_minute = 1 }}
tools.sleeper.timeout = 100
tools.asleep.metadata = {{ enabled_by_default = false }}

[sources.upstream]
kind = "mcp"
url = "http://127.0.0.1:{upstream}/mcp"
prefix = "up_"

[sources.shop]
kind = "openapi"
file = "shop.json"
base_url = "http://127.0.0.1:{service}"

[sources.gone]
kind = "mcp"
url = "http://127.0.0.1:9/mcp"

[[tools]]
name = "fetch"
description = "A service answers."
executionType = "gateway"
visible = false
inputSchema = {{ type = "object", properties = {{ q = {{ type = "string" }} }}, required = ["q"] }}
execution = {{ url = "http://127.0.0.1:{service}/fetch", method = "POST" }}

[[tools]]
name = "fetch_broken"
description = "A service that fails."
executionType = "gateway"
visible = false
inputSchema = {{ type = "object" }}
execution = {{ url = "http://127.0.0.1:{service}/broken", method = "POST" }}

[[tools]]
name = "show_chart"
description = "Shown to people."
executionType = "internal"
visible = true
inputSchema = {{ type = "object", properties = {{ title = {{ type = "string" }} }}, required = ["title"] }}

[[tools]]
name = "confirm"
description = "A person answers, some time."
executionType = "space"
isAsync = true
inputSchema = {{ type = "object", properties = {{ question = {{ type = "string" }} }}, required = ["question"] }}

[[tools]]
name = "job"
description = "A tool server answers, waited for."
executionType = "external"
visible = false
timeout = 300
inputSchema = {{ type = "object" }}

[[tools]]
name = "job_later"
description = "A tool server answers, some time."
executionType = "external"
visible = false
isAsync = true
inputSchema = {{ type = "object" }}

[agents.concierge]
name = "Concierge"
description = "Helps."
model = "demo"
instructions = "Help people."
spaces = ["lobby"]

[agents.helper]
model = "demo"
instructions = "Help the caller."

[sessions.program]
command = ["{python}", "-u", "-c", "for line in iter(input, None): print('heard ' + line)"]
sandbox = {{ kind = "none" }}
"""
SCRIPT = r"""
[[turns]]
when = { user = '\[Tool Result: confirm\]', tool = "enter_space" }
calls = [{ tool = "enter_space", arguments = { spaceId = "lobby" } }]

[[turns]]
when = { user = 'lend', tool = "ant_send" }
calls = [{ tool = "ant_send", arguments = { message = "hello" } }]

[[turns]]
when = { user = '\[[^\n]*: "[^\n]*ask', tool = "enter_space" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "set_memories", arguments = { memories = [{ key = "k", value = "v" }] } },
]

[[turns]]
when = { result = "set_memories", tool = "enter_space" }
calls = [
  { tool = "show_chart", arguments = { title = "Chart" } },
  { tool = "confirm", arguments = { question = "Sure?" } },
]

[[turns]]
when = { result = "enter_space" }
calls = [{ tool = "send_message", arguments = { text = "It is confirmed." } }]

[[turns]]
when = { result = "confirm", tool = "enter_space" }
say = "I asked."

[[turns]]
when = { result = "send_message" }
say = "Done."

[[turns]]
when = { user = '\[Service', tool = "enter_space" }
calls = [{ tool = "skip", arguments = { reason = "Nothing to do." } }]

[[turns]]
when = { user = '\badd\b', tool = "add" }
say = "Let me add."
calls = [{ tool = "add", arguments = { a = 2, b = 40 } }]

[[turns]]
when = { user = 'add wrongly', tool = "add" }
calls = [{ tool = "add", arguments = { a = "two" } }]

[[turns]]
when = { result = "add" }
say = "It is {result}."

[[turns]]
when = { user = 'pay', tool = "guarded" }
calls = [{ tool = "guarded", arguments = { amount = 5 } }]

[[turns]]
when = { result = "guarded" }
say = "Paid, or not."

[[turns]]
when = { user = 'confirm', tool = "confirm" }
calls = [{ tool = "confirm", arguments = { question = "Sure?" } }]

[[turns]]
when = { result = "confirm" }
say = "They said something."

[[turns]]
when = { user = 'weather', tool = "get_weather" }
calls = [{ tool = "get_weather", arguments = { city = "Oslo" } }]

[[turns]]
when = { result = "get_weather" }
say = "Weather: {result}"

[[turns]]
when = { result = "ant_send" }
say = "It was sent."

[[turns]]
when = { user = 'think' }
think = "Let me think about it."
say = "I thought."

[[turns]]
when = { user = 'refuse' }
refuse = "I will not."

[[turns]]
when = { user = 'break' }
say = "I begin"
fail = "The model broke."

[[turns]]
when = { user = 'too long' }
say = "So long"
finish = "length"

[otherwise]
say = "Hello, I am a script."
"""
TOOLS = '''\
"""Tools of every temper."""

import asyncio


def echo(text: str) -> str:
    """Say the text again."""
    return text


def add(a: int, b: int = 1) -> int:
    """Add two whole numbers.

    The second one is 1 unless you say otherwise.
    """
    return a + b


def nothing() -> None:
    """Answer null."""


def boom(reason: str = "no reason") -> str:
    """Fail, always."""
    raise ValueError(reason)


async def sleeper() -> str:
    """Take too long."""
    await asyncio.sleep(60)
    return "late"


async def napper() -> str:
    """Take long."""
    await asyncio.sleep(20)
    return "late"


async def steps(ctx, count: int = 3) -> int:
    """Tell every step."""
    for step in range(count):
        ctx.progress(step + 1, count, f"step {step + 1}")
        await asyncio.sleep(0)
    return count


def guarded(amount: int) -> int:
    """Only with a person's consent."""
    return amount


def rare() -> str:
    """Once a minute."""
    return "once"


def asleep() -> str:
    """Switched off."""
    return "never"


def large(kilobytes: int = 2048) -> str:
    """A large result."""
    return "x" * 1024 * kilobytes


def settings(ctx) -> dict:
    """What the operator configured."""
    return dict(ctx.config)
'''
WORKER = '''\
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Runs in a worker."""


async def in_worker(text: str) -> dict:
    """Give the argument back."""
    print("called")
    return {"text": text}


def worker_boom() -> None:
    """Fail."""
    raise KeyError("no such thing")
'''
SHOP = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/orders/{id}": {
            "get": {
                "operationId": "getOrder",
                "summary": "One order",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "It", "content": {"application/json": {"schema": {}}}}},
            }
        }
    },
}


class Service(BaseHTTPRequestHandler):
    """The web service behind the http and OpenAPI tools."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        broken = self.path == "/broken"
        self._answer(500 if broken else 200, {"error": "broken"} if broken else {"heard": json.loads(body or b"null")})

    def do_GET(self) -> None:
        self._answer(200, {"path": self.path})

    def _answer(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving(checkout: Path, folder: Path) -> Iterator[str]:
    """The address of the checkout's gateway, serving the project; and everything around it."""
    with ExitStack() as stack:
        service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        stack.callback(service.shutdown)
        upstream = stack.enter_context(_process([sys.executable, "-m", "conformance.fixture"], cwd=ROOT))
        assert upstream.stdout is not None
        _write(folder, upstream=int(upstream.stdout.readline()), service=service.server_address[1])
        with (folder / "gateway.log").open("wb") as log:
            jackfield = [str(checkout / ".venv" / "bin" / "python"), "-m", "jackfield.cli", "serve"]
            settings = {
                "JACKFIELD_PORT": "0",
                "JACKFIELD_ADMIN_KEY": KEYS["admin"],
                "PYTHONPATH": str(checkout / "src"),
            }
            gateway = stack.enter_context(_process(jackfield, cwd=folder, stdout=log, settings=settings))
        yield _address(gateway, folder)


def _write(folder: Path, *, upstream: int, service: int) -> None:
    (folder / "tools").mkdir(parents=True)
    config = CONFIG.format(upstream=upstream, service=service, python=sys.executable)
    files = {"jackfield.toml": config, "script.toml": SCRIPT, "shop.json": json.dumps(SHOP)}
    for name, text in (files | {"tools/here.py": TOOLS, "tools/worker.py": WORKER}).items():
        (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def _process(
    command: list[str], *, cwd: Path, stdout: IO[bytes] | int = subprocess.PIPE, settings: dict[str, str] | None = None
) -> "Iterator[subprocess.Popen[bytes]]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JACKFIELD_")}
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=kept | (settings or {}),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT if settings else None,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _address(process: "subprocess.Popen[bytes]", folder: Path) -> str:
    note, end = folder / ".jackfield" / "gateway.json", time.monotonic() + READY_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            url = str(json.loads(note.read_bytes())["url"])
            ready = httpx2.get(f"{url}/readyz", headers={"x-api-key": KEYS["admin"]}, timeout=5)
            if ready.is_success and all(source["status"] != "starting" for source in ready.json()["sources"]):
                return url
        except (OSError, httpx2.TransportError, ValueError, KeyError):
            pass
        time.sleep(0.05)
    raise SystemExit(f"The gateway did not come up: {(folder / 'gateway.log').read_text(encoding='utf-8')}")
