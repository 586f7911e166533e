"""The session's socket: what it says unasked, many requests at once, and whatever a hostile program sends."""

import asyncio
import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.relay.scene import TOOLS, HttpCaller, next_event, on_socket

AT_ONCE = 50
ROUNDS = 3


@requirement("CTR-002-config-notification", "CON-relay-redeclare")
async def test_a_program_is_told_the_tools_on_connect_and_when_they_change(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        first = await inside.hear()
        assert (first["jsonrpc"], first["method"], "id" in first) == ("2.0", "caller_tools_config", False)
        assert first["params"] == {
            "caller_id": "ant",
            "tools": [TOOLS[0], {**TOOLS[1], "inputSchema": {"type": "object"}}],
        }
        await caller.say("", tools=[{"name": "another"}])
        assert [tool["name"] for tool in (await inside.hear())["params"]["tools"]] == ["another"]
        inside.ask(1, "send_response", {"message": "x"})
        assert (await inside.hear())["error"]["code"] == -32602


@requirement("CTR-005-socket-caller-tool", "CTR-005-request-processed", "CTR-005-response-on-answer")
async def test_a_request_on_the_socket_is_answered_when_the_caller_has(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        inside.ask("mine", "send_response", {"message": "hi"})
        request = await caller.events.get()
        while request["type"] != "caller_tool_request":
            request = await caller.events.get()
        hearing = asyncio.create_task(inside.hear())
        assert (await asyncio.wait((hearing,), timeout=0.2))[0] == set()
        assert await caller.answer(request["request_id"], result=[1, None, "x"]) == "ok"
        assert await hearing == {"jsonrpc": "2.0", "id": "mine", "result": [1, None, "x"]}


async def answer_in_any_order(caller: HttpCaller, count: int, *, dice: random.Random) -> list[str]:
    """Collect `count` requests, answer them shuffled, each with what it asked for; gives their ids."""
    requests: list[dict[str, Any]] = []
    while len(requests) < count:
        async with asyncio.timeout(15):
            event = await caller.events.get()
        if event["type"] == "caller_tool_request":
            requests.append(event)
    dice.shuffle(requests)
    answers = [caller.answer(one["request_id"], result={"echo": one["arguments"]["message"]}) for one in requests]
    assert await asyncio.gather(*answers) == ["ok"] * count
    return [one["request_id"] for one in requests]


@requirement("CON-relay-many-at-once", "CTR-003-request-id-unique")
async def test_fifty_requests_answered_in_any_order_each_get_their_own_answer(caller: HttpCaller) -> None:
    dice, seen = random.Random(8), set[str]()
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        for round_ in range(ROUNDS):
            for number in range(AT_ONCE):
                inside.ask(number, "send_response", {"message": f"{round_}-{number}"})
            seen.update(await answer_in_any_order(caller, AT_ONCE, dice=dice))
            heard = [await inside.hear() for _ in range(AT_ONCE)]
            assert {one["id"]: one["result"]["echo"] for one in heard} == {
                number: f"{round_}-{number}" for number in range(AT_ONCE)
            }
    assert len(seen) == AT_ONCE * ROUNDS


@requirement("CON-relay-socket-codes")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage\n", -32700),
        (b"\xff\xfe\x00\n", -32700),
        (b'{"params": ' + b"[" * 5_000 + b"\n", -32700),
        (b'["a", "batch"]\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}\n', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "caller_tool"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "caller_tool"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "caller_tool", "params": []}\n', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "caller_tool", "params": "x"}\n', -32602),
        (b'{"method": "caller_tool", "params": []}\n', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "project_list"}\n', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "caller_tool", "params": {}}\n', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "caller_tool", "params": {"tool": "nope"}}\n', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "caller_tool", "params": {"tool": "slow_tool", "arguments": 5}}\n',
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "caller_tool", "params": {"tool": "send_response"}}\n', -32602),
    ],
)
async def test_what_cannot_be_done_is_an_error_with_its_code(caller: HttpCaller, line: bytes, code: int) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        inside.send(line)
        told = await inside.hear()
        assert told["error"]["code"] == code
        assert told["error"]["message"]
        await works(inside, caller)


