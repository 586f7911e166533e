"""What every store holds of responses and programs beside the moves that `test_runs_machine.py` plays."""

from functools import partial

from msgspec.structs import replace

from jackfield.calls import transactions as call_tx
from jackfield.calls.transactions import Moved
from jackfield.gateway.retention import prune
from jackfield.model.call import Call, Failed, done
from jackfield.model.ids import new_id
from jackfield.programs import transactions as program_tx
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Kind, Run, Tokens
from jackfield.store import Store
from jackfield.store.scripts import READY_TOPIC, Script
from tests.requirement import requirement
from tests.store.calls import a_call, a_pending_call
from tests.store.cycles import run

LONG_AGO = "call_000000000001aa"


async def queued(store: Store, principal: str = "ada", kind: Kind = "response", run_id: str | None = None) -> Run:
    script = partial(run_tx.queue_run, run_id or new_id("resp"), kind=kind, principal=principal, request="{}")
    return await store.write(script)


async def begun(store: Store, principal: str = "ada") -> Run:
    claimed = await store.write(partial(run_tx.claim, (await queued(store, principal)).id, owner="gw_a"))
    assert claimed is not None
    return claimed


async def answered(store: Store, call_id: str) -> None:
    settled = partial(call_tx.settle_submitted, call_id, done(1), large_result=store.large_result)
    assert (await store.write(settled)).moved


@requirement("RUN-journal")
async def test_the_last_answer_makes_a_parked_run_ready_and_wakes_who_claims_it(store: Store) -> None:
    held = await begun(store)
    calls = [a_pending_call(), a_pending_call()]
    assert await store.write(partial(run_tx.take_step, held, n=1, message="{}", calls=calls)) is not None
    parked = await store.write(partial(run_tx.park, held))
    assert parked is not None
    assert (parked.status, parked.owner, parked.awaited) == ("parked", None, 2)
    assert parked.parked_at is not None
    with store.bus.listen(f"{READY_TOPIC}response") as ready:
        await answered(store, calls[1].id)
        assert not ready.is_set()
        assert await store.write(partial(run_tx.claim, held.id, owner="gw_b")) is None
        await answered(store, calls[0].id)
        await ready.wait()
    taken = await store.write(partial(run_tx.claim, held.id, owner="gw_b"))
    assert taken is not None
    assert (taken.owner, taken.epoch, taken.awaited) == ("gw_b", held.epoch + 1, 0)
    told = await store.read(partial(run_tx.answered_calls, held.id))
    assert [call.id for call in told] == [calls[1].id, calls[0].id]
    assert await store.write(partial(run_tx.end, held, status="done")) is None


@requirement("RUN-fair")
async def test_of_what_can_be_claimed_each_principal_has_one_and_who_has_fewest_at_work_comes_first(
    store: Store,
) -> None:
    for _ in range(2):
        await begun(store, "ada")
    await begun(store, "bob")
    first = {name: (await queued(store, name, run_id=f"resp_1_{name}")).id for name in ("ada", "bob", "cleo")}
    for number, name in enumerate(("ada", "ada", "bob"), 2):
        await queued(store, name, run_id=f"resp_{number}_{name}")
    await queued(store, "dora", kind="program")
    found = await store.read(partial(run_tx.runs_to_claim, "response", limit=10))
    assert found == [first["cleo"], first["bob"], first["ada"]]
    assert await store.read(partial(run_tx.runs_to_claim, "response", limit=1)) == [first["cleo"]]


@requirement("RUN-journal")
async def test_a_step_is_on_record_with_its_time_and_what_it_cost(store: Store) -> None:
    held = await begun(store)
    tokens = Tokens(input=10, output=2)
    await store.write(partial(run_tx.take_step, held, n=1, message='"one"', calls=[a_call()], tokens=tokens))
    await store.write(partial(run_tx.take_step, held, n=2, message='"two"', tokens=tokens))
    journal = await store.read(partial(run_tx.read_journal, held.id))
    assert journal is not None
    assert [(step.n, step.message, len(step.calls)) for step in journal.steps] == [(1, '"one"', 1), (2, '"two"', 0)]
    assert all(step.created_at is not None for step in journal.steps)
    assert (journal.run.input_tokens, journal.run.output_tokens) == (20, 4)


