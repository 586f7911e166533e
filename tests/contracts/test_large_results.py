"""Large results, in every store: kept apart once, with the settle that won; read whole and by pages; pruned."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from jackfield.agents.cycle_transactions import inbox_page
from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import result_page, whole_result
from jackfield.gateway.retention import prune
from jackfield.model.call import Call, Delivery, Done, Failed, done
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.store import Store, open_store, scripts
from jackfield.store.scripts import Sql
from tests.contracts.stores import KINDS, a_store
from tests.store.calls import a_call, a_pending_call, a_waiting_call, decoded

LIMIT = 2_000
VALUE = {"rows": ["ü€😀" * 10 for _ in range(500)]}
BODY = json.dumps(VALUE, ensure_ascii=False, separators=(",", ":")).encode()
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with a_store(request, tmp_path, large_result=LIMIT) as opened:
        yield opened


async def kept_apart(store: Store) -> list[str]:
    """The calls that have a result kept beside them."""
    every = Sql("every", "SELECT call_id FROM large_results ORDER BY call_id")
    return [str(row["call_id"]) for row in await store.read(partial(scripts.run, every))]


async def joined(store: Store, call: Call, *, limit: int) -> bytes:
    """The whole, read page by page."""
    texts, offset = [], 0
    while True:
        page = await result_page(store, call, offset=offset, limit=limit)
        assert (page.call_id, page.offset) == (call.id, offset)
        texts.append(page.text)
        if page.next_offset is None:
            return "".join(texts).encode()
        offset = page.next_offset


def told(call: Call | None) -> dict[str, Any]:
    """The small object in the call's row."""
    assert call is not None
    notice: dict[str, Any] = decoded(call.result)
    assert (notice["call_id"], notice["large_result"]) == (call.id, True)
    return notice


async def test_a_short_calls_large_result_is_kept_beside_its_row(store: Store) -> None:
    made = a_call()
    settled = await store.write(
        call_tx.SettledCall(made, done(VALUE), age_ms=1, duration_ms=1.5, large_result=store.large_result)
    )
    assert await store.read(partial(call_tx.get_call, made.id)) == settled
    notice = told(settled)
    assert (notice["size"], notice["digest"]) == (len(BODY), DIGEST)
    assert BODY.decode().startswith(notice["preview"])
    assert await whole_result(store, settled) == Raw(BODY)


async def test_an_executed_calls_large_result_is_kept_beside_its_row(store: Store) -> None:
    call = a_call()
    await store.write(partial(call_tx.start_call, call))
    moved = await store.write(
        partial(
            call_tx.settle_executed, call.id, done(VALUE), attempt=1, duration_ms=1.0, large_result=store.large_result
        )
    )
    assert moved.moved
    assert told(moved.call) == told(await store.read(partial(call_tx.get_call, call.id)))
    assert moved.call is not None
    assert moved.call.outcome == Done(moved.call.result or Raw(b""))
    assert await whole_result(store, moved.call) == Raw(BODY)


@pytest.mark.parametrize("limit", [4, 7, 1_000, len(BODY) - 1, len(BODY), 1_000_000])
async def test_pages_joined_are_the_text_that_the_digest_is_of(store: Store, limit: int) -> None:
    value = VALUE if limit > 7 else "ü€😀" * 300
    call = await store.write(
        call_tx.SettledCall(a_call(), done(value), age_ms=1, duration_ms=1.0, large_result=store.large_result)
    )
    page = await result_page(store, call, offset=0, limit=limit)
    body = await joined(store, call, limit=limit)
    assert json.loads(body) == value
    assert (page.size, page.digest) == (len(body), f"sha256:{hashlib.sha256(body).hexdigest()}")


async def test_past_the_end_there_is_nothing(store: Store) -> None:
    call = await store.write(
        call_tx.SettledCall(a_call(), done(VALUE), age_ms=1, duration_ms=1.0, large_result=store.large_result)
    )
    at_end = await result_page(store, call, offset=len(BODY), limit=10)
    assert (at_end.text, at_end.offset, at_end.next_offset, at_end.size) == ("", len(BODY), None, len(BODY))
    far = await result_page(store, call, offset=1_000_000_000, limit=1_000_000)
    assert (far.text, far.offset, far.next_offset) == ("", 1_000_000_000, None)


@pytest.mark.parametrize("value", [None, 0, "ü" * 999, "small", {"large_result": True}])
async def test_a_small_result_is_read_the_same_way_and_kept_in_its_row(store: Store, value: object) -> None:
    call = await store.write(
        call_tx.SettledCall(a_call(), done(value), age_ms=1, duration_ms=1.0, large_result=store.large_result)
    )
    assert decoded(call.result) == value
    assert json.loads(await joined(store, call, limit=10)) == value
    assert decoded(await whole_result(store, call)) == value
    assert await kept_apart(store) == []


