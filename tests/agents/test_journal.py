"""A cycle goes on from its journal as if nothing had happened: the same words, outputs, whereabouts and costs."""

from typing import Any

import msgspec
from msgspec import Raw

from jackfield.agents.cycle_transactions import Step
from jackfield.agents.journal import StepMessage, active_space_after, output_in_cycle, replayed
from jackfield.model.call import Call, CallError, CallStatus, Delivery, FirstReply
from jackfield.model.items import FunctionCall, FunctionCallOutput, Message, OutputText, Usage
from tests.requirement import requirement

NO = CallError(code="no", message="No.")
USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


def call(tool: str, result: object = None, *, source: str = "builtin", **fields: Any) -> Call:
    kept: dict[str, Any] = {
        "id": f"call_{tool}",
        "run_id": "cycle_1",
        "tool": tool,
        "source": source,
        "tool_version": "v",
        "arguments": Raw(msgspec.json.encode(fields.pop("arguments", {}))),
        "principal": "agent:ada",
        "status": CallStatus.COMPLETED,
        "delivery": Delivery.INLINE,
        "result": Raw(msgspec.json.encode(result)),
    }
    if "error" in fields:
        kept["result"] = None
    return Call(**(kept | fields))


def step(n: int, *calls: Call, said: str = "") -> Step:
    words = (Message(role="assistant", content=(OutputText(text=said),)),) if said else ()
    asked = tuple(FunctionCall(call_id=f"m{n}_{i}", name=made.tool, arguments="{}") for i, made in enumerate(calls))
    return Step(n, msgspec.json.encode(StepMessage((*words, *asked), USAGE)).decode(), calls)


def test_nothing_on_record_is_the_beginning() -> None:
    replay = replayed(())
    assert (replay.items, replay.usage, replay.space_id, replay.called, replay.is_over) == ((), None, None, (), False)


def test_a_steps_calls_come_together_and_then_their_outputs_in_the_same_order() -> None:
    replay = replayed([step(1, call("a", {"n": 1}), call("b", "two"), said="First."), step(2, call("c", None))])
    told = [(item.name if isinstance(item, FunctionCall) else getattr(item, "output", "says")) for item in replay.items]
    assert told == ["says", "a", "b", '{"n":1}', "two", "c", "null"]
    ids = [item.call_id for item in replay.items if isinstance(item, FunctionCall | FunctionCallOutput)]
    assert ids == ["m1_0", "m1_1", "m1_0", "m1_1", "m2_0", "m2_0"]
    assert replay.usage == Usage(input_tokens=20, output_tokens=10, total_tokens=30)
    assert replay.called == ("a", "b", "c")


@requirement("PROG-tool-images")
def test_an_image_that_was_seen_is_seen_again() -> None:
    shot = {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    replay = replayed([step(1, call("screenshot", shot, source="files"))])
    output = replay.items[-1]
    assert isinstance(output, FunctionCallOutput)
    assert [type(part).__name__ for part in output.output] == ["InputText", "InputImage"]


def test_the_active_space_is_where_the_last_step_left_the_agent() -> None:
    entered = call("enter_space", {"success": True}, arguments={"spaceId": "home"})
    refused = call("enter_space", arguments={"spaceId": "away"}, status=CallStatus.FAILED, error=NO)
    left = call("leave_space", {"success": True})
    assert replayed([step(1, entered)]).space_id == "home"
    assert replayed([step(1, entered), step(2, refused)]).space_id == "home"
    assert replayed([step(1, entered, left)]).space_id is None
    assert replayed([step(1, left, entered)]).space_id == "home"


def test_only_the_built_in_skip_ends_a_cycle_and_only_if_it_was_made() -> None:
    assert replayed([step(1, call("skip", {"skipped": True}))]).is_over
    assert not replayed([step(1, call("skip", {"skipped": True})), step(2, call("a"))]).is_over
    assert not output_in_cycle(call("skip", {}, source="internal")).ends
    assert not output_in_cycle(call("skip", status=CallStatus.FAILED, error=NO)).ends


def test_another_tool_called_enter_space_leads_nowhere() -> None:
    strange = call("enter_space", {}, source="internal", arguments={"spaceId": "trap"})
    assert active_space_after("home", strange) == "home"


def test_a_pending_call_is_told_by_its_slot_and_the_cycle_goes_on() -> None:
    pending = call(
        "job",
        source="external",
        status=CallStatus.COMPLETED,
        delivery=Delivery.INBOX,
        first_reply=FirstReply.PENDING,
        result={"late": 1},
    )
    told = output_in_cycle(pending)
    assert msgspec.json.decode(told.text)["status"] == "pending", "its result goes by inbox, so the slot never has it"
    assert not told.waits


def test_an_output_that_no_model_could_read_is_cut_short() -> None:
    assert output_in_cycle(call("look", "x" * 250_000)).text == "x" * 100_000 + "… (150000 more)"
