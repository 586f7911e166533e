"""A gateway with tools and hooks, in the test's own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from jackfield.gateway.gateway import Gateway
from tests.harness.in_process import in_process_gateway

TOOLS = '''
def echo(text: str, count: int = 1) -> dict:
    """Say it again."""
    return {"said": text * count}

def fail(text: str) -> str:
    """Fail with these words."""
    raise ValueError(text)
'''
PATIENT = 30_000
OTHER = "a-key-that-may-call"
CONFIG = f"""
[auth.keys.other]
key = "{OTHER}"
scopes = ["call", "read"]

[sources.files]
kind = "files"
path = "tools/*.py"

[[tools]]
name = "ask_person"
description = "Somebody answers."
execution_type = "space"
is_async = true
input_schema.type = "object"
"""


@asynccontextmanager
async def hooked(
    folder: Path, code: str, hooks: str, config: str = ""
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    """A gateway whose `[[hooks]]` are these, with `code` in hooks.py."""
    (folder / "tools").mkdir(exist_ok=True)
    (folder / "tools" / "texts.py").write_text(TOOLS)
    (folder / "hooks.py").write_text(code)
    async with in_process_gateway(folder, CONFIG + config + hooks) as both:
        yield both


def hook(on: str, function: str, **more: Any) -> str:
    """An entry of `[[hooks]]`, patient unless the test says otherwise."""
    more = {"timeout": PATIENT} | more
    lines = [f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in more.items()]
    return "\n".join(["", "[[hooks]]", f'on = "{on}_call"', f'python = "hooks.py:{function}"', *lines, ""])


async def execute(
    client: httpx2.AsyncClient, tool: str, *, key: str | None = None, **arguments: Any
) -> httpx2.Response:
    headers = {} if key is None else {"x-api-key": key}
    return await client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": arguments}, headers=headers)


async def record(client: httpx2.AsyncClient, call_id: str, *, key: str | None = None) -> dict[str, Any]:
    headers = {} if key is None else {"x-api-key": key}
    shown = await client.get(f"/api/v1/calls/{call_id}", headers=headers)
    assert shown.status_code == 200, shown.text
    call: dict[str, Any] = shown.json()["call"]
    return call


def notes(call: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(note["name"], note["decision"], note["reason"]) for note in call["hooks"]]
