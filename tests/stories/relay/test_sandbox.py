"""The seed's scenarios: a program in a real sandbox, the SDK's MCP client and the bridge, for each kind of caller."""

import pytest

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.relay.scene import SCHEMA, TOOLS, Commanded, caller_of, next_event

CALLERS = ["http", "legacy", "2026-07-28"]


@requirement(
    "CTR-001-native-tool",
    "CTR-001-prefixed-name",
    "CTR-001-existing-stream",
    "CTR-001-call-emits-request",
    "CTR-001-caller-answers",
    "CTR-001-agent-gets-result",
    "CTR-001-empty-arguments",
    "CTR-002-dynamic-registration",
    "CTR-002-declared-in-context",
    "CTR-002-registers-on-notification",
    "CTR-002-agent-discovers",
    "CTR-002-agent-calls-declared",
    "CTR-002-description-carried",
    "CTR-002-schema-optional",
    "CTR-002-schema-listed",
    "CTR-002-schema-validates",
    "CTR-003-event-on-stream",
    "CTR-003-event-type",
    "CTR-003-event-request-id",
    "CTR-003-event-tool-bare",
    "CTR-003-event-arguments",
    "CTR-004-result-resolves",
    "CTR-004-result-delivered",
    "CTR-004-error-resolves",
    "CTR-004-error-delivered",
    "CON-relay-redeclare",
)
@pytest.mark.parametrize("kind", CALLERS)
async def test_a_sandboxed_agent_uses_caller_tools_like_its_own(gateway: RunningGateway, kind: str) -> None:
    async with caller_of(kind, gateway) as caller:
        await caller.open("inside")
        agent = Commanded(caller)
        await agent.ready()
        assert (await agent.do("list"))["tools"] == [
            ["ant_send_response", "Send message", SCHEMA],
            ["ant_slow_tool", "Takes its time", {"type": "object"}],
        ]

        # Arguments that break the schema are refused before anybody is asked: the next request is another call's.
        wrong = await agent.do("call", name="ant_send_response", arguments={"message": 5})
        assert wrong["is_error"]
        assert "message" in wrong["text"]

        sent = await agent.begin("call", name="ant_send_response", arguments={"message": "hi"})
        request = await next_event(caller, "caller_tool_request")
        assert (request["session_id"], request["tool"]) == (caller.session_id, "send_response")
        assert request["arguments"] == {"message": "hi"}
        assert await caller.answer(request["request_id"], result={"status": "sent"}, error=None) == "ok"
        assert (await agent.told(sent))["structured"] == {"status": "sent"}

        slow = await agent.begin("call", name="ant_slow_tool", arguments={})
        second = await next_event(caller, "caller_tool_request")
        assert (second["tool"], second["arguments"]) == ("slow_tool", {})
        assert second["request_id"] != request["request_id"]
        assert await caller.answer(second["request_id"], result=None, error="recipient not found") == "ok"
        failed = await agent.told(slow)
        assert (failed["is_error"], failed["text"]) == (True, "recipient not found")

        changed = await agent.begin("changed")
        await caller.say('{"n": 0, "do": "nothing"}', tools=[*TOOLS, {"name": "later"}])
        await agent.told(changed)
        assert "ant_later" in [tool[0] for tool in (await agent.do("list"))["tools"]]


@requirement("CTR-001-native-tool", "CON-relay-sessions-command")
async def test_the_sandbox_has_the_socket_and_no_network(gateway: RunningGateway) -> None:
    async with caller_of("http", gateway) as caller:
        await caller.open("inside")
        agent = Commanded(caller)
        await agent.ready()
        assert (await agent.do("network", host="127.0.0.1", port=gateway.port))["reached"] is False
        assert {"JACKFIELD_SOCKET", "JACKFIELD_TOKEN"} <= set((await agent.do("env"))["names"])
        pending = await agent.begin("call", name="ant_slow_tool", arguments={})
        request = await next_event(caller, "caller_tool_request")
        assert await caller.answer(request["request_id"], result=None) == "ok"
        assert (await agent.told(pending))["text"] == "null"
