"""Other people's MCP clients at a real gateway. Each runs by uv with the packages that its file names; none is ours.

The SDK's own client of both eras is in `test_mcp_http.py` and `test_mcp_stdio.py`, MCP Inspector in `make conformance`.
"""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uv

from tests.harness.process import RunningGateway, clean_environment
from tests.requirement import requirement

CLIENTS = Path(__file__).parent / "clients"
NAMES = ["add", "boom", "confirm", "echo", "guarded", "nothing", "shapes", "steps", "wait"]
UNREACHABLE = ("error sending request", "dns error", "Failed to fetch", "Connection refused", "network")
INSTALL_SECONDS = 240
RUN_SECONDS = 60

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS)


def saw(client: str, gateway: RunningGateway) -> dict[str, Any]:
    """What a client saw of the gateway."""
    file = str(CLIENTS / client)
    said = run("sync", "--quiet", "--script", file, seconds=INSTALL_SECONDS)
    if said.returncode and any(words in said.stderr for words in UNREACHABLE):
        pytest.skip(f"the packages of {client} cannot be fetched: {said.stderr.strip().splitlines()[-1]}")
    assert said.returncode == 0, said.stderr
    said = run("run", "--quiet", "--script", file, gateway.url, gateway.key, seconds=RUN_SECONDS)
    assert said.returncode == 0, said.stderr
    answer: dict[str, Any] = msgspec.json.decode(said.stdout)
    return answer


def run(*arguments: str, seconds: float) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [uv.find_uv_bin(), *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


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
