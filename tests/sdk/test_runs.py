"""Following a run across breaks, against a scripted gateway."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jackfield.sdk import Client, RunNotFound
from tests.sdk.server import ScriptedGateway, refuses, says, streams

STREAM = "/api/runs/cycle_1/stream"


@pytest.fixture
async def client(scripted: ScriptedGateway) -> AsyncIterator[Client]:
    async with Client(scripted.url, "k", retries=0) as client:
        yield client


def frame(kind: str, call: str | None = None, **more: Any) -> bytes:
    about = {} if call is None else {"streamId": call, "toolName": "add"}
    return b"data: " + json.dumps({"type": kind, "runId": "cycle_1", **about, **more}).encode() + b"\n\n"


async def test_after_a_break_each_event_still_comes_once_and_the_end_is_the_last(
    scripted: ScriptedGateway, client: Client
) -> None:
    begun = frame("connected") + frame("tool.started", "c1") + frame("tool.ready", "c1", args={"a": 1})
    rest = frame("tool.done", "c1", result=2) + frame("tool.started", "c2") + frame("run.failed", error="It was late.")
    scripted.on(STREAM, streams(begun, breaks=True), streams(begun + rest))
    events = [event async for event in client.runs.stream("cycle_1")]
    assert [(event.type, event.stream_id) for event in events] == [
        ("connected", None),
        ("tool.started", "c1"),
        ("tool.ready", "c1"),
        ("tool.done", "c1"),
        ("tool.started", "c2"),
        ("run.failed", None),
    ]
    assert (events[2].args, events[3].result, events[-1].error, events[-1].is_end) == (
        {"a": 1},
        2,
        "It was late.",
        True,
    )


async def test_a_run_that_is_not_there_is_said_at_once(scripted: ScriptedGateway, client: Client) -> None:
    scripted.on(STREAM, refuses(404, "run_not_found", "There is no run."))
    with pytest.raises(RunNotFound):
        await anext(client.runs.stream("cycle_1"))


async def test_a_run_is_cancelled_and_resumed(scripted: ScriptedGateway, client: Client) -> None:
    run = {"id": "resp_1", "kind": "response", "status": "cancelled", "parked_since": None, "actions": ["resume"]}
    scripted.on("/api/runs/resp_1/cancel", says({"run": run}))
    cancelled = await client.runs.cancel("resp_1")
    assert (cancelled.status, cancelled.actions, cancelled.is_over) == ("cancelled", ("resume",), True)
    scripted.on("/api/runs/resp_1/resume", says({"run": {**run, "status": "queued"}}))
    assert (await client.runs.resume("resp_1")).status == "queued"
