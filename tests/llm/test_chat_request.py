"""Items as chat messages: every call is followed by its result, and what was sent before never changes."""

from itertools import pairwise
from typing import Any

import pytest

from jackfield.llm.chat_request import NO_RESULT, NOT_APPROVED_YET, chat_body, chat_messages
from jackfield.llm.types import ModelFailed, ModelRequest
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputText,
    Item,
    ItemReference,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    McpProtocolError,
    McpToolExecutionError,
    Message,
    OutputText,
    Part,
    Reasoning,
    ReasoningText,
    Refusal,
)
from jackfield.model.tool import ToolDefinition


def messages(*items: Item, **fields: Any) -> list[dict[str, Any]]:
    return chat_messages(ModelRequest(items=items, **fields))


def user(*content: Part) -> Message:
    return Message(role="user", content=content)


def said(text: str) -> Message:
    return Message(role="assistant", content=(OutputText(text=text),))


def called(call_id: str, name: str = "add", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def ran(call_id: str, output: str | None = "3", **fields: Any) -> McpCall:
    return McpCall(id=call_id, server_label="calc", name="add", arguments="{}", output=output, **fields)


def test_who_said_what_becomes_roles() -> None:
    assert messages(
        Message(role="developer", content=(InputText(text="Be brief."),)),
        user(InputText(text="One"), InputText(text="Two")),
        said("Three"),
        Message(role="assistant", content=(Refusal(refusal="No."),)),
        Message(role="system", content=(InputText(text="Be kind."),)),
        instructions="Help.",
    ) == [
        {"role": "system", "content": "Help.\n\nBe brief."},
        {"role": "user", "content": "One\nTwo"},
        {"role": "assistant", "content": "Three"},
        {"role": "assistant", "content": "No."},
        {"role": "system", "content": "Be kind."},
    ]


def test_images_and_files_go_in_as_parts() -> None:
    (message,) = messages(
        user(
            InputText(text="What is it?"),
            InputImage(image_url="data:image/png;base64,AA", detail="low"),
            InputImage(image_url="https://x.example/a.png"),
            InputFile(filename="a.pdf", file_data="data:application/pdf;base64,AA"),
            InputFile(file_id="file-1"),
        )
    )
    assert message["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]


@pytest.mark.parametrize("part", [InputImage(file_id="file-1"), InputFile(file_url="https://x.example/a.pdf")])
def test_what_chat_completions_cannot_carry_is_a_failure_that_says_how_to_send_it(part: Part) -> None:
    with pytest.raises(ModelFailed, match="image_url") as caught:
        messages(user(part))
    assert caught.value.code == "unsupported_input"


def test_parallel_calls_are_one_message_with_their_results_after_it() -> None:
    assert messages(
        said("I add."),
        FunctionCall(call_id="a", name="add", arguments='{"x": 1}'),
        FunctionCall(call_id="b", name="add", arguments=""),
        FunctionCallOutput(call_id="b", output="2"),
        FunctionCallOutput(call_id="a", output="1"),
        FunctionCall(call_id="c", name="now", arguments="{}"),
        FunctionCallOutput(call_id="c", output="late"),
    ) == [
        {"role": "assistant", "content": "I add.", "tool_calls": [called("a", arguments='{"x": 1}'), called("b")]},
        result("a", "1"),
        result("b", "2"),
        {"role": "assistant", "content": None, "tool_calls": [called("c", "now")]},
        result("c", "late"),
    ]


def test_a_call_without_a_result_has_a_sentence_in_its_place() -> None:
    assert messages(FunctionCall(call_id="a", name="add", arguments="{}"), user(InputText(text="And?"))) == [
        {"role": "assistant", "content": None, "tool_calls": [called("a")]},
        result("a", NO_RESULT),
        {"role": "user", "content": "And?"},
    ]


def test_a_result_whose_call_is_not_there_is_told_as_text() -> None:
    (message,) = messages(FunctionCallOutput(call_id="x", output="7"))
    assert message == {"role": "user", "content": [{"type": "text", "text": "Result of call x: 7"}]}


def test_images_in_a_result_follow_it_in_a_message_of_their_own() -> None:
    output = (InputText(text="A cat:"), InputImage(image_url="data:image/png;base64,AA"))
    _, tool, pictures = messages(
        FunctionCall(call_id="a", name="draw", arguments="{}"), FunctionCallOutput(call_id="a", output=output)
    )
    assert tool == result("a", "A cat:")
    assert pictures["role"] == "user"
    assert pictures["content"][1]["image_url"]["url"] == "data:image/png;base64,AA"


def test_calls_that_the_server_ran_carry_their_results_and_their_errors() -> None:
    failed = McpToolExecutionError(content=[{"type": "text", "text": "Disk full"}])
    assert messages(
        said("I add."),
        ran("a"),
        ran("b", None, error=McpProtocolError(code=-32602, message="No such tool"), status="failed"),
        ran("c", None, error=failed, status="failed"),
        said("Done."),
    ) == [
        {"role": "assistant", "content": "I add.", "tool_calls": [called("a")]},
        result("a", "3"),
        {"role": "assistant", "content": None, "tool_calls": [called("b")]},
        result("b", "Error: No such tool"),
        {"role": "assistant", "content": None, "tool_calls": [called("c")]},
        result("c", "Error: Disk full"),
        {"role": "assistant", "content": "Done."},
    ]


def test_a_conversation_that_goes_on_only_grows_at_its_end() -> None:
    items: list[Item] = [
        user(InputText(text="Add")),
        ran("a"),
        ran("b"),
        said("6"),
        user(InputText(text="More")),
        ran("c"),
    ]
    steps = [messages(*items[:length]) for length in range(1, len(items) + 1)]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(steps))


def test_a_mixed_turn_is_one_message() -> None:
    assert messages(
        FunctionCall(call_id="f", name="mine", arguments="{}"), ran("a"), FunctionCallOutput(call_id="f", output="yes")
    ) == [
        {"role": "assistant", "content": None, "tool_calls": [called("f", "mine"), called("a")]},
        result("f", "yes"),
        result("a", "3"),
    ]


def test_a_call_is_told_under_the_name_that_the_model_knows() -> None:
    (call, _) = messages(
        ran("a"),
        tools=(ToolDefinition(type="function", name="calc_add"), ToolDefinition(type="function", name="other_add")),
    )
    assert call["tool_calls"][0]["function"]["name"] == "calc_add"


def test_an_approval_is_told_by_what_came_of_it() -> None:
    request = McpApprovalRequest(id="r", server_label="calc", name="add", arguments="{}")
    no = McpApprovalResponse(approval_request_id="r", approve=False, reason="too dear")
    yes = McpApprovalResponse(approval_request_id="r", approve=True)
    assert messages(request)[1] == result("r", NOT_APPROVED_YET)
    assert messages(request, no)[1] == result("r", "A person did not allow this call. Reason: too dear")
    assert messages(request, yes) == []
    assert messages(request, yes, ran("a", approval_request_id="r")) == messages(ran("a"))


def test_thoughts_and_listings_are_not_sent_back() -> None:
    assert messages(Reasoning(content=(ReasoningText(text="Hm"),)), McpListTools(server_label="calc")) == []


def test_an_item_that_stands_for_others_is_refused() -> None:
    with pytest.raises(ModelFailed, match="item_reference"):
        messages(ItemReference(id="msg_1"))


def test_wishes_are_passed_on_and_silence_is_not() -> None:
    plain = chat_body(ModelRequest(items=()), model="tiny")
    assert plain == {"model": "tiny", "messages": [], "stream": True}
    schema = {"type": "object"}
    full = ModelRequest(
        items=(),
        temperature=0.0,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        max_output_tokens=50,
        top_logprobs=2,
        reasoning_effort="low",
        text_format={"type": "json_schema", "name": "n", "schema": schema, "strict": True, "description": None},
        user="u",
        tools=(ToolDefinition(type="function", name="add"),),
        tool_choice="required",
    )
    body = chat_body(full, model="tiny", limit_key="max_completion_tokens")
    assert {key: body[key] for key in body if key not in ("model", "messages", "stream", "tools")} == {
        "temperature": 0.0,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "max_completion_tokens": 50,
        "logprobs": True,
        "top_logprobs": 2,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        "user": "u",
        "tool_choice": "required",
    }


def test_plain_text_is_no_format_and_json_is_one() -> None:
    for wanted, expected in ((({"type": "text"}), None), ({"type": "json_object"}, {"type": "json_object"})):
        body = chat_body(ModelRequest(items=(), text_format=wanted), model="tiny")
        assert body.get("response_format") == expected
