"""Filters of the list of calls, in every store: who made them, of which source, when, and a text in them."""

from functools import partial

import pytest
from msgspec import Raw

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.model.call import Call, Failed
from jackfield.store import Store, scripts
from jackfield.store.scripts import Sql
from tests.requirement import requirement
from tests.store.calls import a_call

CALLS = {
    "plain": a_call(principal="me", tool="add", source="one", arguments=Raw(b'{"text":"Say \\"Hi\\" at 100%"}')),
    "other": a_call(principal="you", tool="add_more", source="two", arguments=Raw('{"text":"Übung"}'.encode())),
}


async def fill(store: Store) -> None:
    for call in CALLS.values():
        await store.write(partial(call_tx.start_call, call))


async def found(store: Store, **wanted: object) -> set[str]:
    page = await store.read(partial(call_page, CallFilter(**wanted), limit=100))  # type: ignore[arg-type]
    names = {call.id: name for name, call in CALLS.items()}
    return {names[call.id] for call in page.calls}


@requirement("OPS-CALLS-filters")
async def test_by_principal_and_source(store: Store) -> None:
    await fill(store)
    assert await found(store, made_by="me") == {"plain"}
    assert await found(store, source="two") == {"other"}
    assert await found(store, made_by="me", source="two") == set()
    assert await found(store, made_by="you", principal="me") == set()


@requirement("OPS-CALLS-filters")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ADD", {"plain", "other"}),
        ("add_", {"other"}),
        ('say "hi"', {"plain"}),
        ('"text":"say', {"plain"}),
        ("100%", {"plain"}),
        ("1%0", set()),
        ("Übung", {"other"}),
        ("nowhere", set()),
    ],
)
async def test_by_a_text_in_name_or_arguments(store: Store, text: str, names: set[str]) -> None:
    await fill(store)
    assert await found(store, text=text) == names


@requirement("OPS-CALLS-filters")
async def test_by_a_text_in_the_error(store: Store) -> None:
    await fill(store)
    over = Failed("boom", "The Kettle is broken.")
    await store.write(partial(call_tx.settle_cancelled, CALLS["plain"].id, over))
    assert await found(store, text="kettle") == {"plain"}


@requirement("OPS-CALLS-filters")
async def test_since_is_inclusive_and_until_exclusive(store: Store) -> None:
    await fill(store)
    at = await _created_at(store, CALLS["plain"])
    moved = Sql("move", "UPDATE calls SET created_at = :at WHERE id = :id RETURNING id")
    await store.write(partial(scripts.run, moved, at=at - 1000, id=CALLS["other"].id))
    assert await found(store, since=at) == {"plain"}
    assert await found(store, since=at - 1000) == {"plain", "other"}
    assert await found(store, until=at) == {"other"}
    assert await found(store, since=at - 1000, until=at + 1) == {"plain", "other"}
    assert await found(store, since=at + 1) == set()
    assert await found(store, until=0) == set()


async def _created_at(store: Store, call: Call) -> int:
    kept = await store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    return kept.created_at
