"""Responses whose store is away for a while: none is lost, and none stays in progress for ever."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jackfield.errors import Unavailable
from jackfield.responses import storage
from jackfield.responses import transactions as response_tx
from jackfield.runs import transactions as run_tx
from tests.requirement import requirement
from tests.responses.live import Live, live, texts
from tests.waiting import eventually_async

LOOKS = """
[[turns]]
when = { user = "look" }
calls = [{ tool = "look", arguments = { n = 3 } }]
[otherwise]
say = "Noted."
"""


def away(patch: pytest.MonkeyPatch, name: str, *, times: int) -> Callable[[], int]:
    """Let a transition fail so often, as when the database is away. How often it did."""
    real = getattr(run_tx, name)
    failed: list[str] = []

    def transition(*args: Any, **kwargs: Any) -> Any:
        if len(failed) < times:
            failed.append(name)
            raise Unavailable("The database is away.")
        return (yield from real(*args, **kwargs))

    patch.setattr(run_tx, name, transition)
    return lambda: len(failed)


@requirement("RUN-store-away")
async def test_a_background_response_goes_on_when_its_step_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path, LOOKS) as here:
        failed = away(monkeypatch, "take_step", times=1)
        made = await here.create("look")
        ended = await here.ended(made.id)
        assert failed() == 1
        assert texts(ended) == ["Noted."]
        assert here.starts == ["look-3"]
        events = await here.stream(made.id)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))


@requirement("RUN-store-away")
@pytest.mark.parametrize("background", [True, False])
async def test_an_end_that_could_not_be_written_is_written_when_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, background: bool
) -> None:
    monkeypatch.setattr(storage, "TRY_AGAIN_AFTER", (0.0,))
    async with live(tmp_path, LOOKS) as here:
        failed = away(monkeypatch, "end", times=2)
        made = await here.create("look", background=background)

        async def ended() -> dict[str, Any] | None:
            run = (await here.client.get(f"/api/runs/{made.id}")).json()["run"]
            return run if run["finishedAt"] else None

        assert (await eventually_async(ended))["status"] == "completed"
        assert failed() == 2
        assert texts(await here.get(made.id)) == ["Noted."]
        assert here.starts == ["look-3"]
        assert len(here.model.requests) == 2


@requirement("RUN-told-when-kept")
async def test_a_client_is_told_of_a_response_once_it_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that its id can be used, whatever becomes of this gateway; the model is asked meanwhile."""
    may_write, real = threading.Event(), response_tx.begin_journaled

    def begin_journaled(*args: Any, **kwargs: Any) -> Any:
        may_write.wait(60)
        return (yield from real(*args, **kwargs))

    monkeypatch.setattr(response_tx, "begin_journaled", begin_journaled)
    async with live(tmp_path, LOOKS) as here:
        told: list[str] = []

        async def listen() -> None:
            async for event in await here.create("hello", background=False, stream=True):
                told.append(event.type)  # noqa: PERF401 - it is looked at meanwhile

        listening = asyncio.create_task(listen())
        try:
            await eventually_async(has_asked(here))
            for _ in range(20):  # a client that was told would have heard of it by now
                assert (await here.client.get("/v1/models")).status_code == 200
            assert told == []
        finally:
            may_write.set()
        await listening
        assert (told[0], told[-1]) == ("response.created", "response.completed")


def has_asked(here: Live) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return bool(here.model.requests)

    return asked
