"""Responses on the journal, in every store: queued, taken in hand, parked, answered, ended by others, resumed."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.model.call import done
from jackfield.model.ids import new_id
from jackfield.responses import transactions as response_tx
from jackfield.responses.transactions import Ending, EventChunk, StoredResponse, TakenResponse
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Fenced, Run, Tokens
from jackfield.store import Store
from tests.contracts.stores import KINDS, a_store
from tests.requirement import requirement
from tests.store.calls import a_pending_call

HERE, THERE = "gw_a", "gw_b"
FIRST = EventChunk(0, 1, "a\nb")


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with a_store(request, tmp_path, gateway=HERE) as opened:
        yield opened


def a_response(*, background: bool = True) -> StoredResponse:
    return StoredResponse(
        id=new_id("resp"),
        principal="ada",
        status="queued",
        previous_id=None,
        resource="{}",
        input="[]",
        owner=HERE,
        is_background=background,
    )


async def waiting(store: Store) -> tuple[Run, str]:
    """A response at work that waits for one call."""
    run = await store.write(partial(response_tx.begin_journaled, a_response(), request="{}"))
    call = a_pending_call()
    step = partial(
        response_tx.record_step, run, n=1, message="{}", calls={0: call}, chunk=FIRST, tokens=Tokens(input=3, output=1)
    )
    assert await store.write(step) is not None
    return run, call.id


async def taken(store: Store, run_id: str) -> TakenResponse | None:
    return await store.write(partial(response_tx.claim, run_id, owner=THERE))


def ending(status: str, *, at: int = 2) -> Ending:
    return Ending(status=status, resource="{}", output="[]", chunks=(EventChunk(at, at + 1, "x\ny"),))


def as_if_reopened(_stored: StoredResponse, last: EventChunk) -> tuple[str, EventChunk]:
    return '{"again": 1}', EventChunk(last.first, last.last, "p\nq")


@requirement("RUN-responses-limit")
async def test_a_queued_response_is_taken_once_with_all_that_is_on_record(store: Store) -> None:
    response = a_response()
    run = await store.write(partial(response_tx.queue_response, response, request='{"body": 1}', chunk=FIRST))
    assert (run.status, run.owner) == ("queued", None)
    mine = await taken(store, run.id)
    assert mine is not None
    assert (mine.run.owner, mine.stored.owner, mine.chunks, mine.steps) == (THERE, THERE, (FIRST,), ())
    assert await taken(store, run.id) is None


@requirement("RUN-responses-park")
async def test_a_parked_response_is_taken_when_it_was_answered_and_not_before(store: Store) -> None:
    run, call_id = await waiting(store)
    assert await store.write(partial(response_tx.park_response, run, EventChunk(2, 2, "c")))
    stored = await store.read(partial(response_tx.get_response, run.id))
    assert stored is not None
    assert (stored.is_parked, stored.is_orphan, stored.is_finished) == (True, False, False)
    assert await taken(store, run.id) is None
    answer = partial(call_tx.settle_submitted, call_id, done(1), large_result=store.large_result)
    assert (await store.write(answer)).moved
    mine = await taken(store, run.id)
    assert mine is not None
    assert [call.status.value for step in mine.steps for call in step.calls] == ["completed"]
    assert [chunk.first for chunk in mine.chunks] == [0, 2]
    assert (mine.run.input_tokens, mine.run.output_tokens) == (3, 1)
    with pytest.raises(Fenced):
        await store.write(partial(response_tx.park_response, run, None))


@requirement("RUN-responses-cancel")
async def test_a_response_that_is_to_be_stopped_is_not_parked_and_a_parked_one_can_be_seized(store: Store) -> None:
    run, _ = await waiting(store)
    assert await store.write(partial(response_tx.seize, run.id, owner=THERE)) is None
    assert await store.write(partial(response_tx.want_stopped, run.id))
    assert not await store.write(partial(response_tx.park_response, run, None))
    other, _ = await waiting(store)
    assert await store.write(partial(response_tx.park_response, other, None))
    mine = await store.write(partial(response_tx.seize, other.id, owner=THERE))
    assert mine is not None
    assert await store.write(partial(response_tx.settle_journaled, mine.run, ending("cancelled")))
    assert not await store.write(partial(response_tx.settle_journaled, other, ending("completed")))
    assert len(await store.read(partial(run_tx.open_calls, other.id))) == 1


@requirement("RUN-responses-resume")
async def test_a_response_that_failed_is_opened_again_with_its_numbers_and_in_the_background(store: Store) -> None:
    response = a_response(background=False)
    run = await store.write(partial(response_tx.begin_journaled, response, request="{}"))
    await store.write(partial(response_tx.append_journaled, run, FIRST))
    resume = partial(response_tx.resume, run.id, reopened=as_if_reopened)
    assert await store.write(resume) is None, "it has not failed"
    assert await store.write(partial(response_tx.settle_journaled, run, ending("failed"), reason="It broke."))
    failed = await store.read(partial(run_tx.get_run, run.id))
    assert failed is not None
    assert (failed.status, failed.reason) == ("failed", "It broke.")
    resumed = await store.write(resume)
    assert resumed is not None
    assert (resumed.status, resumed.owner) == ("ready", None)
    stored = await store.read(partial(response_tx.get_response, run.id))
    assert stored is not None
    assert (stored.status, stored.resource, stored.is_background) == ("in_progress", '{"again": 1}', True)
    mine = await taken(store, run.id)
    assert mine is not None
    assert [(chunk.first, chunk.events) for chunk in mine.chunks] == [(0, "a\nb"), (2, "p\nq")]
    assert await store.write(partial(response_tx.settle_journaled, mine.run, ending("completed", at=4)))
    assert await store.write(resume) is None


@requirement("RUN-responses-resume")
async def test_the_stream_of_a_response_that_a_client_had_whole_is_not_kept(store: Store) -> None:
    run = await store.write(partial(response_tx.begin_journaled, a_response(background=False), request="{}"))
    await store.write(partial(response_tx.append_journaled, run, FIRST))
    last = Ending(status="completed", resource="{}", output="[]", forgets_events=True)
    assert await store.write(partial(response_tx.settle_journaled, run, last))
    assert await store.read(partial(response_tx.events_after, run.id, -1)) == []
