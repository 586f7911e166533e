"""What is pushed to an MCP client of its relay sessions: once, in order, across streams, nothing that is settled."""

import asyncio
import json
import math
from typing import Any

from msgspec import Raw

from jackfield.mcp.sessions import Push, SessionPush
from jackfield.model.principal import Principal
from jackfield.sessions.caller_tools import CallerPresence
from jackfield.sessions.session import AgentSession, OpenRequest, SessionLimits


def a_session() -> AgentSession:
    owner = Principal(name="ant", scopes=frozenset({"call"}))
    presence = CallerPresence(grace=0, on_change=lambda: None)
    return AgentSession(
        "ses", owner=owner, agent="a", kind="agent", token="t", presence=presence, limits=SessionLimits()
    )


def request(session: AgentSession, name: str) -> None:
    timer = asyncio.get_running_loop().call_later(60, lambda: None)
    session.requests[name] = OpenRequest(call_id=name, tool="say", timer=timer)
    session.events.add("caller_tool_request", request_id=name, tool="say", arguments=Raw(b"{}"))


async def next_of(outbox: "asyncio.Queue[Push]", *, sends: bool = True) -> dict[str, Any]:
    push = await asyncio.wait_for(outbox.get(), 5)
    if sends and push.on_sent is not None:
        await push.on_sent()
    told: dict[str, Any] = json.loads(push.message)["params"]["data"]
    return told


async def test_a_request_that_was_on_its_way_when_the_stream_broke_is_told_on_the_next_and_no_other_twice() -> None:
    session, pushing = a_session(), SessionPush(lambda: None)
    pushing.bind(session)
    async with pushing.stream() as outbox:
        request(session, "first")
        request(session, "second")
        assert (await next_of(outbox))["request_id"] == "first"
        assert (await next_of(outbox, sends=False))["request_id"] == "second"
        assert session.presence.seconds_left == math.inf
    assert session.presence.seconds_left == 0
    async with pushing.stream() as outbox:
        assert (await next_of(outbox))["request_id"] == "second"
        request(session, "third")
        assert (await next_of(outbox))["request_id"] == "third"


async def test_what_was_settled_meanwhile_or_purged_is_left_out_and_the_rest_still_comes() -> None:
    session, pushing = a_session(), SessionPush(lambda: None)
    async with pushing.stream() as outbox:
        pushing.bind(session)
        request(session, "first")
        await next_of(outbox)
    request(session, "settled")
    del session.requests["settled"]
    for number in range(1_100):
        session.events.add("message", text=str(number))
    request(session, "open")
    async with pushing.stream() as outbox:
        assert (await next_of(outbox))["request_id"] == "open"
        assert outbox.empty()


async def test_other_events_are_told_to_who_asked_for_them() -> None:
    level: list[str] = []
    session, pushing = a_session(), SessionPush(lambda: level[0] if level else None)
    pushing.bind(session)
    async with pushing.stream() as outbox:
        session.events.add("message", text="unheard")
        request(session, "first")
        assert (await next_of(outbox))["request_id"] == "first"
        level.append("debug")
        session.events.add("message", text="heard")
        assert (await next_of(outbox))["text"] == "heard"
        level[0] = "warning"
        session.events.add("message", text="unheard")
        request(session, "second")
        assert (await next_of(outbox))["request_id"] == "second"
