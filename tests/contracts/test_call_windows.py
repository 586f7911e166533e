"""Filters that no index answers alone are looked for a window at a time: nothing is missed, nothing comes twice."""

from functools import partial
from typing import Any

import pytest

from jackfield.calls import rows
from jackfield.calls.rows import CallFilter, call_page, call_window
from jackfield.model.call import Call, CallStatus
from jackfield.model.tool import CallKind
from jackfield.store import Store
from tests.harness.many_calls import insert_calls
from tests.requirement import requirement

COUNT = 450
FILTERS: list[dict[str, Any]] = [
    {},
    {"tool": "tool_1"},
    {"source": "rare"},
    {"source": "nowhere"},
    {"status": (CallStatus.FAILED,)},
    {"status": (CallStatus.FAILED,), "tool": "tool_2"},
    {"status": (CallStatus.FAILED, CallStatus.COMPLETED), "made_by": "cleo"},
    {"status": (CallStatus.PENDING, CallStatus.FAILED)},
    {"tool": "rare_tool", "made_by": "ada", "kind": CallKind.TOOL},
    {"kind": CallKind.PROMPT, "tool": "tool_1"},
    {"text": '"number":77'},
    {"text": "broke", "tool": "tool_2"},
    {"text": "nothing like it"},
    {"principal": "bob"},
    {"principal": "bob", "made_by": "ada"},
    {"principal": "bob", "or_for_others_of": ("*",), "tool": "tool_3"},
]


def matches(call: Call, wanted: dict[str, Any]) -> bool:
    """What each filter means, said once more in Python. None of these calls is for others."""
    texts = " ".join(
        (call.tool, bytes(call.arguments).decode(), str(call.result), call.error.message if call.error else "")
    )
    return (
        wanted.get("tool", call.tool) == call.tool
        and wanted.get("source", call.source) == call.source
        and wanted.get("made_by", call.principal) == call.principal
        and wanted.get("principal", call.principal) == call.principal
        and wanted.get("kind", call.kind) is call.kind
        and call.status in wanted.get("status", (call.status,))
        and wanted.get("text", "").lower() in texts.lower()
    )


@requirement("OPS-CALLS-windows")
async def test_every_filter_finds_all_calls_once_whatever_the_window(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await insert_calls(store, COUNT)
    every = (await store.read(partial(call_page, CallFilter(), limit=COUNT + 1))).calls
    assert len(every) == COUNT
    for window in (1, 7, 40, COUNT):
        monkeypatch.setattr(rows, "WINDOW", window)
        monkeypatch.setattr(rows, "TEXT_WINDOW", window)
        for wanted in FILTERS if window > 1 else FILTERS[:3]:
            found: list[str] = []
            cursor: str | None = None
            while True:
                page = await store.read(partial(call_window, CallFilter(**wanted), limit=13, cursor=cursor))
                assert len(page.calls) <= 13
                found += (call.id for call in page.calls)
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert found == [call.id for call in every if matches(call, wanted)], (window, wanted)


@requirement("OPS-CALLS-windows")
async def test_calls_are_found_by_their_ids_with_the_other_filters(store: Store) -> None:
    await insert_calls(store, 200)
    every = (await store.read(partial(call_page, CallFilter(), limit=200))).calls
    for count in (1, 10, 11, 100):
        ids = tuple(call.id for call in every[::2][:count])
        page = await store.read(partial(call_page, CallFilter(ids=ids), limit=200))
        assert tuple(call.id for call in page.calls) == ids
        failed = await store.read(partial(call_page, CallFilter(ids=ids, status=(CallStatus.FAILED,)), limit=200))
        assert {call.id for call in failed.calls} == {call.id for call in page.calls if call.error}
