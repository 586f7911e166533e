"""What a stream of Open Responses must hold, event by event, by the spec's own schemas and its rules of order.

`open-responses-2026-04-24.json` holds the schemas of that version's OpenAPI document, without its prose. It knows no
server-run tools; events and items of those are held against the types of OpenAI's SDK instead.
"""

import copy
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import TypeAdapter

from jackfield.responses.wire import TERMINAL

SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parent / "open-responses-2026-04-24.json").read_text())
FOREIGN_ITEMS = ("mcp_list_tools", "mcp_call", "mcp_approval_request", "custom_tool_call", "tool_search_call")
OPENAIS_NAMES = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}
"""The same events with the same fields, by the names that each of the two documents has for them."""
_sdk_item: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
_sdk_event: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@cache
def _names() -> dict[str, str]:
    """The schema of each type of event."""
    named = {}
    for name, schema in SCHEMAS["components"]["schemas"].items():
        if name.endswith("StreamingEvent"):
            named[schema["properties"]["type"]["enum"][0]] = name
    return named


def event_types() -> frozenset[str]:
    """The types of event that the document has."""
    return frozenset(_names())


@cache
def validator(name: str, *, with_tools: bool) -> Any:
    document = copy.deepcopy(SCHEMAS)
    schemas = document["components"]["schemas"]
    if with_tools:
        foreign = {"type": "object", "required": ["id"], "properties": {"type": {"enum": list(FOREIGN_ITEMS)}}}
        schemas["ItemField"]["oneOf"].append(foreign)
        schemas["Tool"]["oneOf"].append({"type": "object", "properties": {"type": {"not": {"const": "function"}}}})
    return jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", **document})


def check_resource(resource: dict[str, Any], *, with_tools: bool = False) -> None:
    """All 31 keys, each of its type."""
    required = set(SCHEMAS["components"]["schemas"]["ResponseResource"]["required"])
    assert len(required) == 31
    assert required <= set(resource)
    validator("ResponseResource", with_tools=with_tools).validate(resource)
    for item in resource["output"]:
        if item["type"] in FOREIGN_ITEMS:
            _sdk_item.validate_python(item)


def check_event(event: dict[str, Any], *, with_tools: bool = False) -> None:
    """One event by its schema, or by the SDK's type where the spec has none."""
    if event["type"] in OPENAIS_NAMES:
        _sdk_event.validate_python(event)
        event = {**event, "type": OPENAIS_NAMES[event["type"]]}
    name = _names().get(event["type"])
    if name is not None:
        validator(name, with_tools=with_tools).validate(event)
    elif event["type"] == "response.cancelled":
        check_resource(event["response"], with_tools=with_tools)
    elif event["type"].startswith("response."):
        assert with_tools, f"{event['type']} without server-run tools"
        _sdk_event.validate_python(event)
    else:
        assert with_tools
        assert event["type"] == "jackfield:tool_progress"
        assert {"sequence_number", "item_id", "output_index", "progress"} <= set(event)


def check_stream(events: Sequence[dict[str, Any]], *, with_tools: bool = False) -> None:
    """A whole stream: schemas, numbers, order, one end, and texts that are the sum of their deltas."""
    for event in events:
        check_event(event, with_tools=with_tools)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    types = [event["type"] for event in events]
    assert types[0] == "response.created"
    assert [kind for kind in types if kind in TERMINAL] == types[-1:]
    assert ("error" in types) is (types[-1] == "response.failed")
    assert {event["response"]["id"] for event in events if "response" in event} == {events[0]["response"]["id"]}
    for index in {event["output_index"] for event in events if "output_index" in event}:
        _check_item([event for event in events if event.get("output_index") == index], events[-1]["response"])


def _check_item(events: list[dict[str, Any]], response: dict[str, Any]) -> None:
    types = [event["type"] for event in events]
    assert types[0] == "response.output_item.added"
    assert types[-1] == "response.output_item.done"
    assert types.count("response.output_item.added") == types.count("response.output_item.done") == 1
    added, done = events[0]["item"], events[-1]["item"]
    assert (added["type"], added["id"]) == (done["type"], done["id"])
    assert done in response["output"]
    assert {event["item_id"] for event in events[1:-1]} <= {done["id"]}
    if done["type"] in ("message", "reasoning"):
        _check_content(events[1:-1], done)
    elif done["type"] in ("function_call", "mcp_call"):
        assert "".join(e["delta"] for e in events if e["type"].endswith("_arguments.delta")) == done["arguments"]
        assert [e["arguments"] for e in events if e["type"].endswith("_arguments.done")] == [done["arguments"]]


def _check_content(events: list[dict[str, Any]], done: dict[str, Any]) -> None:
    """Each part is wrapped by its own events, one part after the other."""
    if done.get("summary"):
        events = [{**event, "content_index": event["summary_index"]} for event in events]
        events = [
            {**event, "type": event["type"].replace("reasoning_summary_part", "content_part")} for event in events
        ]
        done = {"content": done["summary"]}
    assert [event["content_index"] for event in events] == sorted(event["content_index"] for event in events)
    for number, part in enumerate(done["content"]):
        own = [event for event in events if event["content_index"] == number]
        assert own[0]["type"] == "response.content_part.added"
        assert own[-1]["type"] == "response.content_part.done"
        word = "refusal" if part["type"] == "refusal" else "text"
        said = "".join(event["delta"] for event in own[1:-2])
        assert all(event["type"].endswith(".delta") for event in own[1:-2])
        assert own[-2]["type"].endswith(".done")
        assert said == own[-2][word] == own[-1]["part"][word] == part[word]
    assert {event["content_index"] for event in events} == set(range(len(done["content"])))
