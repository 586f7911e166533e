"""Responses in the background: queued at once, polled, cancelled, their stream read from any event on; and restarts."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from jackfield.errors import StoreBusy
from jackfield.http.response import encode
from jackfield.model.ids import new_id
from jackfield.model.response_request import CreateResponse
from jackfield.responses import transactions as response_tx
from jackfield.responses.resource import new_resource
from jackfield.responses.storage import chunk_of
from jackfield.responses.transactions import StoredResponse
from jackfield.responses.writer import EventWriter
from jackfield.runs.events import Emit, Ended, OutputTextDelta, RunStarted
from tests.requirement import requirement
from tests.responses.conformity import check_resource, check_stream
from tests.responses.scene import WITHIN, FakeEngine, Scene, held, message, refuses, says, scene, tells
from tests.store.intercepting import intercept

FILE = "sqlite:///responses.db"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as opened:
        yield opened


@requirement("CON-resp-background")
async def test_a_background_response_is_queued_at_once_and_polled_to_its_end(here: Scene) -> None:
    gate = asyncio.Event()
    here.engine.plays(held(gate, *message("Hello.")[:2], after=tuple(message("Hello.")[2:])))

    queued = await here.create(background=True)

    check_resource(queued)
    assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
    now = await here.get(queued["id"])
    assert (now["status"], now["output"][0]["content"][0]["text"]) == ("in_progress", "Hel")
    gate.set()
    done = await here.until_ended(queued["id"])
    check_resource(done)
    assert (done["status"], done["output"][0]["content"][0]["text"]) == ("completed", "Hello.")


@requirement("CON-resp-background")
async def test_a_background_response_is_cancelled(here: Scene) -> None:
    here.engine.plays(held(asyncio.Event(), *message("Half")[:2]))
    queued = await here.create(background=True)

    answer = await here.client.post(f"/v1/responses/{queued['id']}/cancel")

    assert answer.json()["status"] == "cancelled"
    assert here.engine.stopped.is_set()
    assert await here.get(queued["id"]) == answer.json()
    stream = await here.again(queued["id"])
    check_stream(stream)
    assert stream[-1]["type"] == "response.cancelled"


@requirement("CON-resp-background")
async def test_the_stream_of_a_background_response_is_resumed_at_any_event(here: Scene) -> None:
    here.engine.plays(says("Hello there."))
    live = await here.stream(background=True)
    response_id = live[0]["response"]["id"]
    assert [event["type"] for event in live[:3]] == ["response.created", "response.queued", "response.in_progress"]

    for after in (None, -1, 0, 4, len(live) - 2):
        assert await here.again(response_id, after) == live[0 if after is None else after + 1 :]
    check_stream(live)


@requirement("CON-resp-background")
async def test_a_stream_is_resumed_while_the_response_is_still_made(here: Scene) -> None:
    gate = asyncio.Event()
    here.engine.plays(held(gate, *message("Hello.")[:2], after=tuple(message("Hello.")[2:])))
    queued = await here.create(background=True)
    async with here.client.stream("GET", f"/v1/responses/{queued['id']}?stream=true&starting_after=2") as answer:
        lines = answer.aiter_lines()
        first = await asyncio.wait_for(anext(lines), WITHIN)
        gate.set()
        rest = [line async for line in lines]

    assert first == "event: response.output_item.added"
    assert rest[-2:] == ["data: [DONE]", ""]
    assert "event: response.completed" in rest


async def test_a_background_response_goes_on_when_its_reader_hangs_up(here: Scene) -> None:
    gate = asyncio.Event()
    here.engine.plays(held(gate, after=tuple(message("Hello."))))
    body = {"model": "demo", "input": "Hi", "background": True, "stream": True}
    async with here.client.stream("POST", "/v1/responses", json=body) as answer:
        await asyncio.wait_for(anext(answer.aiter_lines()), WITHIN)
    gate.set()

    done = await here.until_ended(here.engine.asked[0].response_id)

    assert done["status"] == "completed"
    assert not here.engine.stopped.is_set()


async def test_a_background_response_that_is_refused_is_an_error_answer(here: Scene) -> None:
    here.engine.plays(refuses(ZeroDivisionError("secret detail")))

    refused = await here.create(500, background=True)

    assert refused["error"]["code"] == "internal_error"


async def test_a_stream_that_was_not_kept_cannot_be_resumed(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    response = await here.create()

    refused = await here.get(f"{response['id']}?stream=true", status=400)

    assert refused["error"]["param"] == "stream"
    assert (await here.get(f"{response['id']}?starting_after=3", status=400))["error"]["param"] == "starting_after"


async def test_deleting_a_background_response_stops_it(here: Scene) -> None:
    here.engine.plays(held(asyncio.Event()))
    queued = await here.create(background=True)

    answer = await here.client.delete(f"/v1/responses/{queued['id']}")

    assert answer.json()["deleted"] is True
    assert here.engine.stopped.is_set()
    await here.get(queued["id"], status=404)
    await here.get(f"{queued['id']}?stream=true", status=404)


async def test_a_thousand_events_are_resumed_in_their_order(here: Scene) -> None:
    async def play(emit: Emit) -> None:
        emit(RunStarted())
        begun, *_ = message("x")
        emit(begun)
        for number in range(1000):
            emit(OutputTextDelta(0, f"{number} "))
            if number % 100 == 0:
                await asyncio.sleep(0.01)
        emit(Ended(status="completed"))

    here.engine.plays(play)
    live = await here.stream(background=True)

    assert await here.again(live[0]["response"]["id"], 500) == live[501:]
    check_stream(live)


async def test_openais_client_resumes_and_cancels(here: Scene) -> None:
    gate = asyncio.Event()
    here.engine.plays(held(gate, *message("Hello.")[:2], after=tuple(message("Hello.")[2:])), held(asyncio.Event()))
    async with AsyncOpenAI(base_url=f"{here.url}/v1", api_key="ada-key", max_retries=0) as openai:
        first = await openai.responses.create(model="demo", input="Hi", background=True)
        async with openai.responses.stream(response_id=first.id, starting_after=3) as stream:
            gate.set()
            numbers = [event.sequence_number async for event in stream]
            final = await stream.get_final_response()
        second = await openai.responses.create(model="demo", input="Hi", background=True)
        cancelled = await openai.responses.cancel(second.id)

    assert first.status == "queued"
    assert numbers[0] == 4
    assert final.output_text == "Hello."
    assert cancelled.status == "cancelled"


async def test_a_gateway_that_stops_says_so_in_a_stream_and_leaves_what_is_in_the_background_to_the_next(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, store=FILE) as before:
        before.engine.plays(held(asyncio.Event(), *message("Half")[:2]), held(asyncio.Event()))
        queued = await before.create(background=True)
        before.engine.was_asked.clear()
        streaming = asyncio.create_task(before.stream())
        await asyncio.wait_for(before.engine.was_asked.wait(), WITHIN)
        await before.stop()
        streamed = await asyncio.wait_for(streaming, WITHIN)

    check_stream(streamed)
    assert streamed[-1]["type"] == "response.failed"
    assert streamed[-2]["error"]["code"] == "interrupted"
    whole = tells(*message("Whole.", number=1))
    async with scene(tmp_path, store=FILE, plays=[whole]) as after:
        found = await after.until_ended(queued["id"])
        assert found["status"] == "completed"
        said = [(item["status"], item["content"][0]["text"]) for item in found["output"]]
        assert said == [("incomplete", "Ha"), ("completed", "Whole.")]
        stream = await after.again(queued["id"])
        check_stream(stream)
        assert stream[-1]["response"] == found


async def test_a_response_that_cannot_be_kept_has_failed(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(_response: StoredResponse, **_: str) -> None:
        raise StoreBusy("Too much waits to be written. Try again.")

    intercept(monkeypatch, here.gateway.store, response_tx.add_response, full)
    intercept(monkeypatch, here.gateway.store, response_tx.begin_journaled, full)
    here.engine.plays(says("Hello."), says("Hello."))

    stream = await here.stream()
    refused = await here.create(503, background=True)

    check_stream(stream)
    assert stream[-1]["response"]["error"]["code"] == "store_unavailable"
    assert refused["error"]["code"] == "store_busy"


async def leave_orphan(here: Scene, engine: FakeEngine, *, background: bool = True) -> str:
    """A response as a gateway leaves it that is killed while it makes it: one item done, another begun."""
    request = CreateResponse(model="demo", background=background)
    resource = new_resource(request, id=new_id("resp"), created_at=1, status="queued")
    writer = EventWriter(resource, now=lambda: 2)
    told: list[Any] = []
    for event in (RunStarted(), *message("Said."), *message("Half", number=1)[:2]):
        told += writer.take(event)
    store = here.gateway.store
    kept = StoredResponse(
        id=resource.id,
        principal="ada",
        status="in_progress",
        previous_id=None,
        resource=encode(writer.resource).decode(),
        input="[]",
        owner="gw_killed",
        is_background=background,
    )
    await store.write(partial(response_tx.add_response, kept))
    chunk = chunk_of(told)
    if background:
        assert chunk is not None
        await store.write(partial(response_tx.append_events, resource.id, chunk))
    assert engine.asked == []
    return resource.id


async def test_what_a_killed_gateway_was_making_has_failed_as_interrupted(here: Scene) -> None:
    response_id = await leave_orphan(here, here.engine)

    found = await here.get(response_id)

    check_resource(found)
    assert (found["status"], found["error"]["code"]) == ("failed", "interrupted")
    assert [item["content"][0]["text"] for item in found["output"]] == ["Said."]
    assert (await here.client.post(f"/v1/responses/{response_id}/cancel")).json() == found


async def test_the_stream_of_what_a_killed_gateway_was_making_ends_where_it_stopped(here: Scene) -> None:
    response_id = await leave_orphan(here, here.engine)

    stream = await here.again(response_id)

    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert [event["type"] for event in stream[-2:]] == ["error", "response.failed"]
    assert stream[-1]["response"] == await here.get(response_id)


async def test_a_killed_stream_is_found_as_interrupted_too(here: Scene) -> None:
    response_id = await leave_orphan(here, here.engine, background=False)

    assert (await here.get(response_id))["error"]["code"] == "interrupted"