@requirement("CTR-005-request-without-id")
async def test_a_line_without_an_id_as_in_the_seed_is_answered_without_one(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        for answer, told in (({"result": {"sent": 1}}, {"result": {"sent": 1}}), ({"error": "no"}, None)):
            inside.send(b'{"method": "caller_tool", "params": {"tool": "slow_tool", "arguments": {}}}\n')
            request = await caller.events.get()
            while request["type"] != "caller_tool_request":
                request = await caller.events.get()
            assert await caller.answer(request["request_id"], **answer) == "ok"
            heard = await inside.hear()
            assert "id" not in heard
            assert heard == {"jsonrpc": "2.0", **told} if told else heard["error"]["message"] == "no"
        inside.send(b'{"method": "caller_tool", "params": {"tool": "nope"}}\n')
        refused = await inside.hear()
        assert ("id" in refused, refused["error"]["code"]) == (False, -32602)
        inside.send(b'{"method": "something_else", "params": []}\n')  # a notification is never answered
        await works(inside, caller)


async def works(inside: Any, caller: HttpCaller) -> None:
    """The connection still does what it is for."""
    inside.ask("still", "slow_tool")
    request = await caller.events.get()
    while request["type"] != "caller_tool_request":
        request = await caller.events.get()
    assert await caller.answer(request["request_id"], result="here") == "ok"
    assert await inside.hear() == {"jsonrpc": "2.0", "id": "still", "result": "here"}


@requirement("CON-relay-socket-codes")
async def test_fifty_megabytes_and_half_lines_harm_neither_their_connection_nor_another(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as hostile, on_socket(caller.record["socket"]) as neighbour:
        await hostile.hear()
        await neighbour.hear()
        half = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "caller_tool"}).encode()
        hostile.send(half[:20])
        await works(neighbour, caller)
        hostile.send(b"x" * 50_000_000 + b"\n")
        assert (await hostile.hear())["error"]["code"] in (-32600, -32700)
        hostile.send(b"\n\n")
        hostile.send(b'{"jsonrpc": "2.0", "id": 2, "method": "nothing"}\n')
        assert (await hostile.hear())["error"]["code"] == -32601
        await works(neighbour, caller)
        await works(hostile, caller)


@requirement("CON-relay-socket-owner")
async def test_each_session_has_a_socket_of_its_own_that_only_its_owner_can_enter(
    gateway: RunningGateway, caller: HttpCaller
) -> None:
    path = caller.record["socket"]
    assert mode_of(path) == 0o600
    assert mode_of(str(Path(path).parent)) == 0o700
    other = HttpCaller(gateway)
    await other.open("helper", [{"name": "b_c"}])
    try:
        assert other.record["socket"] != path
        async with on_socket(other.record["socket"]) as inside:
            assert [tool["name"] for tool in (await inside.hear())["params"]["tools"]] == ["b_c"]
            inside.ask(0, "b_c")
            assert (await next_event(other, "caller_tool_request"))["session_id"] == other.session_id
            assert [event for event in drained(caller) if event["type"] == "caller_tool_request"] == []
            inside.ask(1, "send_response", {"message": "x"})
            assert (await inside.hear())["error"]["code"] == -32602
    finally:
        await other.close()
    assert mode_of(other.record["socket"]) is None


def drained(caller: HttpCaller) -> list[dict[str, Any]]:
    return [caller.events.get_nowait() for _ in range(caller.events.qsize())]


def mode_of(path: str) -> int | None:
    return stat.S_IMODE(Path(path).stat().st_mode) if Path(path).exists() else None


async def test_a_request_that_the_program_calls_off_is_cancelled_on_record(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        inside.ask(7, "slow_tool")
        request = await caller.events.get()
        while request["type"] != "caller_tool_request":
            request = await caller.events.get()
        inside.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        assert (await inside.hear())["error"]["message"] == "Request was cancelled"
        settled = await caller.events.get()
        assert (settled["type"], settled["status"]) == ("caller_tool_settled", "cancelled")
        assert await caller.answer(request["request_id"], result=1) == "409 already_resolved"


async def test_clients_of_the_seeds_era_may_begin_with_their_header(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        assert (await inside.hear())["type"] == "caller_tools_config"
        inside.send(b"OUBLIETTE-DOWNSTREAM some-project\n")
        await works(inside, caller)
