"""`/v1/responses` as JSON: made, kept, read, continued, deleted; refused in the right words."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.errors import BadRequest, RateLimited
from jackfield.model.items import FunctionCall, FunctionCallOutput, McpCall, Message, text_of
from jackfield.responses import transactions as response_tx
from tests.requirement import requirement
from tests.responses.conformity import check_resource
from tests.responses.scene import ADMIN_KEY, WITHIN, Scene, function_call, held, message, refuses, says, scene, tells


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as opened:
        yield opened


def error_of(body: dict[str, Any]) -> tuple[str, str, str | None]:
    error = body["error"]
    assert set(error) == {"type", "code", "message", "param"}
    assert error["message"]
    return error["type"], error["code"], error["param"]


async def test_a_response_has_all_its_keys_with_values_of_the_right_types(here: Scene) -> None:
    here.engine.plays(says("Hello."))

    response = await here.create()

    check_resource(response)
    assert response["id"].startswith("resp_")
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hello."
    assert response["usage"] == {
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    assert response["completed_at"] >= response["created_at"]
    assert here.engine.asked[0].response_id == response["id"]


@requirement("CON-resp-stored")
async def test_a_response_is_read_again_as_it_was_answered(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    response = await here.create()

    assert await here.get(response["id"]) == response


@requirement("CON-resp-stored")
async def test_a_response_that_is_not_to_be_stored_is_not(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    response = await here.create(store=False)
    assert response["store"] is False

    body = await here.get(response["id"], status=404)

    assert error_of(body) == ("not_found", "response_not_found", "response_id")
    refused = await here.create(400, previous_response_id=response["id"])
    assert error_of(refused) == ("invalid_request", "previous_response_not_found", "previous_response_id")


@requirement("CON-resp-stored")
async def test_a_conversation_goes_on_with_all_that_was_said(here: Scene) -> None:
    here.engine.plays(says("One."), says("Two."), says("Three."))
    first = await here.create(input="first")
    second = await here.create(input="second", previous_response_id=first["id"], instructions="Be brief.")
    third = await here.create(input="third", previous_response_id=second["id"])

    said = [item for item in here.engine.asked[2].history if isinstance(item, Message)]
    assert [(item.role, text_of(item)) for item in said] == [
        ("user", "first"),
        ("assistant", "One."),
        ("user", "second"),
        ("assistant", "Two."),
    ]
    assert [text_of(item) for item in here.engine.asked[2].request.input if isinstance(item, Message)] == ["third"]
    assert third["previous_response_id"] == second["id"]
    assert (second["instructions"], third["instructions"]) == ("Be brief.", None)


@requirement("CON-resp-errors")
async def test_an_unknown_previous_response_is_a_400_that_names_it(here: Scene) -> None:
    refused = await here.create(400, previous_response_id="resp_unknown")

    assert error_of(refused) == ("invalid_request", "previous_response_not_found", "previous_response_id")
    assert "resp_unknown" in refused["error"]["message"]
    assert here.engine.asked == []


async def test_a_conversation_with_a_deleted_turn_cannot_be_continued(here: Scene) -> None:
    here.engine.plays(says("One."), says("Two."))
    first = await here.create()
    second = await here.create(previous_response_id=first["id"])
    await here.client.delete(f"/v1/responses/{first['id']}")

    refused = await here.create(400, previous_response_id=second["id"])

    assert error_of(refused) == ("invalid_request", "previous_response_not_found", "previous_response_id")
    assert first["id"] in refused["error"]["message"]


async def test_a_response_belongs_to_its_key(here: Scene) -> None:
    here.engine.plays(says("Hello."), says("Hello again."))
    response = await here.create()
    rival = {"authorization": "Bearer rival-key"}
    path = f"/v1/responses/{response['id']}"

    for method, where in (("GET", path), ("DELETE", path), ("POST", f"{path}/cancel"), ("GET", f"{path}/input_items")):
        answer = await here.client.request(method, where, headers=rival)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "response_not_found")
    body = {"model": "demo", "input": "Hi", "previous_response_id": response["id"]}
    answer = await here.client.post("/v1/responses", headers=rival, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "previous_response_not_found")
    assert await here.get(response["id"], key=ADMIN_KEY) == response


async def test_a_key_that_may_only_read_makes_no_response(here: Scene) -> None:
    answer = await here.client.post(
        "/v1/responses", headers={"authorization": "Bearer reader-key"}, json={"model": "demo", "input": "Hi"}
    )
    assert answer.status_code == 403


@requirement("CON-resp-stored")
async def test_a_deleted_response_is_gone(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    response = await here.create()

    answer = await here.client.delete(f"/v1/responses/{response['id']}")

    assert answer.status_code == 200
    assert answer.json() == {"id": response["id"], "object": "response", "deleted": True}
    await here.get(response["id"], status=404)
    assert (await here.client.delete(f"/v1/responses/{response['id']}")).status_code == 404


@requirement("CON-resp-stored")
async def test_the_input_of_a_response_is_read_in_pages(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    response = await here.create(input=[{"role": "user", "content": f"word {number}"} for number in range(5)])
    path = f"{response['id']}/input_items"

    newest = await here.get(f"{path}?limit=2")
    rest = await here.get(f"{path}?limit=20&after={newest['last_id']}")

    def said(page: dict[str, Any]) -> list[str]:
        return [item["content"][0]["text"] for item in page["data"]]

    assert newest["object"] == "list"
    assert (said(newest), newest["has_more"]) == (["word 4", "word 3"], True)
    assert (said(rest), rest["has_more"]) == (["word 2", "word 1", "word 0"], False)
    assert said(await here.get(f"{path}?order=asc"))[0] == "word 0"
    assert (await here.get(f"{path}?after=nothing", status=400))["error"]["param"] == "after"


@requirement("CON-resp-input-string")
async def test_a_full_history_is_taken_as_input(here: Scene) -> None:
    here.engine.plays(says("Done."))
    await here.create(
        input=[
            {"role": "user", "content": "Weather?"},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"type": "mcp_list_tools", "id": "l1", "server_label": "s", "tools": [{"name": "t", "input_schema": {}}]},
            {"type": "mcp_call", "id": "m1", "server_label": "s", "name": "t", "arguments": "{}", "output": "ok"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]},
        ]
    )

    kinds = [type(item).__name__ for item in here.engine.asked[0].request.input]
    assert kinds == ["Message", "FunctionCall", "FunctionCallOutput", "McpListTools", "McpCall", "Message"]
    assert isinstance(here.engine.asked[0].request.input[4], McpCall)


@requirement("TOOL-scope-unknown-output", "TOOL-result-call-id")
async def test_outputs_must_answer_exactly_the_calls_that_are_open(here: Scene) -> None:
    calls = [*function_call("weather", "c1"), *function_call("time", "c2", number=1)]
    here.engine.plays(tells(*calls), says("Sunny at noon."))
    asked = await here.create(tools=[{"type": "function", "name": "weather"}, {"type": "function", "name": "time"}])

    def output(call_id: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call_id, "output": "sunny"}

    for given, named in (
        ([output("c1")], "'c2'"),
        ([output("c1"), output("c2"), output("c3")], "'c3'"),
        ([output("c1"), output("c2"), output("c1")], "'c1'"),
        ([], "'c1'"),
    ):
        refused = await here.create(400, previous_response_id=asked["id"], input=given)
        assert error_of(refused) == ("invalid_request", "invalid_request", "input")
        assert named in refused["error"]["message"]
    assert len(here.engine.asked) == 1

    done = await here.create(previous_response_id=asked["id"], input=[output("c2"), output("c1")])

    assert done["output"][0]["content"][0]["text"] == "Sunny at noon."
    assert [item.call_id for item in here.engine.asked[1].history if isinstance(item, FunctionCall)] == ["c1", "c2"]
    given_outputs = [item for item in here.engine.asked[1].request.input if isinstance(item, FunctionCallOutput)]
    assert [item.call_id for item in given_outputs] == ["c2", "c1"]


@requirement("CON-resp-errors")
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "Hi"}, "model"),
        ({"model": "demo"}, "input"),
        ({"model": "demo", "input": "Hi", "temperature": 9}, "temperature"),
        ({"model": "demo", "input": [{"type": "nothing"}]}, "input[0].type"),
        ({"model": "demo", "input": "Hi", "tools": [{"type": "function", "name": "no spaces"}]}, "tools[0].name"),
        ({"model": "demo", "input": "Hi", "background": True, "store": False}, "store"),
        ({"model": "demo", "input": "Hi", "conversation": "c"}, "conversation"),
    ],
)
async def test_what_is_wrong_with_a_request_is_a_400_that_names_it(
    here: Scene, body: dict[str, Any], param: str
) -> None:
    answer = await here.client.post("/v1/responses", json=body)

    assert answer.status_code == 400
    assert error_of(answer.json()) == ("invalid_request", "invalid_request", param)


async def test_what_the_engine_refuses_before_it_begins_is_an_error_answer_and_nothing_is_kept(here: Scene) -> None:
    here.engine.plays(refuses(RateLimited("Too many.", retry_after=7)), refuses(BadRequest("No.", param="tools")))

    limited = await here.client.post("/v1/responses", json={"model": "demo", "input": "Hi"})
    refused = await here.client.post("/v1/responses", json={"model": "demo", "input": "Hi", "stream": True})

    assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
    assert error_of(limited.json()) == ("too_many_requests", "rate_limited", None)
    assert (refused.status_code, error_of(refused.json())) == (400, ("invalid_request", "invalid_request", "tools"))
    await here.get(here.engine.asked[0].response_id, status=404)


async def test_a_run_that_crashes_is_a_failed_response_without_its_details(here: Scene) -> None:
    async def crash(emit: Any) -> None:
        await says("Hel")(lambda event: emit(event) if type(event).__name__ != "Ended" else None)
        raise ZeroDivisionError("secret detail")

    here.engine.plays(crash)

    response = await here.create()

    check_resource(response)
    assert (response["status"], response["error"]["code"]) == ("failed", "internal_error")
    assert "secret" not in str(response)
    assert response["output"][0]["content"][0]["text"] == "Hel"
    assert await here.get(response["id"]) == response


async def test_a_response_that_is_being_made_can_be_read_but_not_continued(here: Scene) -> None:
    gate = asyncio.Event()
    here.engine.plays(held(gate, *message("Half")[:2], after=tuple(message("Half")[2:])))
    making = asyncio.create_task(here.create())
    await asyncio.wait_for(here.engine.was_asked.wait(), WITHIN)
    response_id = here.engine.asked[0].response_id

    now = await here.get(response_id)
    refused = await here.create(409, previous_response_id=response_id)

    check_resource(now)
    assert (now["status"], now["output"][0]["content"][0]["text"]) == ("in_progress", "Ha")
    assert refused["error"]["param"] == "previous_response_id"
    gate.set()
    assert (await making)["output"][0]["content"][0]["text"] == "Half"


async def test_headers_and_authorization_of_a_server_are_neither_shown_nor_kept(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    tool = {
        "type": "mcp",
        "server_label": "s",
        "server_url": "https://mcp.example/mcp",
        "headers": {"x-token": "hush-1"},
        "authorization": "hush-2",
        "require_approval": {"never": {"tool_names": ["t"]}},
    }

    response = await here.create(tools=[tool])

    assert "hush" not in str(response)
    assert "hush" not in str(await here.gateway.store.read(partial(response_tx.get_response, response["id"])))
    echoed = response["tools"][0]
    assert (echoed["type"], echoed["server_url"]) == ("mcp", "https://mcp.example/mcp")
    asked = here.engine.asked[0].request.tools[0]
    assert (asked.headers, asked.authorization) == ({"x-token": "hush-1"}, "hush-2")  # type: ignore[union-attr]


async def test_the_models_of_the_config_are_listed(here: Scene) -> None:
    answer = await here.client.get("/v1/models")

    assert answer.json() == {
        "object": "list",
        "data": [{"id": "demo", "object": "model", "created": 0, "owned_by": "jackfield"}],
    }
    one = await here.client.get("/v1/models/demo")
    assert one.json() == {"id": "demo", "object": "model", "created": 0, "owned_by": "jackfield"}
    missing = await here.client.get("/v1/models/dmo")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
    assert "Did you mean 'demo'?" in missing.json()["error"]["message"]
