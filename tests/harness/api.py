"""A gateway with keys of every scope and tools of every temper, for the stories about its HTTP doors.

    with open_api(tmp_path) as api:
        api.ask("GET", "/api/v1/tools", key="reader")

`JACKFIELD_ADMIN_KEY` is `ADMIN_KEY`; every other key is called like its principal with `-key` behind it.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from tests.harness.process import RunningGateway, running_gateway

ADMIN_KEY = "admin-key-of-the-story"
SCOPES = {
    "reader": ["read"],
    "caller": ["call"],
    "rival": ["call"],
    "answerer": ["answer"],
    "server": ["worker:ech*"],
    "ada": ["agent:ada"],
    "sandbox": ["session:s1"],
}
LIMITED = {"limited": ["echo", "add"]}

CONFIG = """\
[server]
max_body = 200000

[scenario]
name = "story"
version = "2.3.4"
description = "Tools for the stories about HTTP"
base_url = "http://story.example:8420"

[[categories]]
id = "maths"
name = "Maths"
description = "What can be counted"
icon = "plus"

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.add]
category = "maths"

[sources.local.tools.add.metadata]
enabled_by_default = true
requires_approval = false
timeout_seconds = 7
rate_limit_per_minute = 6000
cost_estimate = "low"
long_running = false
idempotent = true
tags = ["arithmetic", "sum"]
examples = [{ description = "One and one", input = { a = 1, b = 1 } }]

[sources.local.tools.scarce]
metadata = { rate_limit_per_minute = 2 }

[sources.local.tools.sleeper]
metadata = { timeout_seconds = 1 }

[sources.local.tools.slow]
timeout = 20000

[sources.local.tools.guarded]
metadata = { requires_approval = true }

[sources.local.tools.asleep]
metadata = { enabled_by_default = false }

[[tools]]
name = "strict"
description = "Takes exactly what its schema says."
executionType = "internal"

[tools.inputSchema]
type = "object"
properties = { n = { type = "integer", minimum = 1 } }
required = ["n"]
additionalProperties = false
"""

TOOLS = '''\
"""Tools of every temper."""

import asyncio
from pathlib import Path


def echo(value: object = None) -> object:
    """Give the value back."""
    return value


def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


def boom(reason: str = "no reason") -> str:
    """Fail, always."""
    raise ValueError(reason)


def scarce() -> str:
    """Twice a minute."""
    return "ok"


async def sleeper() -> str:
    """Sleep longer than it may."""
    await asyncio.sleep(60)
    return "never"


def stepping(ctx: object) -> str:
    """Say how far it is, twice, then answer."""
    ctx.progress(1, 2, "half")
    ctx.progress(2, 2, "whole")
    return "there"


async def slow(gate: str) -> str:
    """Answer when the file `gate` exists."""
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    return "done"


def count(path: str) -> int:
    """Append a line to the file and say how many it has."""
    file = Path(path)
    with file.open("a") as handle:
        handle.write("x")
    return len(file.read_text())


def guarded(amount: int) -> int:
    """Only with a person's consent."""
    return amount


def asleep() -> str:
    """Switched off."""
    return "awake"
'''


@dataclass(frozen=True, kw_only=True)
class Api:
    """A running gateway and the keys to it."""

    gateway: RunningGateway
    client: httpx2.Client

    def ask(
        self,
        method: str,
        path: str,
        *,
        key: str | None = "admin",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> httpx2.Response:
        """One request with the key of that name; None sends no key."""
        sent = {} if key is None else {"x-api-key": key_of(key)}
        return self.client.request(method, path, headers={**sent, **(headers or {})}, **more)

    def execute(
        self, tool: str, arguments: object = None, *, key: str | None = "admin", **more: Any
    ) -> httpx2.Response:
        body = {"arguments": {} if arguments is None else arguments, **more.pop("body", {})}
        return self.ask("POST", f"/api/v1/tools/{tool}/execute", key=key, json=body, **more)


def key_of(name: str) -> str:
    return ADMIN_KEY if name == "admin" else f"{name}-key"


def config(extra: str = "") -> str:
    """The config, with a key for each kind of scope."""
    keys = [f'[auth.keys.{name}]\nkey = "{name}-key"\nscopes = {_toml(scopes)}\n' for name, scopes in SCOPES.items()]
    keys += [
        f'[auth.keys.{name}]\nkey = "{name}-key"\nscopes = ["call"]\ntools = {_toml(tools)}\n'
        for name, tools in LIMITED.items()
    ]
    return "\n".join([CONFIG, *keys, extra])


@contextmanager
def open_api(folder: Path, *, extra: str = "", files: Mapping[str, str] | None = None) -> Generator[Api]:
    with (
        running_gateway(
            folder,
            config(extra),
            env={"JACKFIELD_ADMIN_KEY": ADMIN_KEY},
            files={"tools/story.py": TOOLS, **(files or {})},
        ) as gateway,
        httpx2.Client(base_url=gateway.url, timeout=20) as client,
    ):
        yield Api(gateway=gateway, client=client)


def error_of(answer: httpx2.Response) -> dict[str, Any]:
    """The error in an answer, its shape checked."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert {"type", "code", "message", "param"} <= set(error) <= {"type", "code", "message", "param", "details"}
    assert all(isinstance(error[name], str) and error[name] for name in ("type", "code", "message"))
    return error


def _toml(values: list[str]) -> str:
    return msgspec.json.encode(values).decode()
