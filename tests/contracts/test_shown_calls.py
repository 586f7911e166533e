"""What every store holds of visible calls: one message in the space, changed in the transaction that moves the call."""

from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.agents.cycle_transactions import StepCall, abandon, commit, open_cycle
from jackfield.calls import transactions as call_tx
from jackfield.model.agent_state import Cycle
from jackfield.model.call import Call, CallStatus, Done, Failed, done
from jackfield.model.space import SpaceMessage, call_message_id
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.rows import HIDDEN_ERROR
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import WAKE
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call
from tests.store.cycles import RECORD, as_if_of, events_of, run, stepped, taken_over
from tests.store.spaces import a_space, kinds, metadata_of, said, told

SHOWN: dict[str, Any] = {"agent": "ada", "space_id": "lobby", "shown": "whole", "tool": "chart"}
ARGS = {"text": "hi"}


async def shown(store: Store, call_id: str) -> SpaceMessage:
    """The message of a visible call."""
    message = await store.read(partial(space_tx.get_message, call_message_id(call_id)))
    assert message is not None
    return message


def state_of(call: Call, status: str, *, result: object = None, **more: object) -> dict[str, object]:
    """The metadata that a call's message should have."""
    state = {"type": "tool_call", "toolCallId": call.id, "toolName": "chart", "args": ARGS, "result": result}
    return state | {"status": status, "runId": call.run_id} | more


def event_of(call: Call, **more: object) -> dict[str, object]:
    """The fields that each event of a call should have."""
    names = {"streamId": call.id, "runId": call.run_id, "agentEntityId": "ada", "toolName": "chart"}
    return names | more


async def test_a_visible_call_is_one_message_from_its_start_to_its_end(store: Store) -> None:
    await a_space(store, agents=("ada", "bob"))
    call = a_call(**SHOWN)
    await store.write(partial(call_tx.start_call, call))
    began = await shown(store, call.id)
    assert metadata_of(began) == state_of(call, "running")
    content = {"type": "tool_call", "toolName": "chart", "args": ARGS, "result": None, "status": "running"}
    assert msgspec.json.decode(began.content) == content
    assert (began.entity_id, began.sender_name, began.sender_type, began.role) == ("ada", "Ada", "agent", "assistant")
    assert began.run_id == call.run_id
    assert (
        await store.write(
            partial(
                call_tx.settle_executed,
                call.id,
                done({"ok": 1}),
                attempt=1,
                duration_ms=1.0,
                large_result=store.large_result,
            )
        )
    ).moved
    ended = await shown(store, call.id)
    assert metadata_of(ended) == state_of(call, "complete", result={"ok": 1})
    assert msgspec.json.decode(ended.content) == content | {"status": "complete", "result": {"ok": 1}}
    assert (ended.id, ended.seq, ended.created_at) == (began.id, began.seq, began.created_at)
    assert await store.read(partial(space_tx.messages, "lobby")) == [ended]
    events = await told(store)
    assert [kind for kind, _ in events] == ["tool.started", "space.message", "tool.done"]
    assert events[0][1] == event_of(call)
    assert events[1][1]["streamId"] == call.id
    assert events[1][1]["message"]["metadata"] == state_of(call, "running")
    assert events[2][1] == event_of(call, result={"ok": 1})
    assert await events_of(store, "bob") == []


@pytest.mark.parametrize(
    ("make", "fields", "status"),
    [
        (a_call, {}, "running"),
        (a_waiting_call, {"source": "external"}, "running"),
        (a_waiting_call, {"source": "space"}, "requires_action"),
        (a_pending_call, {}, "requires_action"),
        (a_call_for_approval, {}, "requires_action"),
    ],
)
async def test_a_message_says_whether_somebody_is_asked(store: Store, make: Any, fields: Any, status: str) -> None:
    await a_space(store)
    call = make(**SHOWN, **fields)
    await store.write(partial(call_tx.start_call, call))
    assert metadata_of(await shown(store, call.id))["status"] == status


