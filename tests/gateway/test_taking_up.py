"""A gateway that starts while work of another waits: it is taken up when the gateway's own sources have listed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.gateway import gateway as gateway_module
from jackfield.gateway.gateway import Gateway
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Metadata
from jackfield.settings import load_settings
from jackfield.sources.base import Invocation, Listing
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import READY_TOPIC
from tests.calls.harness import FunctionSource
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement
from tests.store.cycles import run
from tests.store.intercepting import intercept
from tests.waiting import eventually_async

Json = dict[str, Any]
CONFIG = """
[programs]
enabled = true

[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.ada]
model = "mind"
tools = ["*"]
"""
SCRIPT = """
[[turns]]
when = { user = "pay" }
calls = [{ tool = "pay" }]
[[turns]]
when = { user = "linger" }
calls = [{ tool = "linger" }]
[[turns]]
when = { result = "linger" }
calls = [{ tool = "look" }]
[[turns]]
when = { result = "pay" }
calls = [{ tool = "look" }]
[[turns]]
when = { result = "look", says = "(?P<what>.+)" }
say = "Seen: {what}"
[otherwise]
say = "Noted."
"""
CATALOG = {"type": "mcp", "server_label": "jackfield", "require_approval": "never"}


class SlowSource(FunctionSource):
    """Lists its tools when it may."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.may_list = asyncio.Event()
        self.lingers, self.may_end, self.looks = asyncio.Event(), asyncio.Event(), 0
        self.offer("look", self._look)
        self.offer("linger", self._linger)

    async def refresh(self) -> Listing:
        await self.may_list.wait()
        return await super().refresh()

    async def _look(self, _: Invocation) -> Outcome:
        self.looks += 1
        return done("all of it")

    async def _linger(self, _: Invocation) -> Outcome:
        self.lingers.set()
        await self.may_end.wait()
        return done("lingered")


class Life:
    """One life of a gateway on a database that outlives it."""

    def __init__(self, gateway: Gateway, client: httpx2.AsyncClient, slow: SlowSource) -> None:
        self.gateway, self.client, self.slow = gateway, client, slow

    async def post(self, path: str, **body: Any) -> Json:
        answer = await self.client.post(path, json=body, timeout=60)
        assert answer.is_success, answer.text
        told: Json = answer.json()
        return told

    async def respond(self, text: str) -> str:
        body = {"model": "mind", "input": text, "tools": [CATALOG], "background": True}
        return str((await self.post("/v1/responses", **body))["id"])

    async def program(self, code: str) -> Json:
        return await self.post("/api/v1/tools/run_program/execute", arguments={"code": code})

    async def status(self, run_id: str) -> str:
        [row] = await run(self.gateway.store, f"SELECT status FROM runs WHERE id = '{run_id}'")
        return str(row["status"])

    async def waits(self, run_id: str, *, status: str = "parked") -> None:
        async def is_so() -> bool:
            return await self.status(run_id) == status

        await eventually_async(is_so)

    async def approve_all(self) -> None:
        calls = (await self.client.get("/api/v1/calls?status=pending_approval")).json()["calls"]
        for call in calls:
            await self.post(f"/api/v1/calls/{call['id']}/approve")

    async def response(self, response_id: str) -> Json:
        async def ended() -> Json | None:
            found: Json = (await self.client.get(f"/v1/responses/{response_id}")).json()
            return None if found["status"] in ("queued", "in_progress") else found

        return await eventually_async(ended)

    async def result(self, call_id: str) -> Json:
        async def ended() -> Json | None:
            found: Json = (await self.client.get(f"/api/v1/calls/{call_id}")).json()["call"]
            return found if found["finished_at"] else None

        return await eventually_async(ended)

    async def sweep(self) -> None:
        """A round of all that looks for work of others."""
        for sweep in self.gateway.sweeps:
            await sweep()
        await self.gateway.scheduler.sweep()


async def _pay(_: Invocation) -> Outcome:
    return done("paid")


