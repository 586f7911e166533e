"""Responses across gateways: killed while it makes one, and several on one database."""

import asyncio
from pathlib import Path

import httpx2

from tests.harness.process import running_gateway, start_gateway
from tests.responses.conformity import check_stream
from tests.responses.scene import WITHIN, events_of, held, message, says, scene

CONFIG = """\
[models.demo]
provider = "scripted"
script = "demo.toml"
"""
SLOW = '[[turns]]\nthink = "First."\nsay = "one two three"\npace = 0.05\n[[turns]]\nsay = "a b c d e f"\npace = 30\n'


def test_a_background_response_of_a_killed_gateway_has_failed_after_the_restart(tmp_path: Path) -> None:
    first = start_gateway(tmp_path, CONFIG, files={"demo.toml": SLOW})
    with httpx2.Client(base_url=first.url, headers=first.headers, timeout=WITHIN) as client:
        spoken = client.post("/v1/responses", json={"model": "demo", "input": "Hi"}).json()
        queued = client.post("/v1/responses", json={"model": "demo", "input": "More", "background": True}).json()
        path = f"/v1/responses/{queued['id']}"
        with client.stream("GET", f"{path}?stream=true") as written:
            assert any(line == "event: response.output_text.delta" for line in written.iter_lines())
    first.kill()

    with (
        running_gateway(tmp_path) as second,
        httpx2.Client(base_url=second.url, headers=second.headers, timeout=WITHIN) as client,
    ):
        assert client.get(f"/v1/responses/{spoken['id']}").json() == spoken
        found = client.get(path).json()
        stream = events_of(client.get(f"{path}?stream=true").text)

    assert (found["status"], found["error"]["code"]) == ("failed", "interrupted")
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert [event["type"] for event in stream[-2:]] == ["error", "response.failed"]
    assert stream[-1]["response"] == found
    assert "response.output_text.delta" in [event["type"] for event in stream]


async def test_gateways_on_one_database_continue_resume_and_cancel_each_others_responses(
    tmp_path: Path, postgres_url: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with scene(tmp_path / "a", store=postgres_url) as a, scene(tmp_path / "b", store=postgres_url) as b:
        a.engine.plays(says("One."), held(asyncio.Event(), *message("Half")[:2]))
        b.engine.plays(says("Two."))
        first = await a.create()
        second = await b.create(previous_response_id=first["id"])
        queued = await a.create(background=True)
        reading = asyncio.create_task(b.again(queued["id"]))

        answer = await b.client.post(f"/v1/responses/{queued['id']}/cancel")

        assert second["previous_response_id"] == first["id"]
        assert answer.json()["status"] == "cancelled"
        assert a.engine.stopped.is_set()
        assert answer.json() == await a.get(queued["id"])
        stream = await asyncio.wait_for(reading, WITHIN)
        check_stream(stream)
        assert stream[-1]["response"] == answer.json()
