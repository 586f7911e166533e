"""A tool call of a response that wants a login: the response ends with the link, and goes on with the result."""

from pathlib import Path
from typing import Any

from jackfield.model.call import CallStatus
from tests.calls.login_harness import SOURCE, LoginServer, add_login_source
from tests.requirement import requirement
from tests.stories.agent_harness import AgentsGateway, agents_gateway
from tests.waiting import eventually_async

CONFIG = """
[auth.keys.caller]
key = "caller-key"
scopes = ["call", "answer"]
"""
SCRIPT = """
[[turns]]
when = { user = "book it" }
calls = [{ tool = "book", arguments = { n = 1 } }]
[[turns]]
when = { user = "guarded" }
calls = [{ tool = "book_with_approval", arguments = { n = 2 } }]
[otherwise]
say = "Noted."
"""
CALLER = {"x-api-key": "caller-key"}
CATALOG = {"type": "mcp", "server_label": "jackfield"}


async def respond(place: AgentsGateway, text: Any, **more: Any) -> Any:
    body = {"model": "mind", "input": text, "tools": [CATALOG], **more}
    answer = await place.client.post("/v1/responses", json=body, headers=CALLER)
    assert answer.status_code == 200, answer.text
    return answer.json()


@requirement("ID-login-responses")
async def test_the_item_has_the_link_and_the_next_response_the_result(tmp_path: Path) -> None:
    server = LoginServer()
    async with agents_gateway(tmp_path, SCRIPT, CONFIG) as place:
        await add_login_source(place.gateway, server)
        first = await respond(place, "book it")
        (item,) = [one for one in first["output"] if one["type"] == "mcp_call"]
        assert item["status"] == "incomplete"
        call_id = item["id"].partition("_")[2]
        assert f"/connect/{call_id}" in item["output"]
        assert "pending_login" in item["output"]
        server.log_in("caller")
        await place.gateway.answers.login_done(SOURCE, "caller")
        ended = await place.gateway.pipeline.wait(call_id, seconds=10)
        assert (ended.status, server.acted) == (CallStatus.COMPLETED, [call_id])
        await respond(place, "And now?", previous_response_id=first["id"])
        assert any('"booked":1' in str(item) for item in place.requests[-1].items)
        assert server.acted == [call_id]


@requirement("ID-login-responses")
async def test_an_approved_call_that_wants_a_login_does_not_hold_the_response_up(tmp_path: Path) -> None:
    server = LoginServer()
    async with agents_gateway(tmp_path, SCRIPT, CONFIG) as place:
        await add_login_source(place.gateway, server)
        first = await respond(place, "guarded")
        (asked,) = [one for one in first["output"] if one["type"] == "mcp_approval_request"]
        yes = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
        second = await respond(place, [yes], previous_response_id=first["id"])
        (item,) = [one for one in second["output"] if one["type"] == "mcp_call"]
        assert item["status"] == "incomplete"
        call_id = item["id"].partition("_")[2]
        assert f"/connect/{call_id}" in item["output"]
        server.log_in("caller")
        await place.gateway.answers.login_done(SOURCE, "caller")

        async def acted() -> bool:
            return server.acted == [call_id]

        await eventually_async(acted)