@requirement("RUN-journal")
async def test_pruning_leaves_runs_that_are_not_over_and_their_calls(store: Store) -> None:
    held, over = await begun(store), await begun(store)
    await store.write(partial(run_tx.take_step, held, n=1, message="{}", calls=[a_pending_call(id=LONG_AGO)]))
    await answered(store, LONG_AGO)
    await store.write(partial(run_tx.take_step, over, n=1, message="{}"))
    await store.write(partial(run_tx.end, over, status="done"))
    await run(store, "UPDATE runs SET finished_at = 1 WHERE finished_at IS NOT NULL")
    await prune(store, keep_days=1)
    assert await store.read(partial(run_tx.get_run, over.id)) is None
    assert await store.read(partial(call_tx.get_call, LONG_AGO)) is not None
    assert len(await run(store, "SELECT n FROM steps")) == 1
    await store.write(partial(run_tx.end, held, status="done"))
    await prune(store, keep_days=1)
    assert await store.read(partial(call_tx.get_call, LONG_AGO)) is None


async def _began(store: Store) -> tuple[Run, Call]:
    """A run that this gateway executes, and its running call."""
    held, call = await begun(store), a_call()
    written = await store.write(partial(run_tx.take_step, held, n=0, message="{}", calls=[call]))
    assert written is not None
    return held, written[0]


def _both(run: Run, call: Call, *, then: str, large_result: int) -> Script[tuple[Moved, tuple[Call, ...] | None]]:
    settle = partial(call_tx.settle_executed, call.id, done(1), attempt=1, duration_ms=1.0, large_result=large_result)
    step = program_tx.NextStep(run=run, n=1, message="{}", calls=[a_call(id=then)])
    return program_tx.settle_and_take_step(settle, replace(call, answer=1), step)


@requirement("RUN-told-early")
async def test_an_outcome_and_the_step_that_followed_from_it_are_written_together(store: Store) -> None:
    held, call = await _began(store)
    then = new_id("call")
    moved, written = await store.write(partial(_both, held, call, then=then, large_result=store.large_result))
    assert moved == Moved(await store.read(partial(call_tx.get_call, call.id)), moved=True)
    assert written is not None
    journal = await store.read(partial(run_tx.read_journal, held.id))
    assert journal is not None
    assert [[call.status.value for call in step.calls] for step in journal.steps] == [["completed"], ["running"]]
    assert (journal.steps[0].calls[0].answer, journal.run.awaited) == (1, 1)


@requirement("RUN-told-early")
async def test_an_answer_that_was_not_the_next_one_after_all_is_numbered_as_it_came(store: Store) -> None:
    held, call = await _began(store)
    other = a_call()
    assert await store.write(partial(run_tx.take_step, held, n=1, message="{}", calls=[other])) is not None
    assert (await store.write(partial(call_tx.settle_cancelled, other.id, Failed("cancelled", "Stopped.")))).moved
    settle = partial(call_tx.settle_executed, call.id, done(1), attempt=1, duration_ms=1.0, large_result=0)
    step = program_tx.NextStep(run=held, n=2, message="{}")
    await store.write(partial(program_tx.settle_and_take_step, settle, replace(call, answer=1), step))
    told = await store.read(partial(run_tx.answered_calls, held.id))
    assert [(one.id, one.answer) for one in told] == [(other.id, 1), (call.id, 2)]


@requirement("RUN-told-early")
async def test_a_step_that_followed_from_an_outcome_that_is_not_so_is_not_written(store: Store) -> None:
    held, call = await _began(store)
    stopped = partial(call_tx.settle_cancelled, call.id, Failed("cancelled", "Stopped."))
    assert (await store.write(stopped)).moved
    then = new_id("call")
    moved, written = await store.write(partial(_both, held, call, then=then, large_result=store.large_result))
    assert not moved.moved
    assert written is None
    journal = await store.read(partial(run_tx.read_journal, held.id))
    assert journal is not None
    assert len(journal.steps) == 1
    assert await store.read(partial(call_tx.get_call, then)) is None


@requirement("RUN-told-early")
async def test_of_a_run_that_another_has_only_the_outcome_is_written(store: Store) -> None:
    held, call = await _began(store)
    fenced = replace(held, epoch=held.epoch - 1)
    moved, written = await store.write(
        partial(_both, fenced, call, then=new_id("call"), large_result=store.large_result)
    )
    assert moved.moved
    assert written is None
