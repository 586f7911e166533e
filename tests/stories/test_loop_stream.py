"""What the loop does reaches the client while it goes on: seen by a client that lets it go on only then."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement

CONFIG = """
[models.actor]
provider = "scripted"
script = "actor.toml"

[sources.local]
kind = "files"
path = "tools/*.py"
"""
SCRIPT = """
[[turns]]
when = { user = "pass" }
say = "Let me see."
calls = [{ tool = "gate" }]

[otherwise]
say = "It is {result}."
"""
GATE = '''
import asyncio
from pathlib import Path

async def gate() -> str:
    """Answer when somebody opens."""
    while not Path(__file__).with_name("open").exists():
        await asyncio.sleep(0.02)
    return "open"
'''
QUESTION = {"model": "actor", "input": "pass", "tools": [{"type": "mcp", "server_label": "jackfield"}]}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    files = {"tools/gate.py": GATE, "actor.toml": SCRIPT}
    with running_gateway(tmp_path, CONFIG, files=files) as running:
        yield running


def events(answer: httpx2.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


@requirement("TOOL-loop-writes-stream")
def test_a_stream_has_what_was_said_and_begun_before_the_tool_has_ended(gateway: RunningGateway) -> None:
    url, body = f"{gateway.url}/v1/responses", QUESTION | {"stream": True}
    with httpx2.stream("POST", url, json=body, headers=gateway.headers, timeout=30) as answer:
        coming = events(answer)
        said = ""
        for event in coming:
            said += event["delta"] if event["type"] == "response.output_text.delta" else ""
            if event["type"] == "response.mcp_call.in_progress":
                break
        assert said == "Let me see."
        # Had all this been kept back until the end, there would be no end: nobody would have opened.
        (gateway.folder / "tools/open").touch()
        rest = list(coming)
    assert rest[-1]["type"] == "response.completed"
    assert rest[-1]["response"]["output"][-1]["content"][0]["text"] == "It is open."


@requirement("TOOL-loop-writes-stream")
def test_without_a_stream_the_same_comes_as_one_body(gateway: RunningGateway) -> None:
    (gateway.folder / "tools/open").touch()
    made = httpx2.post(f"{gateway.url}/v1/responses", json=QUESTION, headers=gateway.headers, timeout=30).json()
    assert made["status"] == "completed"
    assert [item["type"] for item in made["output"]] == ["mcp_list_tools", "message", "mcp_call", "message"]
    assert made["output"][-1]["content"][0]["text"] == "It is open."
