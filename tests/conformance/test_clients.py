"""What the scripted model of `make clients` says follows from the conversation alone, whoever tells it."""

import json
import urllib.request
from typing import Any

from conformance.clients.dialogue import PATCH, reply_to
from conformance.clients.model import running_model

BOTH = (("get_weather", {"city": "Lisbon"}), ("get_weather", {"city": "Porto"}))


def asked(*messages: dict[str, Any], tools: tuple[str, ...] = ("get_weather",)) -> dict[str, Any]:
    return {"messages": list(messages), "tools": [{"function": {"name": name}} for name in tools]}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(*names: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": name}} for name in names]}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text}


def test_the_weather_is_looked_up_for_two_cities_at_once_and_told() -> None:
    question = user("How is the weather?")
    assert reply_to(asked(question)).calls == BOTH
    told = reply_to(asked(question, called("get_weather", "get_weather"), result("Sun"), result("Rain")))
    assert told.say == "All done. Results: Sun; Rain. Images: 0."


def test_images_are_counted_wherever_they_stand() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    assert reply_to(asked(user([{"type": "text", "text": "Hello"}, image]))).say == "Hello. I see 1 images."
    seen = user([{"type": "text", "text": "The images in the result of c1:"}, image])
    assert "Images: 1." in reply_to(asked(user("screen?"), called("screenshot"), result("x"), seen)).say


def test_a_program_with_a_shell_is_sent_through_its_tools() -> None:
    tools = ("exec_command", "tool_search", "apply_patch")
    found = (*tools, "mcp__gate__add", "mcp__gate__screenshot")
    play = [user("Do the whole play.")]
    steps = []
    for names in (tools, tools, found, found, found):
        reply = reply_to(asked(*play, tools=names))
        steps.append([name for name, _ in reply.calls])
        play += [called(*steps[-1]), *(result("ok") for _ in steps[-1])] if reply.calls else []
    assert steps == [
        ["exec_command"],
        ["tool_search"],
        ["mcp__gate__add", "mcp__gate__screenshot"],
        ["apply_patch"],
        [],
    ]
    assert reply_to(asked(*play[:7], tools=found)).calls == (("apply_patch", {"input": PATCH}),)


def test_it_is_served_as_a_stream_and_keeps_what_it_was_asked() -> None:
    with running_model() as model:
        body = json.dumps({**asked(user("How is the weather?")), "stream": True}).encode()
        request = urllib.request.Request(f"{model.url}/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            told = answer.read().decode()
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    deltas = [e["choices"][0]["delta"] for e in events if e["choices"]]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ()) if piece["index"] == 1]
    thought = "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert thought.strip() == "Two cities, at once."
    assert "".join(piece["function"]["arguments"] for piece in pieces) == '{"city":"Porto"}'
    assert told.endswith("data: [DONE]\n\n")
    assert len(model.asked) == 1
