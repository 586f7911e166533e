"""Answers to what was asked: each function call has one output, each approval one word, each reference its item."""

import time

import pytest

from jackfield.errors import BadRequest
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    McpApprovalRequest,
    McpApprovalResponse,
    Message,
)
from jackfield.responses.input import check_answers, resolve_references
from tests.requirement import requirement


def call(call_id: str) -> FunctionCall:
    return FunctionCall(id=f"fc_{call_id}", call_id=call_id, name="f", arguments="{}")


def output(call_id: str) -> FunctionCallOutput:
    return FunctionCallOutput(id=f"fco_{call_id}", call_id=call_id, output="")


ASKED = McpApprovalRequest(id="mcpr_1", server_label="s", name="t", arguments="{}")
SAID_YES = McpApprovalResponse(id="mcpa_1", approval_request_id="mcpr_1", approve=True)
HELLO = Message(id="msg_1", role="user")


@pytest.mark.parametrize(
    ("history", "given"),
    [
        ([], [HELLO]),
        ([call("a"), call("b")], [output("b"), HELLO, output("a")]),
        ([call("a"), output("a")], [HELLO]),
        ([], [call("a"), output("a"), call("b"), output("b")]),
        ([ASKED], [SAID_YES]),
        ([ASKED], [HELLO]),
    ],
)
def test_what_answers_exactly_what_was_asked_is_taken(history: list[Item], given: list[Item]) -> None:
    check_answers(history, given)


@requirement("TOOL-scope-unknown-output")
@pytest.mark.parametrize(
    ("history", "given", "named"),
    [
        ([], [output("a")], "'a'"),
        ([call("a")], [output("a"), output("a")], "'a'"),
        ([call("a"), output("a")], [output("a")], "'a'"),
        ([call("a"), call("b")], [output("a")], "'b' (f)"),
        ([], [output("a"), call("a")], "'a'"),
        ([call("a")], [call("a"), output("a")], "'a'"),
        ([], [SAID_YES], "'mcpr_1'"),
        ([ASKED, SAID_YES], [SAID_YES], "'mcpr_1'"),
        ([ASKED], [SAID_YES, SAID_YES], "'mcpr_1'"),
    ],
)
def test_anything_else_is_refused_by_name(history: list[Item], given: list[Item], named: str) -> None:
    with pytest.raises(BadRequest) as raised:
        check_answers(history, given)

    assert named in raised.value.message
    assert raised.value.param == "input"


def test_a_reference_becomes_the_item_it_names() -> None:
    given: list[Item] = [HELLO, ItemReference(id="msg_1")]

    assert resolve_references([], given, kept={}) == (HELLO, HELLO)


def test_a_reference_to_what_is_continued_anyway_adds_nothing() -> None:
    assert resolve_references([HELLO], [ItemReference(id="msg_1"), call("a")], kept={}) == (call("a"),)


def test_a_reference_to_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="msg_2"):
        resolve_references([HELLO], [ItemReference(id="msg_2")], kept={})


def test_twenty_thousand_calls_and_references_are_checked_within_a_second() -> None:
    history: list[Item] = [item for number in range(20_000) for item in (call(str(number)), output(str(number)))]
    given: list[Item] = [ItemReference(id=item.id) for item in history]
    began = time.thread_time()
    assert resolve_references(history, given, kept={}) == ()
    check_answers([], history)
    assert time.thread_time() - began < 1