@pytest.mark.parametrize(
    ("make", "settle"),
    [
        (a_call, lambda c, o: call_tx.settle_executed(c, o, attempt=1, duration_ms=1.0, large_result=0)),
        (a_waiting_call, lambda c, o: call_tx.settle_submitted(c, o, large_result=0)),
        (a_call_for_approval, lambda c, o: call_tx.settle_rejected(c, o, large_result=0)),
        (a_pending_call, call_tx.settle_cancelled),
        (lambda **f: a_pending_call(expires_in_ms=-1, **f), call_tx.settle_expired),
        (lambda **f: a_call(timeout_ms=-20_000, **f), call_tx.settle_overdue),
    ],
    ids=["executed", "submitted", "rejected", "cancelled", "expired", "overdue"],
)
async def test_however_a_call_fails_its_message_says_so_once(store: Store, make: Any, settle: Any) -> None:
    await a_space(store)
    call = make(**SHOWN)
    await store.write(partial(call_tx.start_call, call))
    failed = Failed("some_code", "It broke.", Raw(b'{"error":"It broke."}'))
    assert (await store.write(partial(settle, call.id, failed))).moved
    assert not (await store.write(partial(settle, call.id, failed))).moved
    expected = state_of(call, "error", result={"error": "It broke."}, error="It broke.")
    assert metadata_of(await shown(store, call.id)) == expected
    assert (await told(store))[2:] == [("tool.error", event_of(call, error="It broke."))]


@pytest.mark.parametrize(
    ("outcome", "result", "error"),
    [
        (done("secret"), {"hidden": True}, None),
        (Failed("tool_error", "secret", Raw(b'"secret"')), {"hidden": True}, HIDDEN_ERROR),
        (Failed("tool_error", "secret"), None, HIDDEN_ERROR),
        (Failed("timeout", "Tool timed out after 10ms"), None, "Tool timed out after 10ms"),
    ],
)
async def test_a_space_does_not_see_sensitive_output(
    store: Store, outcome: Done | Failed, result: object, error: str | None
) -> None:
    await a_space(store)
    call = a_call(**SHOWN | {"shown": "without_result"})
    await store.write(partial(call_tx.start_call, call))
    await store.write(
        partial(call_tx.settle_executed, call.id, outcome, attempt=1, duration_ms=1.0, large_result=store.large_result)
    )
    metadata = metadata_of(await shown(store, call.id))
    assert (metadata["result"], metadata.get("error")) == (result, error)
    for table in ("space_messages", "space_events"):
        assert "secret" not in str(await run(store, f"SELECT * FROM {table}"))
    kept = await store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept.outcome == outcome


async def test_a_short_call_is_shown_whole_in_its_only_write(store: Store) -> None:
    await a_space(store)
    call = a_call(**SHOWN)
    hidden = a_call(**SHOWN | {"shown": None})
    for one in (call, hidden):
        settled = await store.write(
            call_tx.SettledCall(one, done(7), age_ms=5, duration_ms=1.0, large_result=store.large_result)
        )
        kept = await store.read(partial(call_tx.get_call, one.id))
        assert kept is not None
        assert (settled.shown, kept.shown) == (one.shown, one.shown)
    assert metadata_of(await shown(store, call.id)) == state_of(call, "complete", result=7)
    assert await kinds(store) == ["tool.started", "space.message", "tool.done"]


async def test_a_result_that_is_kept_apart_is_not_copied_into_the_space(store: Store) -> None:
    store.large_result = 1_000
    await a_space(store)
    call = a_call(**SHOWN)
    await store.write(partial(call_tx.start_call, call))
    await store.write(
        partial(
            call_tx.settle_executed,
            call.id,
            done("x" * 5_000),
            attempt=1,
            duration_ms=1.0,
            large_result=store.large_result,
        )
    )
    assert len((await shown(store, call.id)).metadata) < 3_000