async def test_a_result_that_imitates_a_notice_is_itself(store: Store) -> None:
    call = a_call()
    imitation = {"large_result": True, "call_id": call.id, "size": 5, "digest": "x", "preview": "", "url": "/"}
    settled = await store.write(
        call_tx.SettledCall(call, done(imitation), age_ms=1, duration_ms=1.0, large_result=store.large_result)
    )
    assert decoded(await whole_result(store, settled)) == imitation
    assert json.loads(await joined(store, settled, limit=1_000)) == imitation


async def test_the_inbox_gets_the_small_object(store: Store) -> None:
    call = a_pending_call(agent="ada")
    await store.write(partial(call_tx.start_call, call))
    moved = await store.write(
        partial(call_tx.settle_submitted, call.id, done(VALUE), answered_by="crm", large_result=store.large_result)
    )
    assert moved.call is not None
    assert moved.call.delivery is Delivery.INBOX
    [event], _ = await store.read(partial(inbox_page, "ada"))
    assert decoded(event.data)["result"] == told(moved.call)
    assert len(event.data) < 3_000


async def test_of_many_settlers_only_the_winners_result_is_kept(store: Store) -> None:
    call = a_waiting_call()
    await store.write(partial(call_tx.start_call, call))
    values = [str(number) * 3_000 for number in range(8)]
    answers = await asyncio.gather(
        *(
            store.write(partial(call_tx.settle_submitted, call.id, done(value), large_result=store.large_result))
            for value in values
        )
    )
    [winner] = [value for value, answer in zip(values, answers, strict=True) if answer.moved]
    assert await kept_apart(store) == [call.id]
    for answer in answers:
        assert answer.call is not None
        assert decoded(await whole_result(store, answer.call)) == winner


async def test_a_settle_that_came_too_late_keeps_nothing(store: Store) -> None:
    call = a_waiting_call()
    await store.write(partial(call_tx.start_call, call))
    await store.write(partial(call_tx.settle_submitted, call.id, done("first"), large_result=store.large_result))
    late = await store.write(partial(call_tx.settle_submitted, call.id, done(VALUE), large_result=store.large_result))
    assert not late.moved
    assert late.call is not None
    assert decoded(late.call.result) == "first"
    assert await kept_apart(store) == []


async def test_many_calls_at_once_large_and_small_are_each_as_they_were(store: Store) -> None:
    values = [str(number) * (LIMIT if number % 3 == 0 else 1) for number in range(60)]
    calls = await asyncio.gather(
        *(
            store.write(
                call_tx.SettledCall(a_call(), done(value), age_ms=1, duration_ms=1.0, large_result=store.large_result)
            )
            for value in values
        )
    )
    assert [decoded(await whole_result(store, call)) for call in calls] == values
    assert await kept_apart(store) == sorted(
        call.id for call, value in zip(calls, values, strict=True) if len(value) >= LIMIT
    )


async def test_a_failures_large_result_is_kept_too_and_its_words_stay(store: Store) -> None:
    call = a_call()
    await store.write(partial(call_tx.start_call, call))
    moved = await store.write(
        partial(
            call_tx.settle_executed,
            call.id,
            Failed("http_error", "HTTP 500: no", Raw(BODY)),
            attempt=1,
            duration_ms=1.0,
            large_result=store.large_result,
        )
    )
    assert moved.call is not None
    assert isinstance(moved.call.outcome, Failed)
    assert (moved.call.outcome.code, moved.call.outcome.message) == ("http_error", "HTTP 500: no")
    assert told(moved.call)["digest"] == DIGEST
    assert await joined(store, moved.call, limit=5_000) == BODY


async def test_pruning_takes_a_large_result_with_its_call(store: Store) -> None:
    old = a_call(id="call_000000000001aa")
    young = a_call()
    for call in (old, young):
        await store.write(
            call_tx.SettledCall(call, done(VALUE), age_ms=1, duration_ms=1.0, large_result=store.large_result)
        )
    assert await kept_apart(store) == [old.id, young.id]
    assert await prune(store, keep_days=30) == 1
    assert await kept_apart(store) == [young.id]


@pytest.mark.parametrize(("limit", "large"), [(LARGE_RESULT, True), (0, False)])
async def test_the_limit_is_a_megabyte_by_default_and_0_is_none(tmp_path: Path, limit: int, *, large: bool) -> None:
    store = open_store("memory:", folder=tmp_path, data=tmp_path, **({} if large else {"large_result": limit}))
    await store.open()
    try:
        for size in (1_000_000 - 2, 1_000_000 - 1):
            await store.write(
                call_tx.SettledCall(
                    a_call(), done("x" * size), age_ms=1, duration_ms=1.0, large_result=store.large_result
                )
            )
        assert len(await kept_apart(store)) == int(large)
    finally:
        await store.close()
