"""Every store shows a key its own calls and those for others whose tool fits its globs, and not many more."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.model.call import Call, CallStatus
from jackfield.store import Store, open_store
from jackfield.store import gateways as gateway_tx
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call

CALLS = {
    "own": a_call(principal="me", tool="add"),
    "run": a_call(principal="you", tool="ext_a"),
    "waiting": a_waiting_call(principal="you", tool="ext_a"),
    "pending": a_pending_call(principal="you", tool="ext_b"),
    "asking": a_call_for_approval(principal="you", tool="add"),
    "alike": a_waiting_call(principal="you", tool="extXa"),
    "odd": a_waiting_call(principal="you", tool="100%"),
}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    opened = open_store(url, folder=tmp_path, data=tmp_path)
    await opened.open()
    await opened.write(partial(gateway_tx.enter, "gw_a", is_shared=opened.is_shared))
    for call in CALLS.values():
        await opened.write(partial(call_tx.start_call, call))
    yield opened
    await opened.close()


async def seen(store: Store, *globs: str, status: tuple[CallStatus, ...] = ()) -> set[str]:
    wanted = CallFilter(principal="me", or_for_others_of=globs, status=status)
    page = await store.read(partial(call_page, wanted, limit=100))
    names = {call.id: name for name, call in CALLS.items()}
    return {names[call.id] for call in page.calls}


async def test_a_key_without_globs_sees_its_own_calls(store: Store) -> None:
    assert await seen(store) == {"own"}


@pytest.mark.parametrize(
    ("globs", "more"),
    [
        (("*",), {"waiting", "pending", "asking", "alike", "odd"}),
        (("ext_*",), {"waiting", "pending"}),
        (("ext?a",), {"waiting", "alike"}),
        (("ext_a", "add"), {"waiting", "asking"}),
        (("100%",), {"odd"}),
        (("1%",), set()),
        (("nothing", "*_b"), {"pending"}),
    ],
)
async def test_a_glob_shows_what_others_are_asked_and_never_what_ran_here(
    store: Store, globs: tuple[str, ...], more: set[str]
) -> None:
    assert await seen(store, *globs) == {"own"} | more


async def test_a_set_of_characters_shows_at_least_what_it_means(store: Store) -> None:
    assert await seen(store, "ext_[ab]") >= {"own", "waiting", "pending"}
    assert await seen(store, "ext_[!b]") >= {"own", "waiting"}
    assert "run" not in await seen(store, "ext_[ab]")


async def test_other_conditions_hold_for_both_kinds(store: Store) -> None:
    assert await seen(store, "*", status=(CallStatus.PENDING, CallStatus.PENDING_APPROVAL)) == {"pending", "asking"}


async def test_a_call_that_was_approved_and_runs_stays_visible(store: Store) -> None:
    asking: Call = CALLS["asking"]
    await store.write(partial(call_tx.approve, asking.id, runs_here=True))
    await store.write(partial(call_tx.claim, asking.id, owner="gw_a"))
    assert "asking" in await seen(store, "add")