async def test_a_call_that_is_not_shown_or_whose_space_is_gone_is_moved_all_the_same(store: Store) -> None:
    await a_space(store)
    unseen = a_call(**SHOWN | {"shown": None})
    nowhere = a_call(**SHOWN | {"space_id": "nowhere"})
    lost = a_call(**SHOWN)
    for call in (unseen, nowhere, lost):
        await store.write(partial(call_tx.start_call, call))
    assert await kinds(store) == ["tool.started", "space.message"]
    await store.write(partial(space_tx.delete_space, "lobby"))
    for call in (unseen, nowhere, lost):
        moved = await store.write(
            partial(
                call_tx.settle_executed, call.id, done(1), attempt=1, duration_ms=1.0, large_result=store.large_result
            )
        )
        assert moved.moved
        assert moved.call is not None
        assert moved.call.status is CallStatus.COMPLETED
    assert await run(store, "SELECT * FROM space_messages") == []


async def test_settling_a_call_that_is_not_shown_asks_the_database_once(store: Store) -> None:
    calls = [a_call(**SHOWN | {"shown": seen}) for seen in (None, "whole")]
    statements = []
    for call in calls:
        await store.write(partial(call_tx.start_call, call))
        [row] = await run(store, "SELECT * FROM calls WHERE id = :id", id=call.id)
        script = call_tx.settle_executed(call.id, done(1), large_result=0, attempt=1, duration_ms=1.0)
        asked = [next(script)[0]]
        answer: list[Any] = [row | {"status": "completed", "delivery": "inline"}]
        try:
            while True:
                asked.append(script.send(answer)[0])
                answer = []
        except StopIteration:
            statements.append([name for name in asked if name != WAKE])
    assert statements == [["settle_executed"], ["settle_executed", "next_seq"]]


@pytest.mark.parametrize(("runs_here", "status"), [(True, "running"), (False, "requires_action")])
async def test_an_approved_call_is_shown_with_the_arguments_that_were_allowed(
    store: Store, *, runs_here: bool, status: str
) -> None:
    await a_space(store)
    call = a_call_for_approval(**SHOWN)
    await store.write(partial(call_tx.start_call, call))
    assert (
        await store.write(partial(call_tx.approve, call.id, runs_here=runs_here, arguments='{"text":"less"}'))
    ).moved
    assert not (
        await store.write(partial(call_tx.approve, call.id, runs_here=runs_here, arguments='{"text":"more"}'))
    ).moved
    assert metadata_of(await shown(store, call.id)) == state_of(call, status) | {"args": {"text": "less"}}
    events = await told(store)
    assert [kind for kind, _ in events] == ["tool.started", "space.message", "space.message"]
    assert events[2][1]["message"]["metadata"]["args"] == {"text": "less"}


async def test_a_person_s_call_is_shown_as_theirs(store: Store) -> None:
    await a_space(store)
    named, stranger = (a_call(**SHOWN | {"agent": None, "principal": who}) for who in ("husam", "ops"))
    for call in (named, stranger):
        await store.write(partial(call_tx.start_call, call))
    messages = await store.read(partial(space_tx.messages, "lobby"))
    assert [(one.entity_id, one.sender_name, one.sender_type) for one in messages] == [
        ("husam", "Husam", "person"),
        ("ops", "ops", "person"),
    ]
    assert (await told(store))[0][1]["agentEntityId"] is None


async def awake(store: Store) -> Cycle:
    """An agent's cycle, in a space where it was spoken to."""
    await a_space(store)
    await said(store, "hi")
    opened = await store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
    assert opened is not None
    return opened.cycle


async def began(store: Store, cycle: Cycle, call_id: str, **fields: Any) -> bool:
    usual = {"call_id": call_id, "space_id": "lobby", "tool": "chart", "agent_name": "Ada"}
    return await store.write(partial(space_tx.begin_showing, cycle, **(usual | fields)))


