"""The relay over HTTP: who may do what, the first answer, events by index, and what a session's own key reaches."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.protocol.sse import EventParser
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.relay.scene import ANT, BEE, OPS, HttpCaller, next_event, on_socket
from tests.waiting import eventually


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def as_key(gateway: RunningGateway, key: str) -> httpx2.Client:
    return httpx2.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {key}"}, timeout=15)


@requirement("CON-relay-http-twin")
async def test_a_configured_agent_calls_the_callers_function_and_says_what_came_of_it(gateway: RunningGateway) -> None:
    caller = HttpCaller(gateway)
    await caller.open("helper", message="send it")
    try:
        request = await next_event(caller, "caller_tool_request")
        assert (request["tool"], request["arguments"]) == ("send_response", {"message": "hello"})
        assert await caller.answer(request["request_id"], result="it arrived") == "ok"
        assert (await next_event(caller, "delta"))["text"].startswith("I was told")
        assert (await next_event(caller, "message"))["text"] == "I was told: it arrived"
        assert (await next_event(caller, "completion"))["text"] == "I was told: it arrived"
        assert (await next_event(caller, "status"))["status"] == "idle"
        await caller.say("and now?")
        assert (await next_event(caller, "completion"))["text"] == "Good day to you."
    finally:
        await caller.close()


@requirement("CON-relay-owner-answers", "CON-relay-first-answer")
async def test_only_the_owner_answers_and_only_once(gateway: RunningGateway, caller: HttpCaller) -> None:
    path = f"/api/sessions/{caller.session_id}"
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        inside.ask(1, "slow_tool")
        request_id = (await next_event(caller, "caller_tool_request"))["request_id"]
        body = {"request_id": request_id, "result": "mine"}
        with as_key(gateway, BEE) as bee, as_key(gateway, OPS) as ops:
            for other in (bee, ops):
                assert other.post(f"{path}/tool-responses", json=body).status_code == 403
                ours = {"callId": request_id, "result": "mine"}
                assert other.post(f"/api/runs/{caller.session_id}/tool-results", json=ours).status_code == 403
                assert other.post(f"{path}/messages", json={"message": "hello"}).status_code == 403
            assert bee.get(path).status_code == bee.get(f"{path}/events?since_index=-1").status_code == 403
            assert bee.delete(path).status_code == 403
            assert ops.get(path).json()["session"]["socket"] == caller.record["socket"]
            assert ops.get(path).json()["session"]["token"] is None
            assert ops.get(f"{path}/events?since_index=-1").status_code == 200
        assert await caller.answer("call_unknown", result=1) == "404 call_not_found"
        assert await caller.answer(request_id, result=None) == "ok"
        assert await inside.hear() == {"jsonrpc": "2.0", "id": 1, "result": None}
        assert await caller.answer(request_id, result=2) == "409 already_resolved"
        answer = await caller.http.post(f"{path}/messages", json={"message": "x", "caller_id": "bee"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    with as_key(gateway, OPS) as ops:
        assert ops.delete(path).json()["session"]["status"] == "completed"
    assert (await caller.http.post(f"{path}/messages", json={"message": "x"})).status_code == 409


@requirement("CON-relay-http-twin")
async def test_events_are_had_again_by_index_and_by_last_event_id(caller: HttpCaller) -> None:
    for number in range(3):
        await caller.say(f"word {number}")
        await next_event(caller, "completion")
    path = f"/api/sessions/{caller.session_id}/events"
    page = (await caller.http.get(f"{path}?since_index=-1")).json()
    indexes = [event["index"] for event in page["events"]]
    assert indexes == list(range(page["last_index"] + 1))
    assert {key: page[key] for key in ("session_id", "completed", "failed", "error", "dropped_events")} == {
        "session_id": caller.session_id,
        "completed": False,
        "failed": False,
        "error": None,
        "dropped_events": 0,
    }
    later = (await caller.http.get(f"{path}?since_index=4&max_events=2")).json()
    assert [event["index"] for event in later["events"]] == [5, 6]
    await caller.hang_up()
    while not caller.events.empty():
        caller.events.get_nowait()
    await caller.follow(**{"Last-Event-ID": "4"})
    assert [(await caller.events.get()) for _ in range(3)] == page["events"][5:8]


@requirement("CON-relay-ring")
async def test_a_thousand_events_are_kept_and_it_is_told_what_was_dropped(gateway: RunningGateway) -> None:
    caller = HttpCaller(gateway)
    await caller.open("echo")
    try:
        for number in range(1_050):
            await caller.say(f"word {number}")
        path = f"/api/sessions/{caller.session_id}/events"

        async def page(since: int) -> httpx2.Response:
            return await caller.http.get(f"{path}?since_index={since}")

        whole = (await page(-1)).json()
        while whole["last_index"] < 1_051:
            whole = (await caller.http.get(f"{path}?since_index={whole['last_index']}&wait=5")).json()
        whole = (await page(-1)).json()
        assert len(whole["events"]) == 1_000
        assert whole["dropped_events"] == whole["last_index"] + 1 - 1_000
        purged = await page(0)
        assert purged.status_code == 410
        oldest = whole["events"][0]["index"]
        assert f"oldest available: {oldest}" in purged.json()["error"]["message"]
        assert (await page(oldest - 1)).json()["events"] == whole["events"]
        streamed = await caller.http.get(path, headers={"Last-Event-ID": "0", "Accept": "text/event-stream"})
        assert streamed.status_code == 410
    finally:
        await caller.close()


@requirement("CON-relay-sessions-command")
async def test_a_program_hears_lines_says_events_and_leaves_nothing_behind(gateway: RunningGateway) -> None:
    caller = HttpCaller(gateway)
    await caller.open("echo", message="good\nday")
    try:
        shown = json.loads((await next_event(caller, "message"))["text"])
        assert shown["JACKFIELD_SOCKET"] == caller.record["socket"]
        assert shown["JACKFIELD_TOKEN"] == caller.record["token"]
        assert (shown["COLOUR"], shown["HIDDEN_FROM_ALL"]) == ("blue", None)
        assert (await next_event(caller, "message"))["text"] == "heard good\\nday"
        assert lives(shown["child"])
        eventually(lambda: "a word for the log" in gateway.log)
        await caller.http.delete(f"/api/sessions/{caller.session_id}")
        for pid in (shown["pid"], shown["child"]):
            eventually(lambda pid=pid: not lives(pid))  # type: ignore[misc]
    finally:
        await caller.close()


@requirement("CON-relay-sessions-command")
async def test_the_end_of_a_program_is_noticed_and_a_request_names_no_command(gateway: RunningGateway) -> None:
    caller = HttpCaller(gateway)
    await caller.open("brief")
    try:
        assert (await next_event(caller, "message"))["text"] == "bye"
        assert (await next_event(caller, "error"))["error"] == "The program failed: it exited with code 3"
        assert (await next_event(caller, "status"))["status"] == "failed"
        path = f"/api/sessions/{caller.session_id}/events"
        page = (await caller.http.get(f"{path}?since_index=-1")).json()
        assert (page["status"], page["failed"], page["completed"]) == ("failed", True, False)
        ended = await caller.http.get(path, headers={"Last-Event-ID": str(page["last_index"])})
        assert ended.status_code == 204
        for body in ({"agent": "echo", "command": ["true"]}, {"agent": "echo", "context": 5}):
            assert (await caller.http.post("/api/sessions", json=body)).status_code == 400
        assert (await caller.http.post("/api/sessions", json={"agent": "rm -rf"})).status_code == 404
    finally:
        await caller.close()


async def test_no_more_programs_run_at_once_than_the_config_allows(gateway: RunningGateway) -> None:
    callers = [HttpCaller(gateway) for _ in range(3)]
    try:
        for caller in callers:
            await caller.open("echo")
        refused = await callers[0].http.post("/api/sessions", json={"agent": "echo"})
        assert (refused.status_code, "3 sessions of 'echo'" in refused.text) == (503, True)
    finally:
        for caller in callers:
            await caller.close()


async def test_a_relayed_call_is_seen_by_who_follows_calls(gateway: RunningGateway, caller: HttpCaller) -> None:
    seen: list[dict[str, Any]] = []
    async with caller.http.stream("GET", "/api/v1/calls/stream", timeout=15) as stream:
        pieces, parser = stream.aiter_bytes(), EventParser()
        parser.feed(await anext(pieces))
        async with on_socket(caller.record["socket"]) as inside:
            await inside.hear()
            inside.ask(1, "slow_tool")
            request = await next_event(caller, "caller_tool_request")
            assert await caller.answer(request["request_id"], result=1) == "ok"
        while not seen or seen[-1]["type"] != "call.settled":
            seen += [json.loads(event.data) for event in parser.feed(await anext(pieces))]
    of_ours = [(one["type"], one["tool"], one["status"]) for one in seen if one["call_id"] == request["request_id"]]
    assert of_ours == [("call.pending", "ant_slow_tool", "waiting"), ("call.settled", "ant_slow_tool", "completed")]


@requirement("CON-key-session")
async def test_a_sessions_key_reaches_its_tools_and_nothing_else(gateway: RunningGateway, caller: HttpCaller) -> None:
    with as_key(gateway, caller.record["token"]) as key:
        listed = key.get("/api/v1/tools").json()["tools"]
        assert [(tool["name"], tool["source"]) for tool in listed] == [
            ("ant_send_response", "caller"),
            ("ant_slow_tool", "caller"),
        ]
        assert key.get("/api/v1/tools/ant_slow_tool").json()["description"] == "Takes its time"
        assert key.get("/api/v1/tools/search?q=send").json()["tools"][0]["name"] == "ant_send_response"
        calling = asyncio.create_task(
            asyncio.to_thread(key.post, "/api/v1/tools/ant_send_response/execute", json={"arguments": {"message": "x"}})
        )
        request = await next_event(caller, "caller_tool_request")
        assert await caller.answer(request["request_id"], result={"status": "sent"}) == "ok"
        made = (await calling).json()
        assert (made["status"], made["result"], made["run_id"]) == ("completed", {"status": "sent"}, caller.session_id)
        wrong = key.post("/api/v1/tools/ant_send_response/execute", json={"arguments": {}})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_arguments")
        for method, path in (
            ("GET", "/api/v1/calls"),
            ("GET", f"/api/v1/calls/{made['call_id']}"),
            ("POST", f"/api/v1/calls/{made['call_id']}/cancel"),
            ("GET", "/api/sessions"),
            ("POST", "/api/sessions"),
            ("GET", f"/api/sessions/{caller.session_id}"),
            ("POST", f"/api/sessions/{caller.session_id}/tool-responses"),
            ("GET", "/metrics"),
            ("POST", "/v1/responses"),
            ("GET", "/api/v1/tools/set"),
            ("POST", "/api/v1/tools"),
        ):
            assert key.request(method, path).status_code == 403, path
    with as_key(gateway, ANT) as ant:
        record = ant.get(f"/api/v1/calls/{made['call_id']}").json()["call"]
        assert (record["source"], record["principal"], record["tool"]) == ("caller", "ant", "ant_send_response")
    token = caller.record["token"]
    await caller.http.delete(f"/api/sessions/{caller.session_id}")
    with as_key(gateway, token) as key:
        assert key.get("/api/v1/tools").status_code == 401


@pytest.mark.parametrize(
    "tools",
    [[{"description": "nameless"}], [{"name": "x"}, {"name": "x"}], [{"name": "x", "inputSchema": {"type": "banana"}}]],
)
async def test_tools_that_cannot_be_offered_are_refused_with_a_reason(
    caller: HttpCaller, tools: list[dict[str, object]]
) -> None:
    answer = await caller.http.post(
        f"/api/sessions/{caller.session_id}/messages", json={"message": "x", "caller_tools": tools}
    )
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "caller_tools")
