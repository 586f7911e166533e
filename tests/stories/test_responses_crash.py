"""Background responses whose gateway is killed."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, start_gateway
from tests.requirement import requirement
from tests.responses.conformity import check_stream
from tests.responses.scene import events_of
from tests.waiting import eventually

Json = dict[str, Any]

CONFIG = """\
[models.demo]
provider = "scripted"
script = "demo.toml"
[sources.local]
kind = "files"
path = "tools/*.py"
tools.again.metadata = { idempotent = true }
"""
SCRIPT = """\
pace = 0.02
[[turns]]
when = { user = "Begin" }
say = "one two three four five six seven eight nine ten"
calls = [{ tool = "once", arguments = { n = 1 } }, { tool = "again", arguments = { n = 2 } }]
[[turns]]
when = { result = "again", says = "2" }
think = "Let me see what comes of it."
say = "a b c d e f g h i j k l m n o p q r s t"
calls = [{ tool = "once", arguments = { n = 3 } }]
[[turns]]
when = { result = "once", says = "3" }
say = "That was all."
[otherwise]
say = "Hello."
"""
TOOLS = """\
import asyncio
from pathlib import Path

HERE = Path(__file__).parent.parent
__all__ = ["once", "again"]


def begin(what: str) -> None:
    with (HERE / "starts").open("a") as file:
        file.write(what + "\\n")


def once(n: int) -> int:
    begin(f"once-{n}")
    return n


async def again(n: int) -> int:
    \"\"\"Its first start never ends.\"\"\"
    begin(f"again-{n}")
    if (HERE / "starts").read_text().split().count(f"again-{n}") == 1 and (HERE / "holds").exists():
        await asyncio.sleep(60)
    return n
"""
ASKED = {"model": "demo", "input": "Begin", "background": True, "tools": [{"type": "jackfield:catalog"}]}
TAKES = 60.0


@requirement("RUN-responses-survive")
@pytest.mark.timeout(300)
def test_a_background_response_goes_on_after_each_kill_and_comes_to_the_same_end(tmp_path: Path) -> None:
    """Killed in the middle of the first text, in a tool, and in the second text; its stream is read on each time."""
    (tmp_path / "calm").mkdir()
    files = {"demo.toml": SCRIPT, "tools/t.py": TOOLS}
    calm = start_gateway(tmp_path / "calm", CONFIG, files=files)
    try:
        with client_of(calm) as client:
            expected = read_to(client, client.post("/v1/responses", json=ASKED).json()["id"], -1, "response.completed")
    finally:
        calm.kill()

    folder = tmp_path / "killed"
    folder.mkdir()
    (folder / "holds").touch()
    gateway = start_gateway(folder, CONFIG, files=files)
    told: list[Json] = []
    try:
        with client_of(gateway) as client:
            spoken = client.post("/v1/responses", json={"model": "demo", "input": "Hi"}).json()
            response_id = client.post("/v1/responses", json=ASKED).json()["id"]
            told += read_to(client, response_id, -1, "response.output_text.delta")
        gateway.kill()
        gateway = start_gateway(folder)
        with client_of(gateway) as client:
            assert client.get(f"/v1/responses/{spoken['id']}").json() == spoken
            assert client.get(f"/v1/responses/{response_id}").json()["status"] == "in_progress"
            told += read_to(client, response_id, len(told) - 1, "response.mcp_call.completed")
            eventually(lambda: "again-2" in starts(folder), within=TAKES)
        gateway.kill()
        gateway = start_gateway(folder)
        with client_of(gateway) as client:
            told += read_to(client, response_id, len(told) - 1, "response.reasoning_text.delta")
            told += read_to(client, response_id, len(told) - 1, "response.output_text.delta")
        gateway.kill()
        gateway = start_gateway(folder)
        with client_of(gateway) as client:
            told += read_to(client, response_id, len(told) - 1, "response.completed")
            found = client.get(f"/v1/responses/{response_id}").json()
            stream = events_of(client.get(f"/v1/responses/{response_id}?stream=true").text)
    finally:
        gateway.kill()

    assert told == stream
    assert stream[-1]["response"] == found
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    check_stream(stream, with_tools=True)
    assert [without_ids(item) for item in found["output"]] == [
        without_ids(item) for item in expected[-1]["response"]["output"]
    ]
    assert found["usage"] == expected[-1]["response"]["usage"]
    assert sorted(starts(folder)) == ["again-2", "again-2", "once-1", "once-3"]


@requirement("RUN-responses-resume")
@pytest.mark.timeout(300)
def test_a_response_that_a_client_waited_for_is_resumed_by_id_after_a_kill(tmp_path: Path) -> None:
    """Killed in the text behind its first calls: until it is resumed it is `failed`, then it comes to the same end."""
    files = {"demo.toml": SCRIPT, "tools/t.py": TOOLS}
    gateway = start_gateway(tmp_path, CONFIG, files=files)
    body = {key: value for key, value in ASKED.items() if key != "background"} | {"stream": True}
    try:
        with client_of(gateway) as client, client.stream("POST", "/v1/responses", json=body) as answer:
            read: list[Json] = []
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    read.append(json.loads(line.removeprefix("data: ")))
                    if read[-1]["type"] == "response.reasoning_text.delta":
                        gateway.kill()
                        break
        response_id = read[0]["response"]["id"]
        gateway = start_gateway(tmp_path)
        with client_of(gateway) as client:
            found = client.get(f"/v1/responses/{response_id}").json()
            assert (found["status"], found["error"]["code"]) == ("failed", "interrupted")
            assert client.get(f"/v1/responses/{response_id}?stream=true").status_code == 400
            assert client.post(f"/api/runs/{response_id}/resume").status_code == 200
            told = read_to(client, response_id, -1, "response.completed")
            ended = client.get(f"/v1/responses/{response_id}").json()
            again = client.post(f"/api/runs/{response_id}/resume")
    finally:
        gateway.kill()
    assert told[-1]["response"] == ended
    assert told[0] == read[0]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    check_stream(told, with_tools=True)
    assert [item["content"][0]["text"] for item in ended["output"] if item["type"] == "message"][-1] == "That was all."
    assert sorted(starts(tmp_path)) == ["again-2", "once-1", "once-3"]
    assert again.status_code == 409


def client_of(gateway: RunningGateway) -> httpx2.Client:
    return httpx2.Client(base_url=gateway.url, headers=gateway.headers, timeout=TAKES)


def read_to(client: httpx2.Client, response_id: str, after: int, last: str) -> list[Json]:
    """The events of a stream behind `after`, up to the first of this type."""
    read: list[Json] = []
    path = f"/v1/responses/{response_id}?stream=true&starting_after={after}"
    with client.stream("GET", path) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                read.append(json.loads(line.removeprefix("data: ")))
                if read[-1]["type"] == last:
                    return read
    raise AssertionError(f"no {last} after {after}: {[event['type'] for event in read]}")


def starts(folder: Path) -> list[str]:
    path = folder / "starts"
    return path.read_text().split() if path.exists() else []


def without_ids(item: Json) -> Json:
    return {key: value for key, value in item.items() if key != "id"}
