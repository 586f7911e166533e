"""`tool_choice` and `allowed_tools` over HTTP, in every spelling: enforced when a call is made, whatever a model does.

The model here calls what its script says, allowed or not, so that whatever does not run was stopped by the actor.
"""

from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.responses import CATALOG, MODEL, WEATHER, calls_of

ADD = "add 2 and 40"
ECHO_ONLY = [{"type": "function", "name": "echo"}]
ADD_OR_ECHO = [{"type": "mcp", "server_label": "jackfield", "name": "add"}, {"type": "function", "name": "echo"}]


def ask(actor: RunningGateway, said: str, *, status: int = 200, **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "input": said, "tools": [CATALOG, WEATHER], **fields}
    answer = httpx2.post(f"{actor.url}/v1/responses", headers=actor.headers, json=body, timeout=20)
    assert answer.status_code == status, answer.text
    decoded: dict[str, Any] = answer.json()
    return decoded


def says(response: dict[str, Any]) -> str:
    return " ".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


@requirement("TOOL-choice-auto", "TOOL-filter-empty-allows-all")
@pytest.mark.parametrize(
    "fields", [{}, {"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}, {"allowed_tools": []}]
)
def test_with_auto_the_model_decides(actor: RunningGateway, fields: dict[str, Any]) -> None:
    calling, talking = ask(actor, ADD, **fields), ask(actor, "good morning", **fields)

    assert [call["tool"] for call in calls_of(actor, calling["id"])] == ["add"]
    assert (talking["status"], says(talking)) == ("completed", "Hello to you.")
    assert calling["tool_choice"] == "auto"


@requirement(
    "TOOL-choice-none",
    "TOOL-choice-enforced-at-call",
    "TOOL-choice-forced-type",
    "TOOL-choice-forced-name",
    "TOOL-choice-string-or-object",
    "TOOL-filter-allowed-subset",
    "TOOL-filter-refusal-told",
)
@pytest.mark.parametrize(
    ("fields", "why", "status"),
    [
        ({"tool_choice": "none"}, "tools may not be used here", "completed"),
        ({"tool_choice": {"type": "allowed_tools", "tools": ECHO_ONLY}}, "not in the allowed_tools list", "completed"),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "none", "tools": ADD_OR_ECHO}},
            "tools may not be used here",
            "completed",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": ECHO_ONLY}},
            "not in the allowed_tools list",
            "failed",
        ),
        ({"allowed_tools": ["echo", "get_weather"]}, "not in the allowed_tools list", "completed"),
        ({"tool_choice": {"type": "function", "name": "echo"}}, "call echo first", "failed"),
        ({"tool_choice": {"forced_tool": {"type": "function", "name": "echo"}}}, "call echo first", "failed"),
        ({"tool_choice": {"type": "mcp", "server_label": "jackfield", "name": "echo"}}, "call echo first", "failed"),
    ],
)
def test_a_call_that_is_not_allowed_does_not_run_and_the_model_is_told_why(
    actor: RunningGateway, fields: dict[str, Any], why: str, status: str
) -> None:
    made = ask(actor, ADD, **fields)

    assert calls_of(actor, made["id"]) == []
    assert [item["type"] for item in made["output"] if item["type"] in ("mcp_call", "function_call")] == []
    assert why in says(made)
    assert made["status"] == status
    if status == "failed":
        assert made["error"]["code"] == "tool_choice_not_honoured"


@requirement("TOOL-choice-required", "TOOL-choice-forced-name", "TOOL-filter-allowed-subset")
@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "name": "add"}},
        {"tool_choice": {"forced_tool": {"type": "function", "name": "add"}}},
        {"tool_choice": {"type": "mcp", "server_label": "jackfield"}},
        {"tool_choice": {"type": "mcp", "server_label": "jackfield", "name": "add"}},
        {"tool_choice": {"type": "allowed_tools", "tools": ADD_OR_ECHO}},
        {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": ADD_OR_ECHO}},
        {"allowed_tools": ["add"]},
        {"allowed_tools": ["add"], "tool_choice": "required"},
    ],
)
def test_a_call_that_is_allowed_runs_under_every_spelling(actor: RunningGateway, fields: dict[str, Any]) -> None:
    made = ask(actor, ADD, **fields)

    assert (made["status"], says(made)) == ("completed", "Let me see. The result is 42.")
    assert [call["tool"] for call in calls_of(actor, made["id"])] == ["add"]


@requirement("TOOL-choice-required")
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "add"}])
def test_a_model_that_calls_nothing_though_it_has_to_is_asked_once_more_and_then_fails(
    actor: RunningGateway, choice: Any
) -> None:
    made = ask(actor, "good morning", tool_choice=choice)

    assert (made["status"], made["error"]["code"]) == ("failed", "tool_choice_not_honoured")
    assert says(made) == "Hello to you. Hello to you."


@requirement("TOOL-choice-forced-unknown")
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "teleport"},
        {"forced_tool": {"type": "function", "name": "teleport"}},
        {"type": "mcp", "server_label": "teleport"},
        {"type": "allowed_tools", "tools": [{"type": "function", "name": "teleport"}]},
    ],
)
def test_a_choice_of_a_tool_that_is_not_offered_is_a_fault_of_the_request(
    actor: RunningGateway, choice: dict[str, Any]
) -> None:
    refused = ask(actor, ADD, status=400, tool_choice=choice)

    assert refused["error"]["param"] == "tool_choice"
    assert "teleport" in refused["error"]["message"]


@pytest.mark.parametrize(
    "choice",
    ["sometimes", 7, {"type": "sometimes"}, {"type": "function"}, {"type": "allowed_tools", "tools": []}, {}],
)
def test_a_choice_that_means_nothing_is_refused_with_those_that_do(actor: RunningGateway, choice: Any) -> None:
    refused = ask(actor, ADD, status=400, tool_choice=choice)

    assert refused["error"]["param"].startswith("tool_choice")


def test_the_mode_of_allowed_tools_is_filled_in_where_it_is_echoed(actor: RunningGateway) -> None:
    made = ask(actor, "good morning", tool_choice={"type": "allowed_tools", "tools": ECHO_ONLY})

    assert made["tool_choice"] == {"type": "allowed_tools", "mode": "auto", "tools": ECHO_ONLY}
