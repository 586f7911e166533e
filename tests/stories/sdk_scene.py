"""The scene of the SDK's stories about calls that somebody else answers: its tools, its keys, a server that serves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from jackfield.sdk import CallRecord, Client, InboxEvent
from tests import waiting
from tests.harness.process import DEFAULT_TOOLS, RunningGateway, running_gateway, start_gateway
from tests.waiting import TIMEOUT

T = TypeVar("T")
WITHIN = TIMEOUT
EXTERNAL = """
[[tools]]
name = "{name}"
description = "{name}, answered elsewhere."
executionType = "external"
visible = false
inputSchema = {{ type = "object" }}
{more}
"""
CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.guarded]
metadata = { requires_approval = true }

[auth.keys.worker]
key = "workers-key"
scopes = ["worker:fetch*"]

[auth.keys.caller]
key = "callers-key"
scopes = ["call"]

[auth.keys.outside]
key = "outside-key"
scopes = ["agent:dora", "agent:emil"]
""" + "".join(
    [
        EXTERNAL.format(name="fetchExternalData", more="timeout = 10000"),
        EXTERNAL.format(name="job", more="isAsync = true"),
        EXTERNAL.format(name="fleeting", more="isAsync = true\nexpiresIn = 200"),
        EXTERNAL.format(name="patient", more="timeout = 60000"),
        EXTERNAL.format(name="repeatable", more="timeout = 60000\nmetadata = { idempotent = true }"),
        EXTERNAL.format(name="quick", more="timeout = 1500"),
    ]
)
ENVIRONMENT = {"JACKFIELD_ADMIN_KEY": "operators-key"}
TOOLS = {"tools/story.py": DEFAULT_TOOLS}


def sdk_gateway(folder: Path) -> AbstractContextManager[RunningGateway]:
    """The scene, served as long as the block lasts."""
    return running_gateway(folder, CONFIG, env=ENVIRONMENT, files=TOOLS)


def begin_gateway(folder: Path) -> RunningGateway:
    """The scene, for a test that kills it."""
    return start_gateway(folder, CONFIG, env=ENVIRONMENT, files=TOOLS)


def back_again(folder: Path) -> RunningGateway:
    """The same gateway after it was killed."""
    return start_gateway(folder, env=ENVIRONMENT)


@asynccontextmanager
async def serving(client: Client, functions: Any, **options: Any) -> AsyncIterator["asyncio.Task[None]"]:
    """A connected tool server, stopped at the end."""
    connected = asyncio.Event()
    task = asyncio.create_task(
        client.tools.serve(functions, **{"grace": 5.0, "on_connected": connected.set, **options})
    )
    ready = asyncio.create_task(connected.wait())
    await asyncio.wait((task, ready), timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    assert connected.is_set(), task
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,), timeout=WITHIN)


soon = waiting.eventually_async


async def newest(client: Client, tool: str, status: str) -> CallRecord:
    """The newest call of `tool` in that status, as soon as there is one."""

    async def found() -> tuple[CallRecord, ...]:
        return (await client.calls.list(tool=tool, status=status, limit=1)).calls

    return (await soon(found))[0]


async def first_events(client: Client, agent: str) -> tuple[InboxEvent, ...]:
    """What is in the agent's inbox, as soon as there is something."""

    async def found() -> tuple[InboxEvent, ...]:
        return (await client.agents.inbox(agent)).events

    return await soon(found)


async def take_and_leave(gateway: RunningGateway, tool: str, *, client_id: str) -> None:
    """A tool server that is gone as soon as it was offered a call."""
    params = {"tools": tool, "client": client_id}
    async with (
        httpx2.AsyncClient(headers=gateway.headers, timeout=WITHIN) as raw,
        raw.stream("GET", f"{gateway.url}/api/tools/stream", params=params) as answer,
    ):
        async for line in answer.aiter_lines():
            if "tool.call" in line:
                return
