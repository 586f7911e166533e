"""Calls of which nobody knows whether they took effect, and the tool that can say so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.recovery import Recovery
from jackfield.calls.rows import CallFilter, call_page
from jackfield.calls.verification import Verification
from jackfield.model.call import Call, CallStatus, Failed, Outcome, done
from jackfield.model.principal import Principal
from jackfield.model.tool import ExecutionType, Metadata
from jackfield.sources.base import Invocation
from tests.calls.harness import GUEST, OPS, FunctionSource, Harness, pipeline_harness, verification_of
from tests.requirement import requirement
from tests.store.calls import a_call
from tests.waiting import eventually_async


class Bank:
    """A tool that moves money and may never answer, and one that knows whether it did."""

    def __init__(self) -> None:
        self.moved: list[int] = []
        self.hangs = False
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[], Outcome] = self.truth

    async def pay(self, invocation: Invocation) -> Outcome:
        self.moved.append(int(str(invocation.arguments["amount"])))
        if self.hangs:
            await asyncio.sleep(60)
        return done({"paid": True})

    async def lose(self, _invocation: Invocation) -> Outcome:
        await asyncio.sleep(60)
        return done(None)

    async def was_it_paid(self, invocation: Invocation) -> Outcome:
        self.asked.append(dict(invocation.arguments))
        return self.answer()

    def truth(self) -> Outcome:
        return done({"happened": True, "result": {"paid": True}} if self.moved else {"happened": False})


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
async def harness(tmp_path: Path, bank: Bank) -> AsyncIterator[Harness]:
    source, verified = FunctionSource(), Metadata(verify="was_it_paid")
    source.offer("pay", bank.pay, timeout_ms=100, metadata=verified)
    source.offer("pay_again", bank.pay, timeout_ms=100, metadata=Metadata(verify="was_it_paid", idempotent=True))
    source.offer("lose", bank.lose, timeout_ms=100, metadata=verified)
    source.offer("was_it_paid", bank.was_it_paid, metadata=verified)
    async with pipeline_harness(source, tmp_path) as made:
        yield made


@pytest.fixture
async def verification(harness: Harness) -> AsyncIterator[Verification]:
    principals = {one.name: one for one in (OPS, GUEST)}
    made = verification_of(harness, principals.get)
    yield made
    await made.close()


async def settled(harness: Harness, call_id: str) -> Call:
    async def is_over() -> bool:
        call = await harness.store.read(partial(call_tx.get_call, call_id))
        return call is not None and call.status.is_final

    await eventually_async(is_over)
    call = await harness.store.read(partial(call_tx.get_call, call_id))
    assert call is not None
    return call


def error_of(call: Call) -> tuple[str, str]:
    assert call.error is not None
    return call.error.code, call.error.message


async def orphan(harness: Harness, **fields: Any) -> Call:
    """A call that a dead gateway was running."""
    entry = harness.catalog.entry(fields.get("tool", "pay"))
    assert entry is not None
    usual = {"tool": "pay", "tool_version": entry.version, "owner": "gw_dead", "verify": "was_it_paid"}
    call = a_call(**usual | fields)
    await harness.store.write(partial(call_tx.start_call, call))
    return call


async def recovered(harness: Harness, verification: Verification, call: Call) -> Call:
    recovery = Recovery(
        store=harness.store,
        catalog=harness.catalog,
        executor=harness.executor,
        verification=verification,
        gateway_id="gw_test",
        sources_listed=asyncio.Event(),
    )
    assert await recovery.recover() == 1
    return await settled(harness, call.id)


@requirement("RUN-verify-timeout")
@pytest.mark.usefixtures("verification")
async def test_after_a_timeout_the_tool_that_knows_is_asked_and_its_answer_is_the_result(
    harness: Harness, bank: Bank
) -> None:
    bank.hangs = True
    call = await harness.call("pay", {"amount": 5}, run_id="run_shop", begins_run=True)
    assert (call.status, msgspec.json.decode(call.result or b"")) == (CallStatus.COMPLETED, {"paid": True})
    assert bank.asked == [{"call_id": call.id, "arguments": {"amount": 5}}]
    assert (call.attempt, call.verifying) == (2, "timeout")
    asked = await harness.store.read(partial(call_tx.get_call, call.verified_by or ""))
    assert asked is not None
    assert (asked.tool, asked.run_id, asked.principal) == ("was_it_paid", call.run_id, call.principal)
    assert asked.verify is None
    assert bank.moved == [5]


@requirement("RUN-verify-timeout")
@pytest.mark.usefixtures("verification")
async def test_a_call_that_did_not_happen_failed_says_so_and_is_not_made_again(harness: Harness, bank: Bank) -> None:
    call = await harness.call("lose")
    code, message = error_of(call)
    assert code == "timeout"
    assert "It did not take effect" in message
    assert msgspec.json.decode(call.result or b"")["happened"] is False
    assert call.verified_by is not None
    assert len(bank.asked) == 1


@requirement("RUN-verify-crash")
@pytest.mark.parametrize("happened", [True, False])
async def test_after_a_crash_the_tool_that_knows_is_asked(
    harness: Harness, verification: Verification, bank: Bank, *, happened: bool
) -> None:
    bank.moved = [5] if happened else []
    call = await recovered(harness, verification, await orphan(harness, principal="guest"))
    asked = await harness.store.read(partial(call_tx.get_call, call.verified_by or ""))
    assert asked is not None
    assert asked.principal == "guest"
    if happened:
        assert msgspec.json.decode(call.result or b"") == {"paid": True}
    else:
        code, message = error_of(call)
        assert code == "interrupted"
        assert "It did not take effect" in message
    assert bank.moved == ([5] if happened else [])


@requirement("RUN-verify-crash")
async def test_an_idempotent_call_runs_again_and_nobody_is_asked(
    harness: Harness, verification: Verification, bank: Bank
) -> None:
    orphaned = await orphan(harness, tool="pay_again", idempotent=True, arguments=msgspec.Raw(b'{"amount":7}'))
    call = await recovered(harness, verification, orphaned)
    assert (call.status, call.attempt, bank.moved, bank.asked) == (CallStatus.COMPLETED, 2, [7], [])


@requirement("RUN-verify-crash")
async def test_a_call_is_asked_about_three_times_at_most(
    harness: Harness, verification: Verification, bank: Bank
) -> None:
    call = await orphan(harness)
    for attempt in (1, 2, 3):
        moved = await harness.store.write(
            partial(call_tx.take_to_verify, call.id, owner=f"gw_dead_{attempt}", seen=attempt, why="timeout", left_ms=1)
        )
        assert moved.moved
    over = await recovered(harness, verification, call)
    assert error_of(over)[0] == "interrupted"
    assert bank.asked == []


def _failing() -> Outcome:
    return Failed("tool_error", "The ledger is closed.")


@requirement("RUN-verify-unknown")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (_failing, "It failed: The ledger is closed."),
        (lambda: done("yes"), 'Its answer is not {"happened"'),
        (lambda: done({"happened": "yes"}), 'Its answer is not {"happened"'),
        (lambda: done(None), 'Its answer is not {"happened"'),
    ],
)
@pytest.mark.usefixtures("verification")
async def test_an_answer_that_says_nothing_leaves_the_call_interrupted(
    harness: Harness, bank: Bank, answer: Callable[[], Outcome], why: str
) -> None:
    bank.answer = answer
    call = await harness.call("lose")
    code, message = error_of(call)
    assert code == "interrupted"
    assert why in message
    assert "Check before you call it again." in message
    assert call.verified_by is None


async def _offer_check(harness: Harness, bank: Bank, **fields: Any) -> None:
    harness.source.offer("check", bank.was_it_paid, **fields)
    harness.source.offer("lose", bank.lose, timeout_ms=100, metadata=Metadata(verify="check"))
    await harness.source_registry.refresh()


@requirement("RUN-verify-unknown")
@pytest.mark.usefixtures("verification")
async def test_a_tool_that_needs_an_approval_is_not_asked(harness: Harness, bank: Bank) -> None:
    await _offer_check(harness, bank, metadata=Metadata(requires_approval=True))
    code, message = error_of(await harness.call("lose"))
    assert code == "interrupted"
    assert "A call of 'check' needs an approval" in message
    assert bank.asked == []
    page = await harness.store.read(partial(call_page, CallFilter(tool="check"), limit=5))
    assert [call.status for call in page.calls] == [CallStatus.REFUSED]


@requirement("RUN-verify-unknown")
@pytest.mark.usefixtures("verification")
async def test_a_tool_that_somebody_else_answers_is_not_asked(harness: Harness, bank: Bank) -> None:
    await _offer_check(harness, bank, execution_type=ExecutionType.EXTERNAL)
    assert "'check' is answered by somebody else" in error_of(await harness.call("lose"))[1]


@requirement("RUN-verify-unknown")
@pytest.mark.usefixtures("verification")
async def test_a_tool_that_is_not_there_is_named(harness: Harness, bank: Bank) -> None:
    harness.source.offer("lose", bank.lose, timeout_ms=100, metadata=Metadata(verify="was_it_payed"))
    await harness.source_registry.refresh()
    code, message = error_of(await harness.call("lose"))
    assert code == "interrupted"
    assert "'was_it_payed'" in message


@requirement("RUN-verify-unknown")
async def test_a_caller_who_is_not_there_any_more_is_nobody_to_ask_for(
    harness: Harness, verification: Verification, bank: Bank
) -> None:
    call = await recovered(harness, verification, await orphan(harness, principal="gone"))
    assert "'gone', in whose name it would be asked, is not there any more" in error_of(call)[1]
    assert bank.asked == []


@requirement("RUN-verify-timeout")
@pytest.mark.usefixtures("verification")
async def test_a_result_that_breaks_the_tools_own_schema_is_none(harness: Harness, bank: Bank) -> None:
    schema = {"type": "object", "required": ["receipt"]}
    metadata = Metadata(verify="was_it_paid")
    harness.source.offer("pay", bank.pay, timeout_ms=100, metadata=metadata, output_schema=schema)
    await harness.source_registry.refresh()
    bank.hangs = True
    assert error_of(await harness.call("pay", {"amount": 5}))[0] == "bad_result"


@requirement("RUN-verify-timeout")
@pytest.mark.usefixtures("verification")
async def test_a_call_that_was_cancelled_while_it_was_asked_about_stays_cancelled(harness: Harness, bank: Bank) -> None:
    asking, go = asyncio.Event(), asyncio.Event()

    async def slow(_invocation: Invocation) -> Outcome:
        asking.set()
        await go.wait()
        return bank.truth()

    harness.source.offer("was_it_paid", slow)
    await harness.source_registry.refresh()
    making = asyncio.create_task(harness.call("lose"))
    await asking.wait()
    page = await harness.store.read(partial(call_page, CallFilter(tool="lose"), limit=1))
    await harness.pipeline.cancel(page.calls[0].id, principal=OPS)
    go.set()
    assert (await making).status is CallStatus.CANCELLED


@requirement("RUN-verify-crash")
async def test_a_gateway_that_stops_leaves_the_call_to_the_next(harness: Harness, bank: Bank) -> None:
    del bank
    harness.source.offer("slow", Bank().lose, metadata=Metadata(verify="was_it_paid"))
    await harness.source_registry.refresh()
    making = asyncio.create_task(harness.call("slow", principal=Principal(name="ops", scopes=frozenset({"admin"}))))

    async def is_running() -> bool:
        page = await harness.store.read(partial(call_page, CallFilter(tool="slow"), limit=1))
        return bool(page.calls)

    await eventually_async(is_running)
    await harness.pipeline.close(grace=0.05)
    left = await making
    assert (left.status, left.attempt, left.verify) == (CallStatus.RUNNING, 1, "was_it_paid")