async def test_a_call_that_the_model_begins_to_write_is_there_and_becomes_the_steps_call(store: Store) -> None:
    cycle = await awake(store)
    call = a_pending_call(**SHOWN | {"run_id": cycle.id})
    assert await began(store, cycle, call.id)
    assert await began(store, cycle, call.id)
    assert metadata_of(await shown(store, call.id)) == state_of(call, "running") | {"args": {}}
    first = await shown(store, call.id)
    await stepped(store, cycle, StepCall(call))
    assert metadata_of(await shown(store, call.id)) == state_of(call, "requires_action")
    assert (await shown(store, call.id)).seq == first.seq
    await store.write(
        partial(call_tx.settle_submitted, call.id, done({"confirmed": True}), large_result=store.large_result)
    )
    assert await store.write(partial(commit, cycle, context="c", record=RECORD)) is not None
    expected = ["tool.started", "space.message", "tool.done", "agent.inactive"]
    assert (await kinds(store))[2:] == expected


async def test_a_call_that_the_model_never_finished_ends_as_an_error(store: Store) -> None:
    cycle = await awake(store)
    for call_id in ("call_a", "call_b"):
        assert await began(store, cycle, call_id)
    assert await store.write(partial(space_tx.drop_unshown_of, cycle))
    for call_id in ("call_a", "call_b"):
        metadata = metadata_of(await shown(store, call_id))
        assert (metadata["status"], metadata["error"]) == ("error", "The agent began again.")
    last = (await told(store))[-1]
    names = {"streamId": "call_b", "runId": "cycle_1", "agentEntityId": "ada", "toolName": "chart"}
    assert last == ("tool.error", names | {"error": "The agent began again."})
    before = await kinds(store)
    assert await store.write(partial(space_tx.drop_unshown_of, cycle))
    assert await kinds(store) == before


@pytest.mark.parametrize("ending", ["step", "commit", "abandon", "take_over"])
async def test_whatever_ends_what_the_model_was_writing_ends_its_unfinished_calls(store: Store, ending: str) -> None:
    cycle = await awake(store)
    finished = a_call(**SHOWN | {"run_id": cycle.id})
    await began(store, cycle, finished.id)
    await began(store, cycle, "call_unfinished")
    await stepped(store, cycle, StepCall(finished))
    assert metadata_of(await shown(store, "call_unfinished"))["status"] == "error"
    await began(store, cycle, "call_again")
    if ending == "step":
        await stepped(store, cycle, n=2)
    elif ending == "commit":
        await store.write(partial(commit, cycle, context="c", record=RECORD))
    elif ending == "abandon":
        await store.write(partial(abandon, cycle, reason="r", backoff_ms=0))
    else:
        await store.write(partial(gateway_tx.enter, "gw_b", is_shared=store.is_shared))
        await taken_over(store, cycle)
    assert metadata_of(await shown(store, "call_again"))["status"] == "error"
    assert metadata_of(await shown(store, finished.id))["status"] == "running"
    assert (await kinds(store)).count("tool.error") == 2


async def test_a_fenced_gateway_shows_and_drops_nothing(store: Store) -> None:
    cycle = await awake(store)
    await began(store, cycle, "call_a")
    paused = as_if_of(cycle, epoch=0)
    before = await told(store)
    assert not await began(store, paused, "call_b")
    assert not await store.write(partial(space_tx.drop_unshown_of, paused))
    assert await told(store) == before
    assert await began(store, cycle, "call_b", space_id="nowhere")
    assert await store.read(partial(space_tx.get_message, call_message_id("call_b"))) is None


async def test_a_step_that_cannot_be_whole_shows_nothing(store: Store) -> None:
    cycle = await awake(store)
    call = a_call(**SHOWN | {"run_id": cycle.id})
    before = await told(store)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stepped(store, cycle, StepCall(call), StepCall(call))
    assert await told(store) == before
