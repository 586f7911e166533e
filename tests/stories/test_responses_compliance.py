"""The official Open Responses compliance suite's tests by their names, as tests of ours, with its traps.

Its schemas are strict where clients are not: numbers may not be null, a tool's echo has all five keys, nothing beyond
the spec may appear where the request brought none, and its reader loses an event that comes in two pieces.
"""

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.responses.conformity import check_resource, check_stream, event_types, validator
from tests.stories.responses import ADMIN_KEY, CATALOG, MODEL, actor_gateway, sse_events

HEART = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


CASES: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [said("user", "Say hello in exactly 3 words.")]},
    "assistant-phase": {
        "input": [
            said("assistant", "I should answer with the saved number.", phase="commentary"),
            said("assistant", "The number is four.", phase="final_answer"),
            said("user", "Repeat only the number."),
        ]
    },
    "system-prompt": {"input": [said("system", "You are a pirate."), said("user", "Say hello.")]},
    "image-input": {
        "input": [
            said(
                "user",
                [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": HEART}],
            )
        ]
    },
    "multi-turn": {
        "input": [
            said("user", "My name is Alice."),
            said("assistant", "Hello Alice! How can I help you today?"),
            said("user", "What is my name?"),
        ]
    },
    "tool-calling": {"input": [said("user", "What's the weather like in Lisbon?")], "tools": [WEATHER]},
}


def post(actor: RunningGateway, path: str = "/v1/responses", /, **body: Any) -> httpx2.Response:
    return httpx2.post(f"{actor.url}{path}", headers=actor.headers, json=body, timeout=20)


def made(actor: RunningGateway, **body: Any) -> dict[str, Any]:
    answer = post(actor, model=MODEL, **body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    resource: dict[str, Any] = answer.json()
    return resource


@requirement("CON-resp-transports")
@pytest.mark.parametrize("name", CASES)
def test_the_suites_request_gets_a_response_of_its_schema(actor: RunningGateway, name: str) -> None:
    resource = made(actor, **CASES[name])

    check_resource(resource)
    assert resource["status"] == "completed"
    (item,) = resource["output"]
    assert item["type"] == ("function_call" if name == "tool-calling" else "message")
    for number in ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs"):
        assert isinstance(resource[number], int | float)
    if name == "tool-calling":
        assert resource["tools"] == [{**WEATHER, "strict": None}]
        assert json.loads(item["arguments"]) == {"city": "Lisbon"}
    else:
        assert all(part["logprobs"] == [] for part in item["content"])


def test_streaming_response_has_events_of_their_schemas_and_a_final_response(actor: RunningGateway) -> None:
    answer = post(actor, model=MODEL, stream=True, input=[said("user", "Count from 1 to 5.")])
    events = sse_events(answer.content)

    assert answer.headers["content-type"].startswith("text/event-stream")
    check_stream(events)
    check_resource(events[-1]["response"])
    assert events[-1]["response"]["status"] == "completed"
    assert b"\r" not in answer.content
    assert b"\nid:" not in answer.content


@requirement("PROG-event-names")
def test_a_gateway_can_speak_with_the_names_of_the_document_alone(tmp_path: Path) -> None:
    with actor_gateway(tmp_path, responses='event_names = "open-responses"') as gateway:
        events = sse_events(post(gateway, model=MODEL, stream=True, input="think").content)

    check_stream(events)
    types = {event["type"] for event in events}
    assert types <= event_types()
    assert {"response.reasoning.delta", "response.reasoning.done"} <= types


@requirement("CON-resp-compact-models")
def test_compact_response_is_an_object_of_its_schema_with_a_compaction(actor: RunningGateway) -> None:
    talk = [said("user", "We agreed to launch on Tuesday."), said("assistant", "Understood: Tuesday.")]
    answer = post(actor, "/v1/responses/compact", model=MODEL, prompt_cache_key="compact-test", input=talk)

    assert answer.status_code == 200
    validator("CompactResource", with_tools=False).validate(answer.json())
    assert answer.json()["object"] == "response.compaction"
    assert "compaction" in {item["type"] for item in answer.json()["output"]}


@requirement("CON-resp-compact-models")
def test_compact_missing_model_is_400(actor: RunningGateway) -> None:
    answer = post(actor, "/v1/responses/compact", input=[said("user", "Compact this conversation.")])

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"


@pytest.mark.parametrize("tools", [[], [CATALOG]], ids=["plain", "with tools"])
def test_each_event_is_one_write(actor: RunningGateway, tools: list[dict[str, Any]]) -> None:
    """uvicorn makes one HTTP chunk of each write, so the chunks are the writes."""
    writes = chunks_of(actor, {"model": MODEL, "stream": True, "input": "add 2 and 3", "tools": tools})

    assert len(writes) > 10
    assert writes[-1] == b"data: [DONE]\n\n"
    for write in writes[:-1]:
        assert write.startswith(b"event: ")
        assert write.endswith(b"\n\n")
        assert write.count(b"\n") == 3


def chunks_of(actor: RunningGateway, body: dict[str, Any]) -> list[bytes]:
    """The body of an answer, in the pieces in which it was sent."""
    content = json.dumps(body).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", actor.port), timeout=20)) as connection:
        connection.sendall(head.encode() + content)
        with connection.makefile("rb") as answer:
            while answer.readline() != b"\r\n":
                pass
            pieces = []
            while size := int(answer.readline(), 16):
                pieces.append(answer.read(size))
                answer.readline()
            return pieces
