"""What a model gets of a tool's result: words in their order, images beside them, and never base64 as words."""

import base64
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.agents.context import AgentContext, PastCycle, with_cycle
from jackfield.agents.cycle_transactions import InboxEvent
from jackfield.agents.inbox import inbox_message
from jackfield.llm.chat_request import chat_messages, has_tool_images
from jackfield.llm.types import ModelRequest
from jackfield.model.items import FunctionCallOutput, InputImage, InputText, Message, ToolImage, text_of
from jackfield.runs.outputs import LARGEST_IMAGE, MOST_IMAGES, NOTHING, Reading, read_result
from tests.requirement import requirement

PIXEL = base64.b64encode(b"\x89PNG not really").decode()


def image(data: str = PIXEL, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": kind}


def reading(*blocks: dict[str, Any], **more: Any) -> Reading:
    return read_result(Raw(msgspec.json.encode({"content": list(blocks), **more})))


@pytest.mark.parametrize(("result", "text"), [('"a\\nb"', "a\nb"), ('{"a": [1]}', '{"a": [1]}'), ("7", "7")])
def test_a_text_is_itself_and_other_json_is_its_own_text(result: str, text: str) -> None:
    assert read_result(Raw(result.encode())) == Reading(text)


@requirement("PROG-tool-images")
def test_images_stand_beside_the_words_that_name_them() -> None:
    told = reading({"type": "text", "text": "Before"}, image(), {"type": "text", "text": "and after"}, image())
    assert told.text == "Before\n[image: image/png, shown as image 1]\nand after\n[image: image/png, shown as image 2]"
    assert told.images == (InputImage(image_url=f"data:image/png;base64,{PIXEL}"),) * 2


def test_a_structured_answer_keeps_its_images_and_does_not_repeat_its_text() -> None:
    told = reading({"type": "text", "text": '{"n": 1}'}, image(), structuredContent={"n": 1})
    assert told.text == '{"n":1}\n[image: image/png, shown as image 1]'
    assert len(told.images) == 1


@requirement("PROG-tool-images")
def test_resources_and_links_are_told_in_words() -> None:
    link = {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "mimeType": "text/plain", "description": "A."}
    told = reading(
        link,
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "Body of b"}},
        {"type": "resource", "resource": {"uri": "file:///c.png", "blob": PIXEL, "mimeType": "image/png"}},
        {"type": "resource", "resource": {"uri": "file:///d.zip", "blob": PIXEL, "mimeType": "application/zip"}},
        {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    )
    assert told.text.splitlines() == [
        "[link to a (text/plain): file:///a.txt]: A.",
        "[resource file:///b.txt]",
        "Body of b",
        "[resource file:///c.png: image/png, shown as image 1]",
        "[resource file:///d.zip: application/zip, 0 KB, left out: not text and not an image]",
        "[audio/wav, 0 KB, left out: audio is not passed on to models]",
    ]
    assert len(told.images) == 1
    assert PIXEL not in told.text


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        (image(kind="image/svg+xml"), "not a type that models take"),
        (image(data="A" * (LARGEST_IMAGE + 4)), "too large"),
        (image(data="not base64!"), "its data is not base64"),
        (image(data=""), "it is empty"),
    ],
)
@requirement("PROG-tool-images")
def test_an_image_that_a_model_cannot_take_is_named_with_the_reason(block: dict[str, Any], fault: str) -> None:
    told = reading(block)
    assert told.images == ()
    assert told.text.endswith(f"left out: {fault}]")
    assert len(told.text) < 100


def test_a_result_shows_only_so_many_images() -> None:
    told = reading(*[image()] * (MOST_IMAGES + 1))
    assert len(told.images) == MOST_IMAGES
    assert told.text.endswith(f"left out: more than {MOST_IMAGES} images]")


def test_lines_and_a_prefix_in_the_data_are_no_fault() -> None:
    wrapped = f"data:image/png;base64,{PIXEL[:8]}\n{PIXEL[8:]}"
    assert reading(image(wrapped)).images[0].image_url == f"data:image/png;base64,{PIXEL}"


def test_nothing_is_said_to_be_nothing() -> None:
    assert reading() == Reading(NOTHING)


@requirement("PROG-tool-images")
def test_a_result_that_comes_by_the_inbox_is_seen_and_told_in_words() -> None:
    result = {"content": [image()]}
    data = Raw(msgspec.json.encode({"toolName": "photo", "toolCallId": "call_1", "result": result}))
    event = InboxEvent(seq=1, event_id="e", agent="ada", type="tool_result", status="pending", data=data, created_at=0)
    told = inbox_message([event], now=0)

    assert PIXEL not in text_of(told)
    assert '(callId: call_1) "[image: image/png, shown as image 1]"' in text_of(told)
    assert told.content[1:] == (ToolImage(image_url=f"data:image/png;base64,{PIXEL}"),)
    request = ModelRequest(items=(told,))
    assert chat_messages(request)[0]["content"][1]["type"] == "image_url"
    assert chat_messages(request, tool_images="none")[0]["content"] == text_of(told), "for a model without eyes"
    assert has_tool_images(request.items)
    mind = with_cycle(AgentContext(), PastCycle(number=1, summary="Looked.", items=(told,)), room=1_000, hops=0)
    assert mind.cycles[0].items == (Message(role="user", content=(InputText(text=text_of(told)),)),)


def test_an_agent_remembers_what_it_saw_in_words() -> None:
    seen = (InputText(text="[image 1]"), InputImage(image_url="data:image/png;base64," + "A" * 100_000))
    past = PastCycle(number=1, summary="Looked.", items=(FunctionCallOutput(call_id="c", output=seen),))
    mind = with_cycle(AgentContext(), past, room=1_000, hops=0)
    assert mind.cycles[0].items == (FunctionCallOutput(call_id="c", output="[image 1]"),)