def begun(folder: Path) -> tuple[Gateway, SlowSource, FunctionSource]:
    (folder / "mind.toml").write_text(SCRIPT)
    (folder / "jackfield.toml").write_text(CONFIG)
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": "sqlite:"}
    gateway = Gateway(load_settings(folder / "jackfield.toml", environment=environment))
    quick = FunctionSource("quick")
    quick.offer("pay", _pay, metadata=Metadata(requires_approval=True))
    return gateway, SlowSource(), quick


@asynccontextmanager
async def life(
    folder: Path, *, lists: bool, prepare: Callable[[Gateway], None] = lambda _: None
) -> AsyncIterator[Life]:
    gateway, slow, quick = begun(folder)
    prepare(gateway)
    if lists:
        slow.may_list.set()
    for source in (slow, quick):
        await gateway.source_registry.add(source)
    async with client_of(gateway) as client, gateway:
        yield Life(gateway, client, slow)


@pytest.fixture(autouse=True)
def _starts_without_slow_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "SOURCES_COME_UP_WITHIN", 0.0)


@requirement("RUN-taken-up")
async def test_runs_of_every_kind_are_taken_up_when_the_sources_have_listed(tmp_path: Path) -> None:
    async with life(tmp_path, lists=True) as before:
        response = await before.respond("pay")
        program = (await before.program("await tools.pay()\nreturn await tools.look()"))["call_id"]
        await before.post("/api/agents/ada/trigger", serviceName="door", payload="linger")
        await before.slow.lingers.wait()
        for run_id in (response, f"prog_{program}"):
            await before.waits(run_id)
        await before.gateway.scheduler.close()
        before.slow.may_end.set()
    async with life(tmp_path, lists=False) as here:
        await here.approve_all()
        await here.sweep()
        new = await here.program("return 'new'")
        assert new["result"] == "new", "what is begun here is not held"
        assert (await here.response(await here.respond("Hello")))["status"] == "completed"
        assert [await here.status(run_id) for run_id in (response, f"prog_{program}")] == ["ready", "ready"]
        assert not here.gateway.scheduler.awake
        here.slow.may_list.set()
        ended = await here.response(response)
        assert [item["name"] for item in ended["output"] if item["type"] == "mcp_call"] == ["pay", "look"]
        assert ended["output"][-1]["content"][0]["text"] == "Seen: all of it"
        assert (await here.result(program))["result"] == "all of it"

        async def cycle_is_done() -> bool:
            rows = await run(here.gateway.store, "SELECT status FROM runs WHERE kind = 'cycle'")
            return [row["status"] for row in rows] == ["done"]

        await eventually_async(cycle_is_done)
        assert here.slow.looks == 3


@requirement("RUN-taken-up")
async def test_word_from_another_gateway_in_the_middle_of_a_start_takes_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with life(tmp_path, lists=True) as before:
        response = await before.respond("pay")
        await before.waits(response)
        before.gateway.sources_listed.clear()  # nobody takes it up here any more
        await before.approve_all()
        await before.waits(response, status="ready")
    seen: list[str] = []

    def hears_early(gateway: Gateway) -> None:
        async def entered(*args: Any, **kwargs: Any) -> Any:
            gateway.store.bus.publish(READY_TOPIC + "response")
            for _ in range(20):
                [row] = await run(gateway.store, f"SELECT status FROM runs WHERE id = '{response}'")
            seen.append(str(row["status"]))
            return await gateway.store.write(partial(gateway_tx.enter, *args, **kwargs))

        intercept(monkeypatch, gateway.store, gateway_tx.enter, entered)

    async with life(tmp_path, lists=True, prepare=hears_early) as here:
        assert seen == ["ready"]
        ended = await here.response(response)
        assert [item["name"] for item in ended["output"] if item["type"] == "mcp_call"] == ["pay", "look"]


@requirement("RUN-taken-up")
async def test_a_source_that_never_lists_does_not_keep_runs_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with life(tmp_path, lists=True) as before:
        response = await before.respond("pay")
        await before.waits(response)
    monkeypatch.setattr(gateway_module, "TAKES_UP_WITHIN", 0.0)
    async with life(tmp_path, lists=False) as here:
        await here.approve_all()
        ended = await here.response(response)
        assert not here.gateway.source_registry.statuses()[-2].tools
        assert "look" in str(ended)
