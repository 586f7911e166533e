"""Rollups, in every store: each call that has ended counts once, whichever gateway counts it and when."""

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec import Raw

from jackfield.calls import refusal_transactions as refusal_tx
from jackfield.calls import transactions as call_tx
from jackfield.model.call import Call, CallError, CallStatus, Done, Failed, done
from jackfield.model.ids import new_id
from jackfield.overview import transactions as overview_tx
from jackfield.overview.rollups import HOUR_MS, MINUTE_MS, MOST_NAMES, OTHER, UNKNOWN
from jackfield.overview.service import Overview
from jackfield.overview.transactions import One
from jackfield.store import Store, scripts
from jackfield.store.scripts import Sql
from tests.requirement import requirement

STORED = Sql("stored", "SELECT * FROM rollups")
AGE = Sql("age", "UPDATE calls SET created_at = created_at - :by, finished_at = finished_at - :by RETURNING id")


async def call(store: Store, tool: str = "echo", outcome: Done | Failed | None = None, *, took: float = 10.0) -> str:
    made = Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool=tool,
        source="local",
        tool_version="1",
        arguments=Raw(b"{}"),
        principal="ops",
        status=CallStatus.RUNNING,
        agent="ada" if tool == "echo" else None,
        attempt=1,
        owner="gw_a",
    )
    script = call_tx.SettledCall(made, outcome or done(1), age_ms=0, duration_ms=took, large_result=0)
    await store.write(script)
    return made.id


async def refuse(store: Store, tool: str, *, more: int) -> None:
    made = Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool=tool,
        source="",
        tool_version="",
        arguments=Raw(b"{}"),
        principal="guest",
        status=CallStatus.REFUSED,
        error=CallError("tool_not_found", "There is none."),
        attempt=1,
    )
    await store.write(partial(refusal_tx.refuse, made, more=more))


async def stored(store: Store) -> Sequence[scripts.Row]:
    return await store.read(partial(scripts.run, STORED))


async def age(store: Store, milliseconds: int) -> None:
    await store.write(partial(scripts.run, AGE, by=milliseconds))


def counted(rows: Sequence[scripts.Row], dimension: str, *, span: int = MINUTE_MS) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        if (row["dimension"], row["span"]) == (dimension, span):
            key = (row["name"], row["outcome"])
            found[key] = found.get(key, 0) + row["calls"]
    return found


@requirement("CON-overview-rollups")
async def test_what_has_ended_counts_once_by_tool_source_key_and_agent(store: Store) -> None:
    for _ in range(3):
        await call(store)
    await call(store, "send", Failed("boom", "It broke."), took=100.0)
    await refuse(store, "invented", more=5)
    await age(store, 10 * MINUTE_MS)
    overview = Overview(store)
    await overview.roll_up()
    await overview.roll_up()
    rows = await stored(store)
    assert counted(rows, "all") == {("", "completed"): 3, ("", "failed"): 1, ("", "refused"): 5}
    assert counted(rows, "tool") == {("echo", "completed"): 3, ("send", "failed"): 1, (UNKNOWN, "refused"): 5}
    assert counted(rows, "source") == {("local", "completed"): 3, ("local", "failed"): 1, (UNKNOWN, "refused"): 5}
    assert counted(rows, "principal") == {("ops", "completed"): 3, ("ops", "failed"): 1, ("guest", "refused"): 5}
    assert counted(rows, "agent") == {("ada", "completed"): 3}


@requirement("CON-overview-rollups")
async def test_rolled_up_or_not_the_figures_are_the_same(store: Store) -> None:
    overview = Overview(store)
    for took in (8.0, 9.0, 10.0, 100.0):
        await call(store, took=took)
    await age(store, 3 * MINUTE_MS)
    await call(store, "send", Failed("boom", "It broke."), took=1000.0)
    before = await overview.summary(60)
    assert await stored(store) == []
    await overview.roll_up()
    assert counted(await stored(store), "all") == {("", "completed"): 4}
    after = await overview.summary(60)
    assert (after.total, after.by_name) == (before.total, before.by_name)
    assert after.total.outcomes == {"completed": 4, "failed": 1}
    assert after.total.error_rate == 0.2
    assert after.total.p50_ms is not None
    assert 8 <= after.total.p50_ms <= 12
    assert after.total.p95_ms is not None
    assert 700 <= after.total.p95_ms <= 1000
    assert sum(point.tally.calls for point in after.points) == 5
    assert [(one.name, one.source, one.tally.calls) for one in after.by_name["tool"]] == [
        ("echo", "local", 4),
        ("send", "local", 1),
    ]
    own = await overview.summary(60, only=One("principal", "ops"))
    assert (own.total, own.by_name) == (after.total, {})
    assert (await overview.summary(60, only=One("principal", "guest"))).total.calls == 0
    for only, count in ((One("tool", "echo"), 4), (One("tool", "send"), 1), (One("source", "local"), 5)):
        assert (await overview.summary(60, only=only)).total.calls == count, only


@requirement("CON-overview-rollups")
async def test_a_week_is_summed_from_hours_and_the_minutes_around_them(store: Store) -> None:
    overview = Overview(store)
    for hours in range(5):  # so that the first are five hours old, and the last one
        await call(store, f"tool_{hours}")
        await age(store, HOUR_MS)
    await overview.roll_up()
    rows = await stored(store)
    assert sum(counted(rows, "all").values()) == 5
    by_hours = counted(rows, "all", span=HOUR_MS)
    assert sum(by_hours.values()) == 4, "the hour of the last minute is still open"
    await call(store, "now")
    for minutes in (360, 1440, 10_080):
        summary = await overview.summary(minutes)
        assert summary.total.calls == 6, minutes
        assert len(summary.by_name["tool"]) == 6, minutes
        assert summary.is_complete


@requirement("CON-overview-rollups")
async def test_of_gateways_that_roll_up_at_once_one_writes_each_minute(store: Store) -> None:
    for _ in range(4):
        await call(store)
        await age(store, 3 * MINUTE_MS)
    await asyncio.gather(*(Overview(store).roll_up() for _ in range(3)))
    assert counted(await stored(store), "all") == {("", "completed"): 4}


@requirement("CON-overview-rollups")
async def test_a_gateway_that_dies_before_it_has_written_has_written_nothing(store: Store) -> None:
    await call(store)
    await age(store, 5 * MINUTE_MS)
    minute = await store.read(overview_tx.closed_minute)
    assert minute is not None
    await Overview(store).roll_up()  # the next one begins where the last one was
    assert not await store.write(partial(overview_tx.write_minute, minute))
    assert counted(await stored(store), "all") == {("", "completed"): 1}


@requirement("CON-overview-rollups")
async def test_what_may_still_change_is_not_rolled_up(store: Store) -> None:
    await call(store)
    await refuse(store, "invented", more=1)
    await Overview(store).roll_up()
    assert await stored(store) == []
    await refuse(store, "invented", more=2)
    assert (await Overview(store).summary(15)).total.outcomes == {"completed": 1, "refused": 3}


@requirement("CON-overview-rollups")
async def test_beyond_the_busiest_names_of_a_minute_the_rest_is_counted_together(store: Store) -> None:
    await asyncio.gather(*(call(store, f"tool_{number:03}") for number in range(MOST_NAMES + 20)))
    await store.write(partial(scripts.run, Sql("align", "UPDATE calls SET finished_at = 600000 RETURNING id")))
    await Overview(store).roll_up()
    by_tool = counted(await stored(store), "tool")
    assert len(by_tool) == MOST_NAMES + 1
    assert by_tool[OTHER, "completed"] == 20
