"""Gateway processes that a story may kill, pause and start again, one or several on one database.

async with mortals(tmp_path, url, count=2) as (a, b):
    call, waiting = await a.begin("ask", agent="ada")      # a caller waits at a
    a.kill()
    await b.submit(call, 42)
"""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from tests.harness.process import RunningGateway, free_port, start_gateway
from tests.waiting import TIMEOUT, eventually_async

T = TypeVar("T")

KEY = "key-of-the-mortals"
WITHIN = TIMEOUT
CONFIG = """\
[store]
large_result = 0    # a large answer shall take its time on the way, not wait in pages

[sources.local]
kind = "files"
path = "tools/*.py"
tools.hold_again.metadata = { idempotent = true }
tools.charge.metadata = { requires_approval = true }
tools.pay.metadata = { verify = "was_it_paid" }

[[tools]]
name = "ask"
description = "Answered from outside, waited for."
executionType = "external"
visible = false
timeout = 30000
inputSchema = { type = "object" }

[[tools]]
name = "ask_briefly"
description = "Answered from outside, waited for a moment."
executionType = "external"
visible = false
timeout = 1500
inputSchema = { type = "object" }

[[tools]]
name = "ask_in_vain"
description = "Never answered."
executionType = "external"
visible = false
isAsync = true
expiresIn = 500
inputSchema = { type = "object" }
"""
TOOLS = '''\
"""Tools that write down that they started."""

import asyncio
import os
from pathlib import Path

STARTS = Path(os.environ["STORY_STARTS"])


def _begin(what: str) -> int:
    with STARTS.open("a") as file:
        file.write(what + "\\n")
    return STARTS.read_text().split().count(what)


async def hold() -> str:
    """Take long."""
    _begin("hold")
    await asyncio.sleep(60)
    return "held"


async def hold_again() -> str:
    """Take long the first time; may be repeated."""
    if _begin("hold_again") == 1:
        await asyncio.sleep(60)
    return "held again"


def add(a: int, b: int) -> int:
    """Take a moment."""
    return a + b


async def pay(order: int, at_once: bool) -> str:
    """Pay at once or never, and never answer."""
    if at_once:
        _begin(f"paid-{order}")
    _begin(f"held-{order}")
    await asyncio.sleep(60)
    return "answered"


async def was_it_paid(call_id: str, arguments: dict) -> dict:
    """Say it, but take long the first time."""
    if _begin(f"asked-{arguments['order']}") == 1:
        await asyncio.sleep(60)
    times = STARTS.read_text().split().count(f"paid-{arguments['order']}")
    return {"happened": True, "result": {"times": times, "call": call_id}} if times else {"happened": False}


def charge(amount: int) -> int:
    """Take money."""
    _begin(f"charge-{amount}")
    return amount
'''


class KillableGateway:
    """One gateway, always at the same address."""

    def __init__(self, folder: Path, *, store_url: str, starts: Path) -> None:
        self._folder = folder
        self._env = {
            "JACKFIELD_STORE": store_url,
            "JACKFIELD_ADMIN_KEY": KEY,
            "JACKFIELD_PORT": str(free_port()),
            "STORY_STARTS": str(starts),
        }
        self._starts = starts
        self.gateway: RunningGateway | None = None
        self.tools: dict[str, tuple[str, str]] = {}
        """Each tool's version and source, as listed at the last start."""
        limits = httpx2.Limits(max_connections=None)
        url, headers = f"http://127.0.0.1:{self._env['JACKFIELD_PORT']}", {"Authorization": f"Bearer {KEY}"}
        self.client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits)

    async def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        files = {"tools/t.py": TOOLS}
        self.gateway = await asyncio.to_thread(start_gateway, self._folder, CONFIG, env=self._env, files=files)
        answered = await self.ask("GET", "/api/v1/tools")
        assert answered.status_code == 200, answered.text
        listed = answered.json()["tools"]
        self.tools = {tool["name"]: (tool["version"], tool["source"]) for tool in listed}

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        assert self.gateway is not None
        self.gateway.kill()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, what: signal.Signals) -> None:
        assert self.gateway is not None
        self.gateway.process.send_signal(what)

    async def close(self) -> None:
        if self.gateway is not None:
            self.gateway.kill()
        await self.client.aclose()

    async def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        return await self.client.request(method, path, **more)

    async def begin(self, tool: str, *, agent: str, **arguments: Any) -> "tuple[Any, asyncio.Task[httpx2.Response]]":
        """A call that is on record, and the request that waits for it."""
        body = {"arguments": arguments, "agent": agent}
        calling = asyncio.create_task(self.ask("POST", f"/api/v1/tools/{tool}/execute", json=body))
        return await self.only_call(agent), calling

    async def only_call(self, agent: str) -> dict[str, Any]:
        """The agent's one call, as soon as it is on record."""

        async def found() -> Any:
            return (await self.ask("GET", "/api/v1/calls", params={"agent": agent})).json()["calls"]

        [call] = await eventually_async(found)
        only: dict[str, Any] = call
        return only

    async def submit(self, call: dict[str, Any], result: Any) -> httpx2.Response:
        body = {"callId": call["id"], "result": result}
        return await self.ask("POST", f"/api/runs/{call['run_id']}/tool-results", json=body)

    async def record(self, call_id: str, *, wait: int = 0) -> dict[str, Any]:
        answer = await self.ask("GET", f"/api/v1/calls/{call_id}", params={"wait": wait} if wait else {})
        record: dict[str, Any] = answer.json()["call"]
        return record

    async def inbox(self, agent: str) -> list[tuple[str, Any]]:
        events = (await self.ask("GET", f"/api/agents/{agent}/inbox")).json()["events"]
        return [(event["eventId"], event["data"]["result"]) for event in events]

    async def told(self, agent: str) -> list[tuple[str, Any]]:
        """The agent's events, when there is one."""
        return await eventually_async(lambda: self.inbox(agent))

    async def started(self, what: str) -> None:
        """Until the tool has written down that it started."""

        async def has_begun() -> bool:
            return self.starts[what] > 0

        await eventually_async(has_begun)

    @property
    def starts(self) -> Counter[str]:
        return Counter(self._starts.read_text(encoding="utf-8").split() if self._starts.exists() else ())


@asynccontextmanager
async def killable_gateways(folder: Path, store_url: str, *, count: int) -> AsyncIterator[list[KillableGateway]]:
    """Started gateways on one database; gone afterwards, whatever became of them."""
    async with AsyncExitStack() as stack:
        made = [KillableGateway(folder / f"gw{n}", store_url=store_url, starts=folder / "starts") for n in range(count)]
        for mortal in made:
            stack.push_async_callback(mortal.close)
        await asyncio.gather(*(mortal.start() for mortal in made))
        yield made
