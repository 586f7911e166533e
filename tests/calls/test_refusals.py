"""Every way to be refused leaves a record: what it was, why, how often; and a flood leaves few."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.audit.log import AuditLog
from jackfield.audit.transactions import AuditFilter, entries
from jackfield.audit.types import AuditEntry
from jackfield.calls.redaction import Redactor
from jackfield.calls.refusal_transactions import MOST_RECORDS, OTHER
from jackfield.calls.refusals import LONGEST_ARGUMENTS, WRITE_SECONDS, Refusals
from jackfield.calls.requests import CallRequest
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import Forbidden, InvalidArguments, RateLimited, Refused, ToolNotFound
from jackfield.model.call import Call, CallStatus, done
from jackfield.model.principal import Principal
from jackfield.sources.base import Invocation
from jackfield.store import Store
from tests.calls.harness import GUEST, OPS, FunctionSource, Harness, pipeline_harness
from tests.requirement import requirement

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
READER = Principal(name="reader", scopes=frozenset({"read"}))


async def _echo(invocation: Invocation) -> Any:
    return done(invocation.arguments)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    source = FunctionSource()
    source.offer("echo", _echo, input_schema=SCHEMA)
    async with pipeline_harness(source, tmp_path, secrets={"hunter2-secret"}) as made:
        yield made


def refusals_of(harness: Harness) -> Refusals:
    """Those of one more gateway on the same store, which writes into the same chain."""
    return Refusals(harness.store, redactor=Redactor(set), audit=AuditLog("gw_test"), tell=lambda _: None)


async def audited(store: Store) -> list[AuditEntry]:
    return await store.read(partial(entries, AuditFilter(action="call.refused"), limit=1000))


async def refused_calls(store: Store) -> list[Call]:
    """Every refused call, in no order: those of one millisecond have none."""
    page = await store.read(partial(call_page, CallFilter(status=(CallStatus.REFUSED,)), limit=1000))
    return page.calls


@requirement("OPS-REFUSAL-recorded")
async def test_each_refusal_is_on_record_with_its_reason_before_the_caller_hears_of_it(harness: Harness) -> None:
    refusals: list[tuple[type[Refused], dict[str, Any], str]] = [
        (ToolNotFound, {"tool": "ehco", "principal": GUEST, "arguments": {"n": 1}}, ""),
        (InvalidArguments, {"tool": "echo", "principal": GUEST, "arguments": {"n": "one"}}, "local"),
        (Forbidden, {"tool": "echo", "principal": READER, "arguments": {"n": 2}}, "local"),
    ]
    seen: set[str] = set()
    for kind, asked, source in refusals:
        with pytest.raises(kind):
            await harness.call(**asked)
        (last,) = (call for call in await refused_calls(harness.store) if call.id not in seen)
        seen.add(last.id)
        assert (last.tool, last.principal, last.source) == (asked["tool"], asked["principal"].name, source)
        assert (last.error and last.error.code, last.count) == (kind.code, 1)
        assert last.finished_at == last.created_at
    assert harness.pipeline.counters.refusals == {"tool_not_found": 1, "invalid_arguments": 1, "forbidden": 1}


@requirement("OPS-audit-refused")
async def test_a_refusal_is_in_the_audit_log_once_a_minute_with_its_reason_and_without_arguments(
    harness: Harness,
) -> None:
    for _ in range(3):
        with pytest.raises(ToolNotFound):
            await harness.call("ehco", {"password": "hunter2-secret"}, principal=GUEST)
    with pytest.raises(Forbidden):
        await harness.call("echo", principal=READER)
    calls = {call.tool: call for call in await refused_calls(harness.store)}
    found = {entry.actor: entry for entry in await audited(harness.store)}
    assert {actor: entry.subject for actor, entry in found.items()} == {
        GUEST.name: calls["ehco"].id,
        READER.name: calls["echo"].id,
    }
    refused = found[READER.name].after
    assert (refused["tool"], refused["source"], refused["code"]) == ("echo", "local", "forbidden")
    assert "hunter2" not in repr(found)


async def test_a_call_that_is_carried_out_leaves_no_refusal(harness: Harness) -> None:
    await harness.call("echo", {"n": 1})
    assert await refused_calls(harness.store) == []


@requirement("OPS-REFUSAL-recorded")
async def test_a_source_that_is_down_refuses_too(harness: Harness) -> None:
    async def down(_: Invocation) -> Any:
        raise RateLimited("Later.", retry_after=1)

    harness.source.offer("busy", down)
    await harness.source_registry.refresh("local")
    with pytest.raises(RateLimited):
        await harness.call("busy", principal=GUEST)
    (call,) = await refused_calls(harness.store)
    assert (call.tool, call.source, call.error and call.error.code) == ("busy", "local", "rate_limited")
    assert harness.pipeline.counters.refusals == {"rate_limited": 1}


@requirement("OPS-REFUSAL-arguments")
async def test_arguments_are_kept_bounded_and_without_secrets(harness: Harness) -> None:
    with pytest.raises(ToolNotFound):
        await harness.call("one", {"password": "hunter2-secret"}, principal=GUEST)
    with pytest.raises(ToolNotFound):
        await harness.call("two", {"text": "ü" * LONGEST_ARGUMENTS}, principal=GUEST)
    with pytest.raises(ToolNotFound):
        await harness.call("x" * 5_000 + "\n\0", principal=GUEST)
    one, two, three = sorted(await refused_calls(harness.store), key=lambda call: call.tool)
    assert b"hunter2" not in bytes(one.arguments)
    assert len(bytes(two.arguments)) < LONGEST_ARGUMENTS
    assert b'"truncated":true' in bytes(two.arguments)
    assert len(three.tool) < 300


@requirement("OPS-REFUSAL-run")
async def test_a_refused_call_takes_no_run_of_somebody_else(harness: Harness) -> None:
    """A run belongs to whoever made its first call, so a refusal must not be that."""
    with pytest.raises(ToolNotFound):
        await harness.call("nothing", principal=GUEST, run_id="run_1")
    (call,) = await refused_calls(harness.store)
    assert call.run_id != "run_1"


@requirement("OPS-REFUSAL-flood")
async def test_a_flood_of_the_same_refusal_is_one_record_and_a_few_writes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = _counting(harness.store, monkeypatch)
    refusals, began, times = refusals_of(harness), time.monotonic(), 100_000
    for number in range(times):
        await refusals.record(_request("nothing"), ToolNotFound("None."), find=lambda: None)
        if number % 1_000 == 0:
            await asyncio.sleep(0)
    await refusals.close()
    calls = await refused_calls(harness.store)
    minutes = 1 + int((time.monotonic() - began) / 60)
    assert len(calls) <= minutes
    assert len(await audited(harness.store)) == len(calls)
    assert sum(call.count for call in calls) == times
    assert len(written) <= 3 * minutes + (time.monotonic() - began) / WRITE_SECONDS


@requirement("OPS-REFUSAL-flood", "OPS-REFUSAL-hundred")
async def test_a_flood_of_invented_names_is_a_hundred_records(harness: Harness) -> None:
    began, times = time.monotonic(), 3_000
    for number in range(times):
        with pytest.raises(ToolNotFound):
            await harness.call(f"invented_{number}", principal=GUEST)
    await harness.executor.refusals.close()
    calls = await refused_calls(harness.store)
    minutes = 1 + int((time.monotonic() - began) / 60)
    assert len(calls) <= MOST_RECORDS * minutes
    assert sum(call.count for call in calls) == times
    assert OTHER in {call.tool for call in calls}
    assert len(await audited(harness.store)) == len(calls)
    assert harness.pipeline.counters.refusals == {"tool_not_found": times}


@requirement("OPS-REFUSAL-count")
async def test_repeats_are_written_without_anybody_asking_and_at_the_latest_on_the_way_down(harness: Harness) -> None:
    for _ in range(5):
        with pytest.raises(ToolNotFound):
            await harness.call("nothing", principal=GUEST)
    assert sum(call.count for call in await refused_calls(harness.store)) >= 1
    await harness.pipeline.close(grace=0.1)
    assert sum(call.count for call in await refused_calls(harness.store)) == 5


async def test_two_gateways_share_a_record(harness: Harness) -> None:
    here, there = (refusals_of(harness) for _ in range(2))
    for refusals in (here, there, here, there):
        await refusals.record(_request("nothing"), ToolNotFound("None."), find=lambda: None)
    for number in range(MOST_RECORDS + 5):
        refusals = here if number % 2 else there
        await refusals.record(_request(f"invented_{number}"), ToolNotFound("None."), find=lambda: None)
    await here.close()
    await there.close()
    calls = await refused_calls(harness.store)
    assert len(calls) == MOST_RECORDS
    assert sum(call.count for call in calls) == MOST_RECORDS + 9
    assert next(call.count for call in calls if call.tool == "nothing") == 4


@requirement("OPS-REFUSAL-recorded")
async def test_a_nested_call_that_is_refused_is_recorded_once(harness: Harness) -> None:
    async def nesting(invocation: Invocation) -> Any:
        return await harness.pipeline.call_from("nothing", {}, parent=invocation)

    harness.source.offer("nesting", nesting)
    await harness.source_registry.refresh("local")
    made = await harness.call("nesting", principal=OPS)
    (call,) = await refused_calls(harness.store)
    assert (call.tool, call.run_id, call.count) == ("nothing", made.run_id, 1)


def _request(tool: str) -> CallRequest:
    return CallRequest(tool=tool, arguments={}, principal=GUEST)


def _counting(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """The scripts that are written from now on."""
    written: list[Callable[[], Any]] = []
    write = store.write

    def counted(script: Callable[[], Any]) -> Any:
        written.append(script)
        return write(script)

    monkeypatch.setattr(store, "write", counted)
    return written
