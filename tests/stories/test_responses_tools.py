"""Tools of a request through the official openai SDK: the client's functions, the catalog, MCP servers brought along.

As in `test_responses_openai.py`, everything that comes over the wire is also held against the schemas.
"""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.sources.mcp.scene import HttpServer, http_server
from tests.stories.responses import (
    CALLER_KEY,
    CATALOG,
    LOCATE,
    MODEL,
    WEATHER,
    Sdk,
    Tap,
    calls_of,
    kinds,
)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A real MCP server that nobody put into the config."""
    with http_server(tmp_path_factory.mktemp("far")) as server:
        yield server


def server(far: HttpServer, **fields: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": "far", "server_url": far.url, **fields}


def ask(client: Sdk, said: Any, *tools: dict[str, Any], **fields: Any) -> Any:
    return client.responses.create(model=MODEL, input=said, tools=list(tools), **fields)


def ask_streamed(client: Sdk, said: Any, *tools: dict[str, Any], **fields: Any) -> Any:
    """The same by a stream, through the SDK's accumulator."""
    with client.responses.stream(model=MODEL, input=said, tools=list(tools), **fields) as stream:
        return stream.get_final_response()


ASK = pytest.mark.parametrize("asking", [ask, ask_streamed], ids=["plain", "streamed"])


