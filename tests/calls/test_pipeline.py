import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.recovery import Recovery
from jackfield.calls.requests import CallRequest
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import (
    AlreadyResolved,
    CallNotFound,
    Conflict,
    Forbidden,
    InvalidArguments,
    NotReady,
    RateLimited,
    RunNotFound,
    SourceUnavailable,
    ToolDisabled,
    ToolNotFound,
)
from jackfield.model.call import Call, CallError, CallStatus, Failed, Outcome, Pending, done
from jackfield.model.tool import Metadata
from jackfield.sources.base import ElicitAnswer, ElicitRequest, Invocation, Progress
from jackfield.sources.client import CallerClient
from tests.calls.harness import GUEST, OPS, FunctionSource, Harness, pipeline_harness, verification_of
from tests.requirement import requirement
from tests.sources.invocations import asking
from tests.store.calls import a_call
from tests.waiting import eventually_async

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def echo(invocation: Invocation) -> Outcome:
    return done(invocation.arguments)


class Gate:
    """A tool that waits until the test lets it go, and says when it began and how it ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.runs = 0

    async def __call__(self, _: Invocation) -> Outcome:
        self.runs += 1
        self.began.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return done("went through")


@pytest.fixture
def source() -> FunctionSource:
    made = FunctionSource()
    made.offer("echo", echo, input_schema=TEXT)
    return made


@pytest.fixture
async def harness(source: FunctionSource, tmp_path: Path) -> AsyncIterator[Harness]:
    async with pipeline_harness(source, tmp_path, secrets={"s3cret-value"}) as made:
        yield made


async def offer(harness: Harness, name: str, body: Any, **fields: Any) -> None:
    harness.source.offer(name, body, **fields)
    await harness.source_registry.refresh()


def result(call: Call) -> Any:
    assert call.result is not None
    return msgspec.json.decode(call.result)


async def call_with_status(harness: Harness, call_id: str, status: CallStatus) -> Call:
    async def found() -> Call | None:
        call = await harness.store.read(partial(call_tx.get_call, call_id))
        return call if call is not None and call.status is status else None

    return await eventually_async(found)


async def test_a_call_comes_back_settled_and_is_on_record(harness: Harness) -> None:
    call = await harness.call("echo", {"text": "hi"}, agent="ada")
    assert call.status is CallStatus.COMPLETED
    assert result(call) == {"text": "hi"}
    kept = await harness.store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept == call
    assert kept.principal == "ops"
    assert kept.agent == "ada"


async def test_an_unknown_tool_is_refused_and_that_is_on_record(harness: Harness) -> None:
    with pytest.raises(ToolNotFound):
        await harness.call("nothing")
    (call,) = (await harness.store.read(partial(call_page, CallFilter(), limit=10))).calls
    assert (call.tool, call.status) == ("nothing", CallStatus.REFUSED)


async def test_arguments_that_break_the_schema_never_reach_the_tool(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate, input_schema=TEXT)
    with pytest.raises(InvalidArguments) as refusal:
        await harness.call("gate", {"text": 3})
    assert [detail["path"] for detail in refusal.value.details] == ["text"]
    assert gate.runs == 0


async def test_a_failing_tool_is_an_outcome(harness: Harness) -> None:
    async def fail(invocation: Invocation) -> Outcome:
        return Failed("tool_error", "ValueError: no such city")

    await offer(harness, "fail", fail)
    call = await harness.call("fail")
    assert call.status is CallStatus.FAILED
    assert call.error is not None
    assert (call.error.code, call.error.message) == ("tool_error", "ValueError: no such city")


async def test_a_source_that_raises_is_a_failure_without_its_details(harness: Harness) -> None:
    async def broken(invocation: Invocation) -> Outcome:
        raise RuntimeError("/etc/secret path")

    await offer(harness, "broken", broken)
    call = await harness.call("broken")
    assert call.error is not None
    assert call.error.code == "tool_error"
    assert "/etc" not in call.error.message


async def test_a_source_that_leaves_a_call_pending_has_failed(harness: Harness) -> None:
    async def half(invocation: Invocation) -> Outcome:
        return Pending(CallStatus.PENDING)

    await offer(harness, "half", half)
    assert (await harness.call("half")).status is CallStatus.FAILED


async def test_a_hanging_tool_ends_at_its_deadline_and_is_stopped(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate, timeout_ms=80)
    call = await harness.call("gate")
    assert call.error is not None
    assert call.error.code == "timeout"
    assert result(call) == {"error": "Tool timed out after 80ms", "toolCallId": call.id}
    async with asyncio.timeout(5):
        await gate.cancelled.wait()


async def test_a_tool_that_will_not_be_stopped_still_ends_at_its_deadline(harness: Harness) -> None:
    release = asyncio.Event()

    async def stubborn(invocation: Invocation) -> Outcome:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return done("too late")

    await offer(harness, "stubborn", stubborn, timeout_ms=60)
    call = await harness.call("stubborn")
    assert call.error is not None
    assert call.error.code == "timeout"
    release.set()
    kept = await harness.store.read(partial(call_tx.get_call, call.id))
    assert kept == call


async def test_a_call_that_lasts_is_on_record_while_it_runs(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate)
    task = asyncio.create_task(harness.pipeline.call(request_for("gate"), call_id="call_long"))
    await gate.began.wait()
    running = await call_with_status(harness, "call_long", CallStatus.RUNNING)
    assert running.owner == "gw_test"
    gate.go.set()
    call = await task
    assert result(call) == "went through"
    assert (await harness.store.read(partial(call_page, CallFilter(tool="gate"), limit=9))).calls == [call]


async def test_a_caller_that_goes_away_does_not_take_the_call_with_it(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate)
    task = asyncio.create_task(harness.pipeline.call(request_for("gate"), call_id="call_abandoned"))
    await gate.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.go.set()
    call = await call_with_status(harness, "call_abandoned", CallStatus.COMPLETED)
    assert result(call) == "went through"
    assert gate.runs == 1


def request_for(tool: str, **fields: Any) -> CallRequest:
    return CallRequest(tool=tool, arguments={}, **({"principal": OPS} | fields))


@pytest.mark.parametrize("recorded_first", [False, True])
async def test_cancel_stops_the_tool_and_settles_the_call(harness: Harness, *, recorded_first: bool) -> None:
    gate = Gate()
    await offer(harness, "gate", gate)
    task = asyncio.create_task(harness.pipeline.call(request_for("gate"), call_id="call_c"))
    await gate.began.wait()
    if recorded_first:
        await call_with_status(harness, "call_c", CallStatus.RUNNING)
    cancelled = await harness.pipeline.cancel("call_c", principal=OPS)
    assert cancelled.status is CallStatus.CANCELLED
    assert (await task).status is CallStatus.CANCELLED
    assert gate.cancelled.is_set()
    with pytest.raises(AlreadyResolved):
        await harness.pipeline.cancel("call_c", principal=OPS)


async def test_only_its_own_principal_or_an_admin_cancels_a_call(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate)
    task = asyncio.create_task(harness.pipeline.call(request_for("gate"), call_id="call_c"))
    await gate.began.wait()
    with pytest.raises(CallNotFound):
        await harness.pipeline.cancel("call_c", principal=GUEST)
    gate.go.set()
    assert (await task).status is CallStatus.COMPLETED


async def test_a_tool_that_needs_approval_waits_on_record_and_does_not_run(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "pay", gate, metadata=Metadata(requires_approval=True))
    call = await harness.call("pay")
    assert call.status is CallStatus.PENDING_APPROVAL
    assert call.expires_at is not None
    assert gate.runs == 0
    assert await harness.store.read(partial(call_tx.get_call, call.id)) == call
    assert (await harness.pipeline.cancel(call.id, principal=OPS)).status is CallStatus.CANCELLED


async def test_a_switched_off_tool_is_refused(harness: Harness) -> None:
    await offer(harness, "off", echo, metadata=Metadata(enabled_by_default=False))
    with pytest.raises(ToolDisabled):
        await harness.call("off")


async def test_calls_past_the_limit_are_refused_and_the_refused_ones_do_not_count(harness: Harness) -> None:
    await offer(harness, "rare", echo, metadata=Metadata(rate_limit_per_minute=2))
    assert (await harness.call("rare")).status is CallStatus.COMPLETED
    assert (await harness.call("rare")).status is CallStatus.COMPLETED
    with pytest.raises(RateLimited) as refusal:
        await harness.call("rare")
    assert 0 < refusal.value.retry_after <= 60
    made = CallFilter(tool="rare", status=(CallStatus.COMPLETED,))
    assert len((await harness.store.read(partial(call_page, made, limit=9))).calls) == 2


async def test_a_visible_tool_called_by_an_agent_without_a_space_is_told_what_to_do(harness: Harness) -> None:
    await offer(harness, "show", echo, visible=True)
    call = await harness.call("show", agent="ada")
    assert call.status is CallStatus.FAILED
    assert result(call) == {"error": 'Tool "show" is visible but you are not in a space. Call enter_space first.'}
    assert (await harness.call("show", agent="ada", space_id="lobby")).status is CallStatus.COMPLETED
    assert (await harness.call("show")).status is CallStatus.COMPLETED


async def test_a_result_that_breaks_the_tools_own_output_schema_is_a_failure(harness: Harness) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def answer(invocation: Invocation) -> Outcome:
        return done({"n": invocation.arguments.get("n", "three")})

    await offer(harness, "count", answer, output_schema=schema)
    bad = await harness.call("count")
    assert bad.error is not None
    assert bad.error.code == "bad_result"
    assert result(await harness.call("count", {"n": 3})) == {"n": 3}


async def test_a_secret_in_a_result_or_an_error_is_redacted(harness: Harness) -> None:
    async def leak(invocation: Invocation) -> Outcome:
        if invocation.arguments:
            return Failed("tool_error", "bad key s3cret-value")
        return done({"key": "s3cret-value", "n": 1})

    await offer(harness, "leak", leak)
    assert result(await harness.call("leak")) == {"key": "[redacted]", "n": 1}
    failed = await harness.call("leak", {"x": 1})
    assert failed.error is not None
    assert failed.error.message == "bad key [redacted]"


async def test_a_secret_in_a_refusal_in_progress_or_in_a_question_is_redacted(harness: Harness) -> None:
    asked: list[str] = []

    async def elicit(question: ElicitRequest) -> ElicitAnswer:
        asked.append(question.message)
        return ElicitAnswer(action="decline")

    async def leak(invocation: Invocation) -> Outcome:
        invocation.report(Progress(progress=1, message="with s3cret-value"))
        await invocation.elicit(ElicitRequest(message="Is s3cret-value right?"))
        raise SourceUnavailable("The server says: s3cret-value is wrong.")

    await offer(harness, "leak", leak)
    async with harness.pipeline.events.follow(None) as events:
        with pytest.raises(SourceUnavailable) as refused:
            await harness.call("leak", client=CallerClient(capabilities={"elicitation": {}}, ask=asking(elicit)))
        told = [await anext(events) for _ in range(2)]
    assert refused.value.message == "The server says: [redacted] is wrong."
    assert [event.progress.message for event in told if event.progress is not None] == ["with [redacted]"]
    assert asked == ["Is [redacted] right?"]


async def test_an_idempotency_key_runs_the_tool_once(harness: Harness) -> None:
    gate = Gate()
    gate.go.set()
    await offer(harness, "gate", gate)
    first = await harness.call("gate", idempotency_key="k", digest="d")
    again = await harness.call("gate", idempotency_key="k", digest="d")
    assert again == first
    assert gate.runs == 1
    with pytest.raises(Conflict):
        await harness.call("gate", idempotency_key="k", digest="other")


async def test_a_repeat_that_comes_while_the_first_runs_waits_for_its_outcome(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate)
    first = asyncio.create_task(harness.call("gate", idempotency_key="k", digest="d"))
    await gate.began.wait()
    second = asyncio.create_task(harness.call("gate", idempotency_key="k", digest="d"))
    gate.go.set()
    assert (await first).id == (await second).id
    assert result(await second) == "went through"
    assert gate.runs == 1


async def test_a_run_is_begun_by_a_call_and_joined_by_its_owner_only(harness: Harness) -> None:
    first = await harness.call("echo", {"text": "a"}, principal=GUEST)
    second = await harness.call("echo", {"text": "b"}, principal=GUEST, run_id=first.run_id)
    assert second.run_id == first.run_id
    other = msgspec.structs.replace(GUEST, name="other")
    with pytest.raises(Forbidden):
        await harness.call("echo", {"text": "c"}, principal=other, run_id=first.run_id)
    with pytest.raises(RunNotFound):
        await harness.call("echo", {"text": "c"}, run_id="run_unknown")


async def test_a_tool_calls_another_in_the_name_of_its_caller(harness: Harness) -> None:
    async def outer(invocation: Invocation) -> Outcome:
        return await harness.pipeline.call_from("echo", {"text": "from outer"}, parent=invocation)

    await offer(harness, "outer", outer)
    call = await harness.call("outer", principal=GUEST)
    assert result(call) == {"text": "from outer"}
    inner = (await harness.store.read(partial(call_page, CallFilter(tool="echo"), limit=9))).calls
    assert [(found.principal, found.run_id) for found in inner] == [("guest", call.run_id)]


async def test_a_tool_that_calls_itself_without_end_is_stopped(harness: Harness) -> None:
    async def mirror(invocation: Invocation) -> Outcome:
        return await harness.pipeline.call_from("mirror", {}, parent=invocation)

    await offer(harness, "mirror", mirror)
    call = await harness.call("mirror")
    assert call.error is not None
    assert call.error.code == "too_deep"
    assert len((await harness.store.read(partial(call_page, CallFilter(tool="mirror"), limit=99))).calls) == 17


async def test_progress_and_the_end_are_told_to_who_follows(harness: Harness) -> None:
    async def slow(invocation: Invocation) -> Outcome:
        invocation.report(Progress(progress=1, total=2, message="half"))
        return done("ok")

    await offer(harness, "slow", slow)
    async with harness.pipeline.events.follow("call_f") as events, asyncio.timeout(5):
        await harness.pipeline.call(request_for("slow"), call_id="call_f")
        seen = [await anext(events) for _ in range(3)]
    assert [event.type for event in seen] == ["call.started", "call.progress", "call.settled"]
    assert seen[1].progress == Progress(progress=1, total=2, message="half")
    assert seen[2].status is CallStatus.COMPLETED


async def test_a_source_takes_no_more_calls_at_once_than_it_says(tmp_path: Path) -> None:
    source = FunctionSource(max_concurrency=2)
    at_once, most = 0, 0

    async def counted(invocation: Invocation) -> Outcome:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.005)
        at_once -= 1
        return done(None)

    source.offer("counted", counted)
    async with pipeline_harness(source, tmp_path) as harness:
        calls = await asyncio.gather(*(harness.call("counted") for _ in range(12)))
    assert {call.status for call in calls} == {CallStatus.COMPLETED}
    assert most == 2


async def test_a_source_that_is_down_refuses_and_the_record_does_not_say_why_it_is_down(harness: Harness) -> None:
    """That may name paths of the machine; `/readyz` says it to who may know."""
    harness.source.fault = ConnectionError("no route")
    await harness.source_registry.refresh()
    with pytest.raises(SourceUnavailable, match="no route"):
        await harness.call("echo", {"text": "x"})
    (call,) = (await harness.store.read(partial(call_page, CallFilter(), limit=9))).calls
    assert (call.status, call.source) == (CallStatus.REFUSED, "local")
    assert call.error == CallError("source_unavailable", "Source 'local' was down. GET /readyz says how it is now.")


async def test_a_stopping_gateway_settles_what_runs_and_takes_no_more(harness: Harness) -> None:
    gate = Gate()
    await offer(harness, "gate", gate)
    task = asyncio.create_task(harness.call("gate"))
    await gate.began.wait()
    await harness.pipeline.close(grace=0.05)
    call = await task
    assert call.error is not None
    assert call.error.code == "interrupted"
    with pytest.raises(NotReady):
        await harness.call("echo", {"text": "x"})


@requirement("RUN-taken-up")
async def test_an_orphan_is_interrupted_unless_it_may_run_again(harness: Harness) -> None:
    gate = Gate()
    gate.go.set()
    await offer(harness, "gate", gate)
    entry = harness.catalog.entry("gate")
    assert entry is not None
    orphan = partial(a_call, tool="gate", owner="gw_dead", tool_version=entry.version)
    once = orphan()
    again = orphan(idempotent=True)
    tired = orphan(idempotent=True, attempt=3)
    gone = orphan(tool="no_such_tool", idempotent=True)
    changed = orphan(tool_version="another", idempotent=True)
    for call in (once, again, tired, gone, changed):
        await harness.store.write(partial(call_tx.start_call, call))
    sources_listed = asyncio.Event()
    recovery = Recovery(
        store=harness.store,
        catalog=harness.catalog,
        executor=harness.executor,
        verification=verification_of(harness),
        gateway_id="gw_test",
        sources_listed=sources_listed,
    )
    assert await recovery.recover() == 4, "a tool that is not there may still come"
    assert await recovery.recover() == 0
    kept = await harness.store.read(partial(call_tx.get_call, gone.id))
    assert kept is not None
    assert kept.status is CallStatus.RUNNING
    sources_listed.set()
    assert await recovery.recover() == 1
    repeated = await call_with_status(harness, again.id, CallStatus.COMPLETED)
    assert repeated.attempt == 2
    assert gate.runs == 1
    for call in (once, tired, gone, changed):
        kept = await harness.store.read(partial(call_tx.get_call, call.id))
        assert kept is not None
        assert kept.error is not None
        assert kept.error.code == "interrupted"


@requirement("SAFE-mcp-programs")
async def test_what_is_required_and_has_a_default_is_filled_in_and_on_record_so(harness: Harness) -> None:
    inner = {"type": "object", "properties": {"deep": {"default": 1}}, "required": ["deep"]}
    properties = {"unit": {"type": "string", "default": "C"}, "city": {"type": "string"}, "other": {"default": 5}}
    schema = {"type": "object", "properties": {**properties, "inner": inner}, "required": ["unit", "city"]}
    harness.source.offer("weather", echo, input_schema=schema)
    await harness.source_registry.refresh()
    call = await harness.call("weather", {"city": "Rome", "inner": {}})
    filled = {"city": "Rome", "unit": "C", "inner": {"deep": 1}}
    assert msgspec.json.decode(call.arguments) == filled
    assert msgspec.json.decode(call.result or b"null") == filled
    with pytest.raises(InvalidArguments, match="city"):
        await harness.call("weather", {})
