"""The small parts of a session: presence, and what a caller lends."""

import math
from typing import Any

import pytest

from jackfield.errors import BadRequest, ToolNotFound
from jackfield.model.tool import RESERVED_NAMES
from jackfield.protocol import jsonrpc, mcp
from jackfield.sessions import bridge
from jackfield.sessions.caller_tools import (
    SIGN_LASTS,
    CallerDeclaration,
    CallerPresence,
    CallerTool,
    CallerTools,
    read_declared,
)
from tests.clock import Clock
from tests.requirement import requirement


def test_a_caller_is_there_by_a_stream_or_a_sign_and_gone_when_its_stream_closes() -> None:
    clock, changes = Clock(100.0), list[int]()
    presence = CallerPresence(grace=2, on_change=lambda: changes.append(1), clock=clock)
    assert presence.seconds_left == 0
    presence.give_sign()
    assert presence.seconds_left == SIGN_LASTS == 10
    clock.now += 9.9
    assert presence.is_here
    clock.now += 0.2
    assert presence.seconds_left == 0
    with presence.stream(), presence.stream():
        assert presence.seconds_left == math.inf
    assert presence.seconds_left == 2
    presence.give_sign()
    with presence.waiting():
        clock.now += 60
        assert presence.is_here
    assert presence.seconds_left == 10
    with presence.stream():
        presence.give_sign()
    assert presence.seconds_left == 2, "a stream that closes counts more than a sign before it"
    assert len(changes) == 7


def names(caller_id: str, *tools: str) -> dict[str, str]:
    lent = CallerTools(caller_id, tuple(CallerTool(name=name) for name in tools))
    return {entry.tool.name: entry.name for entry in lent.entries}


def test_names_with_underscores_are_a_table_and_not_a_guess() -> None:
    assert names("a_b", "c") == {"c": "a_b_c"}
    assert names("a", "b_c", "c") == {"b_c": "a_b_c", "c": "a_c"}
    lent = CallerTools("ant", (CallerTool(name="x"), CallerTool(name="ant_x")))
    assert [entry.name for entry in lent.entries] == ["ant_x", "ant_ant_x"]
    assert lent.get("ant_x").tool.name == "ant_x", "on the socket a tool has its caller's own name"
    assert lent.get("ant_ant_x").tool.name == "ant_x"
    assert [lent.own_name(name) for name in ("ant_x", "ant_ant_x")] == ["x", "ant_x"]
    with pytest.raises(ToolNotFound, match="Declared: ant_x, x"):
        lent.get("y")


@requirement("SAFE-reserved-names")
def test_a_caller_tool_never_has_the_name_of_a_built_in_tool() -> None:
    lent = CallerTools("session", (CallerTool(name="message"), CallerTool(name="note")))
    names = {entry.tool.name: entry.name for entry in lent.entries}
    assert names["note"] == "session_note"
    assert names["message"].startswith("session_message_")


@requirement("SAFE-reserved-names")
def test_beside_the_tools_of_its_agent_no_caller_tool_has_the_name_of_another() -> None:
    lent = CallerTools("tool", tuple(CallerTool(name=name) for name in ("pay", "response", "x" * 80, "x" * 81)))
    of_the_agent = {entry.name for entry in lent.entries} | {"caller_tool_pay"}
    named = lent.beside(of_the_agent)
    assert [entry.tool.name for entry in named.values()] == [tool.name for tool in lent.tools]
    assert named.keys().isdisjoint(of_the_agent | RESERVED_NAMES)
    assert all(len(name) <= 64 for name in named)
    assert lent.beside(set()) == {entry.name: entry for entry in lent.entries}


def test_spellings_that_become_one_name_are_told_apart_and_long_ones_fit() -> None:
    made = names("ant", "a-b", "a_b", "n" * 300)
    assert made["a-b"] == "ant_a_b"
    assert made["a_b"].startswith("ant_a_b_")
    assert all(len(name) <= 64 for name in made.values())
    told = CallerTools("ant", tuple(CallerTool(name=name) for name in ("a-b", "plain"))).config()
    assert told["agent_names"] == {"a-b": "ant_a_b"}


def test_the_callers_fields_are_taken_from_the_context_or_from_beside_it() -> None:
    tools = [{"name": "x", "inputSchema": {"type": "object"}, "unknown": 1}]
    expected = CallerDeclaration(caller_id="ant", tools=(CallerTool(name="x", input_schema={"type": "object"}),))
    context = {"caller_id": "ant", "caller_tools": tools, "project": "p"}
    assert read_declared(context=context, caller_id=None, caller_tools=None) == expected
    assert read_declared(context=None, caller_id="ant", caller_tools=tools) == expected
    assert read_declared(context=None, caller_id=None, caller_tools=None) == CallerDeclaration()


def test_characters_that_nobody_would_see_are_taken_out_of_what_an_agent_reads() -> None:
    hidden = "Send\u200b it\u202e now"
    schema = {"type": "object", "properties": {"to": {"type": "string", "description": hidden}}}
    tool = {"name": "x", "description": hidden, "inputSchema": schema}
    read = read_declared(context=None, caller_id=None, caller_tools=[tool])
    assert read.tools is not None
    assert read.tools[0].description == "Send it now"
    assert read.tools[0].input_schema == {
        "type": "object",
        "properties": {"to": {"type": "string", "description": "Send it now"}},
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"caller_id": 5},
        {"caller_id": ""},
        {"caller_tools": {}},
        {"caller_tools": ["x"]},
        {"caller_tools": [{"name": 5}]},
        {"caller_tools": [{"name": "x", "inputSchema": []}]},
    ],
)
def test_what_cannot_be_read_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        read_declared(context=wrong, caller_id=None, caller_tools=None)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ((CallerTool(name=""),), "no name"),
        ((CallerTool(name="x"), CallerTool(name="x")), "twice"),
        ((CallerTool(name="x", input_schema={"type": "array"}),), "arguments are always an object"),
        ((CallerTool(name="x", input_schema={"$ref": "https://evil.example/x"}),), "nothing outside a schema"),
        (tuple(CallerTool(name=str(number)) for number in range(501)), "takes 500"),
    ],
)
def test_what_cannot_be_offered_to_an_agent_is_refused(tools: tuple[CallerTool, ...], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        CallerTools("ant", tools)


def test_the_bridge_speaks_the_protocol_of_the_gateway_although_it_can_import_nothing_of_it() -> None:
    assert (*bridge.HANDSHAKE, bridge.MODERN) == (*mcp.HANDSHAKE, mcp.MODERN)
    assert (bridge.VERSION_KEY, bridge.SERVER_KEY, bridge.SUBSCRIPTION_KEY) == (
        mcp.VERSION_KEY,
        mcp.SERVER_KEY,
        mcp.SUBSCRIPTION_KEY,
    )
    for code in ("PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR"):
        assert getattr(bridge, code) == getattr(jsonrpc, code)