def output_for(call: Any, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def answer_to(request: Any, *, approve: bool, **fields: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve, **fields}


@requirement(
    "TOOL-function-openai-pattern",
    "TOOL-function-call-items",
    "TOOL-function-not-executed",
    "TOOL-function-completed-single-turn",
    "TOOL-function-output-follow-up",
)
@ASK
def test_a_function_is_called_by_the_client_and_its_output_continues_the_response(client: Sdk, asking: Any) -> None:
    asked = asking(client, "weather?", WEATHER)
    (call,) = asked.output
    assert (asked.status, call.type, call.name) == ("completed", "function_call", "get_weather")
    assert json.loads(call.arguments) == {"city": "Lisbon"}

    told = asking(client, [output_for(call, "sunny")], WEATHER, previous_response_id=asked.id)
    assert (told.status, told.output_text) == ("completed", "The result is sunny.")


@requirement("CON-resp-input-string", "TOOL-function-openai-pattern")
def test_a_function_is_continued_by_sending_the_whole_history(client: Sdk) -> None:
    history: list[Any] = [{"role": "user", "content": "weather?"}]
    asked = ask(client, history, WEATHER, store=False)
    history += [item.to_dict() for item in asked.output]
    told = ask(client, [*history, output_for(asked.output[0], "rain")], WEATHER, store=False)

    assert told.output_text == "The result is rain."


@requirement("TOOL-loop-returns-function-calls")
def test_two_functions_of_one_turn_stream_side_by_side_and_both_want_an_output(client: Sdk) -> None:
    asked = ask_streamed(client, "weather in Rome and Oslo", WEATHER)
    rome, oslo = asked.output
    assert [call.parsed_arguments or json.loads(call.arguments) for call in (rome, oslo)] == [
        {"city": "Rome"},
        {"city": "Oslo"},
    ]

    with pytest.raises(openai.BadRequestError, match=oslo.call_id):
        ask(client, [output_for(rome, "hot")], WEATHER, previous_response_id=asked.id)
    told = ask(client, [output_for(rome, "hot"), output_for(oslo, "cold")], WEATHER, previous_response_id=asked.id)
    assert told.output_text == "The result is cold."


@requirement("TOOL-scope-unknown-output")
def test_an_output_that_no_call_waits_for_is_refused(client: Sdk) -> None:
    asked = ask(client, "weather?", WEATHER)
    stray = {"type": "function_call_output", "call_id": "call_nobody", "output": "?"}

    with pytest.raises(openai.BadRequestError, match="call_nobody"):
        ask(client, [stray], WEATHER, previous_response_id=asked.id)


@requirement("CON-resp-catalog", "CON-resp-mcp-items", "TOOL-agentic-engine", "TOOL-internal-execute")
@ASK
def test_the_catalog_is_a_hosted_mcp_server_and_its_tools_run_at_the_gateway(
    client: Sdk, actor: RunningGateway, asking: Any
) -> None:
    made = asking(client, "add 2 and 40", CATALOG)

    assert kinds(made) == ["mcp_list_tools", "message", "mcp_call", "message"]
    listing, _, call, _ = made.output
    assert "add" in {tool.name for tool in listing.tools}
    assert (call.server_label, call.name, call.output, call.error, call.status) == (
        "jackfield",
        "add",
        "42",
        None,
        "completed",
    )
    assert made.output_text == "Let me see.The result is 42."
    assert [(record["tool"], record["result"]) for record in calls_of(actor, made.id)] == [("add", 42)]


def test_the_tools_of_a_server_are_listed_once_in_a_conversation(client: Sdk) -> None:
    first = ask(client, "add 1 and 1", CATALOG)
    second = ask(client, "add 2 and 2", CATALOG, previous_response_id=first.id)

    assert kinds(second) == ["message", "mcp_call", "message"]


def test_a_source_of_the_config_is_a_server_by_its_key(client: Sdk) -> None:
    made = ask(client, "add 2 and 40", {"type": "mcp", "server_label": "local"})

    assert kinds(made) == ["mcp_list_tools", "message", "mcp_call", "message"]
    assert (made.output[2].server_label, made.output[2].name, made.output[2].output) == ("local", "add", "42")
    with pytest.raises(openai.BadRequestError, match="no source 'elsewhere'"):
        ask(client, "add 2 and 40", {"type": "mcp", "server_label": "elsewhere"})


@requirement("CON-resp-catalog")
def test_the_catalog_has_a_type_of_its_own_too(client: Sdk) -> None:
    made = ask(client, "add 2 and 40", {"type": "jackfield:catalog", "tools": ["ad*"]})

    assert [tool.name for tool in made.output[0].tools] == ["add"]
    assert made.output[-1].content[0].text == "The result is 42."


@requirement("TOOL-result-is-error")
@ASK
def test_a_tool_that_fails_is_told_to_the_model_and_marked_in_its_item(client: Sdk, asking: Any) -> None:
    made = asking(client, "shaky", CATALOG)
    call = made.output[1]

    assert (call.status, call.output) == ("failed", None)
    assert call.error.type == "mcp_tool_execution_error"
    assert call.error.content == [{"type": "text", "text": "ValueError: out of coins"}]
    assert made.output_text == "The result is ValueError: out of coins."


@requirement("TOOL-scope-result-validation")
def test_a_result_that_answers_nothing_or_cannot_be_told_does_not_enter_the_conversation(client: Sdk) -> None:
    made = ask(client, "unspeakable", CATALOG)
    stray = {"type": "function_call_output", "call_id": made.output[1].id, "output": "42"}

    assert (made.status, made.output[1].status, made.output[1].output) == ("completed", "failed", None)
    assert "object" in made.output_text
    with pytest.raises(openai.BadRequestError, match="waits for an output"):
        ask(client, [stray], CATALOG, previous_response_id=made.id)


@requirement("TOOL-question-mcp-discovery", "TOOL-mcp-executes")
@ASK
def test_a_server_of_the_request_is_listed_and_called(client: Sdk, far: HttpServer, asking: Any) -> None:
    made = asking(client, "echo", server(far, require_approval="never", headers={"x-secret": "s3cret-of-the-client"}))

    assert kinds(made) == ["mcp_list_tools", "mcp_call", "message"]
    assert {"echo", "weather", "fail"} <= {tool.name for tool in made.output[0].tools}
    assert (made.output[1].server_label, made.output[1].output) == ("far", "over there")
    assert made.output_text == "The result is over there."
    assert "s3cret" not in made.to_json()


def test_a_filter_on_a_server_leaves_only_the_tools_it_names(client: Sdk, far: HttpServer) -> None:
    some = ask(client, "echo", server(far, require_approval="never", allowed_tools=["echo"]))
    other = ask(client, "echo", server(far, require_approval="never", allowed_tools={"tool_names": ["weather"]}))

    assert [tool.name for tool in some.output[0].tools] == ["echo"]
    assert kinds(other) == ["mcp_list_tools", "message"]
    assert "There is no tool 'echo'" in other.output_text


def test_two_servers_with_a_tool_of_one_name_are_told_apart(client: Sdk, far: HttpServer) -> None:
    made = ask(
        client,
        "the far echo",
        CATALOG,
        server(far, require_approval="never"),
        tool_choice={"type": "mcp", "server_label": "far", "name": "echo"},
    )

    assert kinds(made) == ["mcp_list_tools", "mcp_list_tools", "mcp_call", "message"]
    assert (made.output[2].server_label, made.output[2].name, made.output[2].output) == ("far", "echo", "over there")


def test_a_server_that_is_not_there_is_told_and_the_response_goes_on(client: Sdk, tap: Tap) -> None:
    gone = {"type": "mcp", "server_label": "gone", "server_url": "http://127.0.0.1:1/mcp"}
    made = ask_streamed(client, "good morning", gone)

    assert kinds(made) == ["mcp_list_tools", "message"]
    assert made.output[0].error
    assert "response.mcp_list_tools.failed" in {event["type"] for event in tap.last_events}


def test_a_server_at_an_address_that_is_not_allowed_is_not_asked(client: Sdk) -> None:
    inside = {"type": "mcp", "server_label": "inside", "server_url": "http://169.254.169.254/mcp"}
    made = ask(client, "good morning", inside)

    assert "169.254.169.254" in made.output[0].error


@requirement("CON-resp-approval", "CON-resp-mcp-items")
@ASK
def test_an_approved_call_runs_and_the_response_continues(client: Sdk, actor: RunningGateway, asking: Any) -> None:
    asked = asking(client, "pay", CATALOG)
    assert kinds(asked) == ["mcp_list_tools", "mcp_approval_request"]
    request = asked.output[1]
    assert (asked.status, request.name, json.loads(request.arguments)) == ("completed", "guarded", {"amount": 120})
    assert [record["status"] for record in calls_of(actor, asked.id)] == ["pending_approval"]

    done = asking(client, [answer_to(request, approve=True)], CATALOG, previous_response_id=asked.id)
    assert kinds(done) == ["mcp_call", "message"]
    assert (done.output[0].approval_request_id, done.output[0].output) == (request.id, "120")
    assert done.output_text == "The result is 120."
    with pytest.raises(openai.BadRequestError, match="already"):
        ask(client, [answer_to(request, approve=True)], CATALOG, previous_response_id=done.id)


@requirement("CON-resp-approval")
@ASK
def test_a_rejected_call_never_runs_and_the_model_hears_why(client: Sdk, actor: RunningGateway, asking: Any) -> None:
    asked = asking(client, "pay", CATALOG)
    refusal = answer_to(asked.output[1], approve=False, reason="Too much.")
    done = asking(client, [refusal], CATALOG, previous_response_id=asked.id)

    assert kinds(done) == ["message"]
    assert "Too much." in done.output_text
    assert [record["status"] for record in calls_of(actor, asked.id)] == ["rejected"]


@requirement("CON-resp-approval")
def test_a_server_of_the_request_asks_first_unless_it_is_told_not_to(client: Sdk, far: HttpServer) -> None:
    asked = ask(client, "echo", server(far))
    assert kinds(asked) == ["mcp_list_tools", "mcp_approval_request"]

    done = ask(client, [answer_to(asked.output[1], approve=True)], server(far), previous_response_id=asked.id)
    assert kinds(done) == ["mcp_call", "message"]
    assert done.output_text == "The result is over there."


@requirement("CON-resp-approval")
def test_what_the_operator_guards_is_not_opened_by_the_request_nor_by_a_key_that_may_not_answer(
    client: Sdk,
) -> None:
    caller = client.with_options(api_key=CALLER_KEY)
    catalog = {**CATALOG, "require_approval": "never"}
    asked = ask(caller, "pay", catalog)
    assert kinds(asked) == ["mcp_list_tools", "mcp_approval_request"]

    with pytest.raises(openai.PermissionDeniedError, match="answer"):
        ask(caller, [answer_to(asked.output[1], approve=True)], catalog, previous_response_id=asked.id)


@requirement("CON-resp-mixed-turn", "TOOL-function-requires-action")
@ASK
def test_in_a_mixed_turn_the_servers_call_runs_once_and_the_clients_is_handed_out(
    client: Sdk, actor: RunningGateway, asking: Any
) -> None:
    asked = asking(client, "add and locate", CATALOG, LOCATE)
    assert kinds(asked) == ["mcp_list_tools", "mcp_call", "function_call"]
    assert (asked.status, asked.output[1].output, asked.output[2].name) == ("requires_action", "5", "locate")

    told = asking(client, [output_for(asked.output[2], "the attic")], CATALOG, LOCATE, previous_response_id=asked.id)
    assert (told.status, told.output_text) == ("completed", "5 in the attic.")
    assert len(calls_of(actor, asked.id)) == 1
    assert calls_of(actor, told.id) == []


@requirement("CON-resp-sequence", "TOOL-question-parallel", "TOOL-question-stream-results", "TOOL-loop-executes-each")
def test_five_tools_that_stream_at_once_leave_no_gap_in_the_sequence(client: Sdk, tap: Tap) -> None:
    made = ask_streamed(client, "five at once", CATALOG, include=["jackfield.progress"])
    events = tap.last_events

    assert [call.output for call in made.output[1:6]] == ["5", "4", "3", "2", "1"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    types = [event["type"] for event in events]
    last_begun = max(number for number, kind in enumerate(types) if kind == "response.mcp_call.in_progress")
    assert types.index("response.mcp_call.completed") > last_begun
    assert types.count("response.mcp_call.completed") == 5
    assert types.count("response.completed") == 1
    steps = [event["output_index"] for event in events if event["type"] == "jackfield:tool_progress"]
    assert sorted(steps) == [1] * 5 + [2] * 4 + [3] * 3 + [4] * 2 + [5]
    assert steps != sorted(steps)


@requirement("CON-resp-max-tool-calls")
def test_beyond_max_tool_calls_nothing_runs_and_the_model_finishes(client: Sdk, actor: RunningGateway) -> None:
    made = ask(client, "five at once", CATALOG, max_tool_calls=2)

    assert made.status == "completed"
    assert kinds(made) == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    assert len(calls_of(actor, made.id)) == 2


@requirement("CON-resp-max-steps", "TOOL-loop-ends-on-max-turns")
def test_a_model_that_never_stops_calling_is_stopped(client: Sdk, actor: RunningGateway) -> None:
    made = ask(client, "for ever", CATALOG)

    assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_steps")
    assert len(calls_of(actor, made.id)) == 4
