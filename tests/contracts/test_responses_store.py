"""Responses, in every store: kept, settled once, linked into conversations, streamed again, pruned."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from jackfield.gateway.retention import prune
from jackfield.model.ids import new_id
from jackfield.responses import transactions as response_tx
from jackfield.responses.transactions import ConversationTurn, EventChunk, StoredResponse, stop_topic
from jackfield.store import Store
from tests.contracts.stores import KINDS, a_store
from tests.requirement import requirement

HERE = "gw_a"


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with a_store(request, tmp_path, gateway=HERE) as opened:
        yield opened


def a_response(response_id: str | None = None, *, previous: str | None = None, owner: str = HERE) -> StoredResponse:
    return StoredResponse(
        id=response_id or new_id("resp"),
        principal="ada",
        status="in_progress",
        previous_id=previous,
        resource='{"text": "a \\u0000 in it"}',
        input='["said"]',
        owner=owner,
        is_background=True,
    )


async def settle(store: Store, response: StoredResponse, *, output: str = '["told"]') -> bool:
    return await store.write(
        partial(response_tx.settle_response, response.id, status="completed", resource='{"done": 1}', output=output)
    )


async def test_a_response_is_given_back_as_it_was_kept(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))

    assert await store.read(partial(response_tx.get_response, response.id)) == response
    assert await store.read(partial(response_tx.get_response, "resp_other")) is None


@requirement("PROG-item-reference")
async def test_a_response_is_found_by_an_item_of_its_own_key(store: Store) -> None:
    for _ in range(3):
        await store.write(partial(response_tx.add_response, other := a_response()))
        await settle(store, other)
    response, item = a_response(), new_id("msg")
    await store.write(partial(response_tx.add_response, response))
    await settle(store, response, output=f'[{{"type":"message","id":"{item}"}}]')

    async def found(item_id: str, *, principal: str = "ada") -> ConversationTurn | None:
        return await store.read(
            partial(response_tx.response_with_item, item_id, principal=principal, within_ms=600_000)
        )

    assert await found(item) == ConversationTurn(response.id, None, '["said"]', f'[{{"type":"message","id":"{item}"}}]')
    assert await found(item, principal="bob") is None
    assert await found(new_id("msg")) is None
    assert await found("%") is None
    assert await found(f"msg_{0:028x}") is None, "made at another time"


async def test_a_response_is_settled_once(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))

    outcomes = await asyncio.gather(*(settle(store, response, output=f"[{number}]") for number in range(5)))

    assert sorted(outcomes) == [False, False, False, False, True]
    kept = await store.read(partial(response_tx.get_response, response.id))
    assert kept is not None
    assert (kept.status, kept.resource, kept.is_finished) == ("completed", '{"done": 1}', True)
    assert kept.output == f"[{outcomes.index(True)}]"


async def test_settling_wakes_whoever_waits_for_the_response(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))
    with store.bus.listen(response.id) as told:
        await settle(store, response)
        await asyncio.wait_for(told.wait(), 5)


async def test_a_conversation_is_all_turns_from_the_first(store: Store) -> None:
    first = a_response()
    second = a_response(previous=first.id)
    beside = a_response(previous=first.id)
    third = a_response(previous=second.id)
    for response in (first, second, beside, third):
        await store.write(partial(response_tx.add_response, response))
    await settle(store, first)

    assert await store.read(partial(response_tx.conversation, third.id)) == [
        ConversationTurn(first.id, None, '["said"]', '["told"]'),
        ConversationTurn(second.id, first.id, '["said"]', "[]"),
        ConversationTurn(third.id, second.id, '["said"]', "[]"),
    ]


async def test_a_conversation_with_a_deleted_turn_shows_where_it_breaks(store: Store) -> None:
    first = a_response()
    second = a_response(previous=first.id)
    for response in (first, second):
        await store.write(partial(response_tx.add_response, response))

    assert await store.write(partial(response_tx.delete_response, first.id)) is True

    assert await store.read(partial(response_tx.get_response, first.id)) is None
    assert await store.read(partial(response_tx.conversation, second.id)) == [
        ConversationTurn(second.id, first.id, '["said"]', "[]")
    ]
    assert await store.write(partial(response_tx.delete_response, first.id)) is False


async def test_who_wants_a_response_stopped_reaches_whoever_makes_it(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))
    with store.bus.listen(stop_topic(response.id)) as told:
        assert await store.write(partial(response_tx.want_stopped, response.id)) is True
        await asyncio.wait_for(told.wait(), 5)
    kept = await store.read(partial(response_tx.get_response, response.id))
    assert kept is not None
    assert kept.stop_wanted

    await settle(store, response)

    assert await store.write(partial(response_tx.want_stopped, response.id)) is False


async def test_a_stream_is_read_again_from_any_event(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))
    chunks = [EventChunk(0, 1, "a\nb"), EventChunk(2, 2, "c"), EventChunk(3, 5, "d\ne\nf")]
    for chunk in chunks[:2]:
        await store.write(partial(response_tx.append_events, response.id, chunk))
    await store.write(
        partial(
            response_tx.settle_response, response.id, status="failed", resource="{}", output="[]", last_events=chunks[2]
        )
    )

    assert await store.read(partial(response_tx.events_after, response.id, -1)) == chunks
    assert await store.read(partial(response_tx.events_after, response.id, 1)) == chunks[1:]
    assert await store.read(partial(response_tx.events_after, response.id, 4)) == chunks[2:]
    assert await store.read(partial(response_tx.events_after, response.id, 5)) == []


async def test_a_response_that_had_ended_gets_no_second_end_of_its_stream(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))
    await settle(store, response)

    late = await store.write(
        partial(
            response_tx.settle_response,
            response.id,
            status="failed",
            resource="{}",
            output="[]",
            last_events=EventChunk(0, 0, "a"),
        )
    )

    assert late is False
    assert await store.read(partial(response_tx.events_after, response.id, -1)) == []


async def test_deleting_a_response_deletes_its_stream(store: Store) -> None:
    response = a_response()
    await store.write(partial(response_tx.add_response, response))
    await store.write(partial(response_tx.append_events, response.id, EventChunk(0, 0, "a")))

    await store.write(partial(response_tx.delete_response, response.id))

    assert await store.read(partial(response_tx.events_after, response.id, -1)) == []


async def test_only_a_response_whose_gateway_is_gone_is_an_orphan(store: Store) -> None:
    ours, left, finished = a_response(), a_response(owner="gw_gone"), a_response(owner="gw_gone")
    for response in (ours, left, finished):
        await store.write(partial(response_tx.add_response, response))
    await settle(store, finished)

    kept = [await store.read(partial(response_tx.get_response, response.id)) for response in (ours, left, finished)]

    assert [response.is_orphan for response in kept if response is not None] == [False, True, False]


async def test_old_responses_are_pruned_with_their_streams_but_not_what_is_continued_or_being_made(
    store: Store,
) -> None:
    old, kept_by_child, running, orphan = (
        a_response(f"resp_00000000000{number}0000000000000000", owner=owner)
        for number, owner in enumerate((HERE, HERE, HERE, "gw_gone"))
    )
    child = a_response(previous=kept_by_child.id)
    for response in (old, kept_by_child, running, orphan, child):
        await store.write(partial(response_tx.add_response, response))
    for response in (old, kept_by_child, child):
        await settle(store, response)
    await store.write(partial(response_tx.append_events, old.id, EventChunk(0, 0, "a")))

    assert await prune(store, keep_days=1) == 2

    left = [
        await store.read(partial(response_tx.get_response, response.id))
        for response in (old, kept_by_child, running, orphan, child)
    ]
    assert [response is not None for response in left] == [False, True, True, False, True]
    assert await store.read(partial(response_tx.events_after, old.id, -1)) == []


async def test_a_long_conversation_is_read_whole(store: Store) -> None:
    before: str | None = None
    for number in range(300):
        response = a_response(f"resp_{number:012x}{0:016x}", previous=before)
        await store.write(partial(response_tx.add_response, response))
        before = response.id
    assert before is not None

    turns = await store.read(partial(response_tx.conversation, before))

    assert [turn.id for turn in turns] == [f"resp_{number:012x}{0:016x}" for number in range(300)]
