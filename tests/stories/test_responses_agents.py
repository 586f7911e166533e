"""openai-agents, unchanged, with a gateway in place of OpenAI: its functions, hosted MCP tools and approvals.

It is no dependency of ours: `agents_user.py` names it, and uv fetches it as for anybody's script.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import uv

from tests.harness.process import RunningGateway, clean_environment
from tests.requirement import requirement
from tests.stories.responses import ADMIN_KEY, MODEL

SCRIPT = Path(__file__).parent / "agents_user.py"
NO_REGISTRY = ("Failed to fetch", "error sending request", "dns error", "network was disabled")
FUNCTION = ["tool_call_item", "tool_call_output_item", "message_output_item"]
HOSTED = ["mcp_list_tools_item", "message_output_item", "tool_call_item", "message_output_item"]
ASKED = ["mcp_list_tools_item", "mcp_approval_request_item", "mcp_approval_response_item"]
MIXED = ["mcp_list_tools_item", "tool_call_item", "tool_call_item", "tool_call_output_item", "message_output_item"]


@pytest.fixture(scope="module")
def told(actor: RunningGateway) -> dict[str, Any]:
    """What the program printed."""
    ran = subprocess.run(
        [uv.find_uv_bin(), "run", "--quiet", "--script", SCRIPT, actor.url, ADMIN_KEY, MODEL],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ran.returncode and any(sign in ran.stderr for sign in NO_REGISTRY):
        pytest.skip(f"openai-agents cannot be fetched, no package registry is reached: {ran.stderr.strip()[:200]}")
    assert ran.returncode == 0, ran.stderr
    printed: dict[str, Any] = json.loads(ran.stdout)
    return printed


@requirement("TOOL-function-openai-pattern")
@pytest.mark.parametrize(
    ("run", "says", "items"),
    [
        ("function", "The result is sunny in Lisbon.", FUNCTION),
        ("hosted", "The result is 42.", HOSTED),
        ("allowed", "The result is 120.", [*ASKED, "tool_call_item", "message_output_item"]),
        ("mixed", "5 in the attic.", MIXED),
    ],
)
def test_a_run_of_openai_agents_comes_to_its_end_plain_and_streamed(
    told: dict[str, Any], run: str, says: str, items: list[str]
) -> None:
    plain, streamed = told["runs"][run], told["runs"][f"{run} streamed"]

    assert (plain["says"], plain["items"]) == (says, items)
    assert (streamed["says"], streamed["items"]) == (says, items)
    assert streamed["deltas"].endswith(says)


@requirement("RUN-responses-park")
def test_openai_agents_streams_responses_in_the_background_also_those_that_wait(told: dict[str, Any]) -> None:
    made, parked = told["runs"]["background"], told["runs"]["parked"]

    assert (made["says"], made["items"]) == ("The result is 42.", HOSTED)
    assert parked["items"][:3] == [*ASKED[:2], "tool_call_item"]
    assert parked["says"]


@requirement("CON-resp-approval")
def test_what_openai_agents_was_asked_to_allow_runs_only_if_it_did(told: dict[str, Any]) -> None:
    refused, by_request = told["runs"]["refused"], told["runs"]["asked by the request"]

    assert told["asked"] == ["guarded", "guarded", "guarded", "add", "guarded"]
    assert "Too much." in refused["says"]
    assert refused["items"] == [*ASKED, "message_output_item"]
    assert by_request["says"] == "The result is 42."
