"""Work that goes on at a service: begun, followed, told of, stopped, and taken up again after a restart."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.calls.events import CallEvent
from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from jackfield.sources.base import Progress
from tests import waiting
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement
from tests.stories.services import Neighbourhood, execute, neighbourhood, record, settled

BEHAVIOR: dict[str, Any] = {
    "status_polling": {
        "status_tool": "check",
        "operation_id_field": "run.id",
        "status_tool_id_param": "run_id",
        "poll_interval_seconds": 0.03,
        "max_poll_duration_seconds": 60,
        "backoff": {"initial": 0.02, "max": 0.1, "multiplier": 1.5},
    },
    "completion_conditions": {
        "status_field": "run.status",
        "success_values": ["complete"],
        "failure_values": ["failed"],
        "pending_values": ["running"],
        "error_field": "run.error",
        "result_field": "run.output",
    },
    "progress_tracking": {
        "current_step_field": "run.step",
        "total_steps_field": "run.steps",
        "message_field": "run.note",
        "phase_field": "run.phase",
    },
    "cancellation": {"cancel_tool": "stop", "cancel_tool_id_param": "run_id"},
}


class Shop:
    """A service with long work: `start` begins it, `check` says how it stands, `stop` stops it."""

    def __init__(self, at: Neighbourhood, *, run_id: Any = "r1", **metadata: Any) -> None:
        self.service = at.service
        self.stands: dict[str, Any] = {"status": "running", "step": 1, "steps": 4, "note": "mixing", "phase": "one"}
        self.stopped: list[Any] = []
        self.looked = asyncio.Event()
        said = {"async_behavior": BEHAVIOR, **metadata}
        at.service.offer("start", lambda _: {"run": {"id": run_id}}, metadata=said)
        at.service.offer("check", self._check, parameters={"type": "object", "properties": {"run_id": {}}})
        at.service.offer("stop", self._stop, parameters={"type": "object", "properties": {"run_id": {}}})
        self.run_id = run_id

    def _check(self, arguments: dict[str, Any]) -> Any:
        self.looked.set()
        assert arguments == {"run_id": self.run_id}
        return {"run": self.stands}

    def _stop(self, arguments: dict[str, Any]) -> Any:
        self.stopped.append(arguments["run_id"])
        return {}

    @property
    def starts(self) -> int:
        return len([call for call in self.service.calls if call[0] == "start"])

    @property
    def looks(self) -> int:
        return len([call for call in self.service.calls if call[0] == "check"])


async def begun(client: httpx2.AsyncClient) -> str:
    """The id of a call whose work was begun."""
    answer = await execute(client, "start", text="x")
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    call_id: str = answer.json()["call_id"]
    return call_id


async def first_progress(events: AsyncIterator[CallEvent], call_id: str) -> Progress:
    async with asyncio.timeout(10):
        async for event in events:
            if event.progress is not None:
                assert event.call_id == call_id
                return event.progress
    raise AssertionError("the events ended")


until = waiting.eventually_async


@requirement("CON-async-behavior")
@pytest.mark.parametrize("run_id", ["r1", 17])
async def test_work_is_followed_to_its_result(tmp_path: Path, run_id: Any) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at, run_id=run_id)
        async with at.gateway() as (_, client):
            call_id = await begun(client)
            await until(lambda: shop.looks >= 2)
            assert (await record(client, call_id))["status"] == "pending"
            shop.stands = {"status": "complete", "output": {"cake": 1}}
            done = await settled(client, call_id)
            assert (done["status"], done["result"], shop.starts) == ("completed", {"cake": 1}, 1)


async def test_work_that_fails_fails_the_call_with_its_own_words(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        shop.stands = {"status": "failed", "error": "The oven is cold."}
        async with at.gateway() as (_, client):
            over = await settled(client, await begun(client))
            assert (over["status"], over["error"]["message"]) == ("failed", "The oven is cold.")


async def test_progress_is_told_to_who_follows_the_call(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        async with at.gateway() as (gateway, client), gateway.pipeline.events.follow(None) as events:
            call_id = await begun(client)
            told = await first_progress(events, call_id)
            assert (told.progress, told.total, told.message) == (1, 4, "one: mixing")
            shop.stands = {"status": "complete"}
            await settled(client, call_id)


async def test_what_sensitive_work_says_of_itself_is_no_event(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at, sensitive_output=True)
        async with at.gateway() as (gateway, client), gateway.pipeline.events.follow(None) as events:
            call_id = await begun(client)
            told = await first_progress(events, call_id)
            assert (told.progress, told.message) == (1, None)
            shop.stands = {"status": "complete"}
            await settled(client, call_id)


async def test_work_whose_call_is_cancelled_is_stopped_at_its_owner(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        async with at.gateway() as (_, client):
            call_id = await begun(client)
            await until(lambda: shop.looks)
            assert (await client.post(f"/api/v1/calls/{call_id}/cancel")).status_code == 200
            await until(lambda: shop.stopped)
            assert shop.stopped == ["r1"]
            looks = shop.looks
            assert (await record(client, call_id))["status"] == "cancelled"
            assert looks == shop.looks


async def test_an_answer_without_an_id_is_a_failure_that_says_so(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        Shop(at)
        at.service.offer("start", lambda _: {"run": None}, metadata={"async_behavior": BEHAVIOR})
        async with at.gateway() as (_, client):
            over = await settled(client, await begun(client))
            assert (over["status"], over["error"]["code"]) == ("failed", "bad_response")
            assert "no id at 'run.id'" in over["error"]["message"]


async def test_a_service_that_is_away_for_a_while_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        async with at.gateway() as (_, client):
            call_id = await begun(client)
            await until(lambda: shop.looks)
            at.service.say(b"away", 503)
            await client.post("/api/v1/tools/refresh")
            assert (await record(client, call_id))["status"] == "pending"
            shop.stands = {"status": "complete", "output": 1}
            at.service.recover()
            assert (await settled(client, call_id))["status"] == "completed"


async def test_senseless_answers_in_a_row_end_the_call(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        at.service.offer("check", _fail, parameters={"type": "object"})
        async with at.gateway() as (_, client):
            over = await settled(client, await begun(client))
            assert over["status"] == "failed"
            assert over["error"]["message"] == "The status tool 'check' failed: no idea It was asked 5 times."
            assert shop.starts == 1


def _fail(_: dict[str, Any]) -> Any:
    raise ValueError("no idea")


def gateway_on(at: Neighbourhood, store: str) -> Gateway:
    path = at.folder / "jackfield.toml"
    path.write_text(f'[sources.far]\nkind = "manifest"\nurl = "{at.service.url}"\n')
    return Gateway(load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}))


@requirement("CON-async-behavior")
async def test_work_is_taken_up_again_after_a_restart_and_begun_once(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        async with gateway_on(at, "sqlite:///calls.db") as gateway, client_of(gateway) as client:
            call_id = await begun(client)
            await until(lambda: shop.looks)
        shop.stands = {"status": "complete", "output": "kept"}
        async with gateway_on(at, "sqlite:///calls.db") as gateway, client_of(gateway) as client:
            done = await settled(client, call_id)
            assert (done["status"], done["result"], shop.starts) == ("completed", "kept", 1)


@pytest.mark.parametrize(("idempotent", "status", "starts"), [(True, "completed", 2), (False, "failed", 1)])
async def test_a_beginning_that_was_cut_off_is_repeated_only_where_that_does_no_harm(
    tmp_path: Path, *, idempotent: bool, status: str, starts: int
) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        shop.stands = {"status": "complete", "output": 1}
        stuck = asyncio.Event()
        metadata = {"async_behavior": BEHAVIOR, "idempotent": idempotent}

        async def hang(_: dict[str, Any]) -> Any:
            stuck.set()
            await asyncio.Event().wait()

        at.service.offer("start", hang, metadata=metadata)
        async with gateway_on(at, "sqlite:///calls.db") as gateway, client_of(gateway) as client:
            call_id = await begun(client)
            async with asyncio.timeout(10):
                await stuck.wait()
        at.service.offer("start", lambda _: {"run": {"id": "r1"}}, metadata=metadata)
        async with gateway_on(at, "sqlite:///calls.db") as gateway, client_of(gateway) as client:
            over = await settled(client, call_id)
            assert (over["status"], shop.starts) == (status, starts)
            if not idempotent:
                assert over["error"]["code"] == "interrupted"


async def test_two_gateways_of_one_database_look_after_work_one_at_a_time(tmp_path: Path, postgres_url: str) -> None:
    async with neighbourhood(tmp_path) as at:
        shop = Shop(at)
        busy, most = 0, 0

        async def check(_: dict[str, Any]) -> Any:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0.02)
            busy -= 1
            return {"run": shop.stands}

        at.service.offer("check", check, parameters={"type": "object"})
        async with gateway_on(at, postgres_url) as first, gateway_on(at, postgres_url), client_of(first) as client:
            call_id = await begun(client)
            await until(lambda: shop.looks >= 6)
            shop.stands = {"status": "complete", "output": 1}
            assert (await settled(client, call_id))["status"] == "completed"
            assert (most, shop.starts) == (1, 1)
