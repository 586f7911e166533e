"""Other people's MCP clients at a real gateway. Each runs by uv with the packages that its file names; none is ours.

The SDK's own client of both eras is in `test_mcp_http.py` and `test_mcp_stdio.py`, MCP Inspector in `make conformance`.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.scripts import INSTALL_SECONDS, RUN_SECONDS, run_script

CLIENTS = Path(__file__).parent / "clients"
NAMES = ["add", "boom", "confirm", "echo", "guarded", "nothing", "shapes", "steps", "wait"]

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS)


def saw(client: str, gateway: RunningGateway) -> dict[str, Any]:
    """What a client saw of the gateway."""
    answer: dict[str, Any] = msgspec.json.decode(run_script(CLIENTS / client, gateway.url, gateway.key))
    return answer


@requirement("CON-mcp-revisions")
def test_fastmcps_client_lists_calls_is_told_of_failures_and_hears_progress(gateway_project: RunningGateway) -> None:
    assert saw("fastmcp_client.py", gateway_project) == {
        "names": NAMES,
        "added": "5",
        "failed": [True, "ValueError: out of luck"],
        "stepped": ["2", "step 1", "step 2"],
    }


@requirement("CON-mcp-revisions")
def test_a_pydantic_ai_agent_calls_a_gateways_tools_and_is_told_of_failures(gateway_project: RunningGateway) -> None:
    assert saw("pydantic_ai_client.py", gateway_project) == {
        "names": NAMES,
        "added": 5,
        "failed": "ValueError: out of luck",
        "stepped": [2, "step 1", "step 2"],
    }
