"""`jackfield mcp`: the catalog over stdin and stdout, from a running gateway or from a config run in process."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx2
import msgspec
import pytest
from mcp import MCPError
from mcp.types import ToolListChangedNotification

from tests.harness.process import RunningGateway, clean_environment, run_cli, running_gateway, start_gateway
from tests.requirement import requirement
from tests.stories.mcp_clients import ERAS, LATER, change_until, stdio_client, text_of

CONFIG = """
[server]
port = 1

[sources.local]
kind = "files"
path = "tools/*.py"

[[tools]]
name = "located"
description = "Wants its region in a header too."
executionType = "internal"
inputSchema = { type = "object", properties = { region = { type = "string", "x-mcp-header" = "Region" } } }
"""
TOOLS = '''
import asyncio


def loud(text: str) -> str:
    """Print, which must not get between the messages."""
    print("this goes to stderr")
    return text.upper()


async def steps(ctx) -> str:
    """Tell two steps."""
    ctx.progress(1, 2, "one")
    ctx.progress(2, 2, "two")
    return "there"


async def wait() -> str:
    """Wait for long."""
    await asyncio.sleep(60)
    return "never"
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose gateway is not running."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/t.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@requirement("CON-cli-mcp")
@pytest.mark.parametrize("mode", ERAS)
async def test_without_a_gateway_the_config_runs_in_process(project: Path, mode: str) -> None:
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with stdio_client(project, "--config", "jackfield.toml", mode=mode) as client, asyncio.timeout(20):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["located", "loud", "steps", "wait"]
        assert text_of(await client.call_tool("loud", {"text": "hi"})) == "HI"
        assert text_of(await client.call_tool("steps", {}, progress_callback=tell)) == "there"
        assert told == ["one", "two"]
        with pytest.raises(MCPError):
            await client.call_tool("wait", {}, read_timeout_seconds=0.3)
        located = await client.call_tool("located", {"region": "eu"})
        assert located.structured_content == {"success": True, "args": {"region": "eu"}}
        with pytest.raises(MCPError, match="There is no tool 'nothing'"):
            await client.call_tool("nothing", {})


@requirement("CON-cli-mcp")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_running_gateway_is_used_and_its_changes_pass(tmp_path: Path, mode: str) -> None:
    heard = asyncio.Event()

    async def listen(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    with running_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS}) as gateway:
        client = stdio_client(tmp_path, mode=mode, message_handler=listen)
        async with client, asyncio.timeout(20):
            result = await client.call_tool("loud", {"text": "hi"})
            assert result.meta is not None
            assert recorded(gateway, str(result.meta["jackfield/callId"])) == "completed"
            if mode == "legacy":
                await change_until(heard, tmp_path / "tools/later.py")
            else:
                async with client.listen(tools_list_changed=True) as events:
                    (tmp_path / "tools/later.py").write_text(LATER, encoding="utf-8")
                    await anext(aiter(events))
            assert "newcomer" in [tool.name for tool in (await client.list_tools()).tools]


def recorded(gateway: RunningGateway, call_id: str) -> str:
    answer = httpx2.get(f"{gateway.url}/api/v1/calls/{call_id}", headers=gateway.headers)
    return str(answer.json()["call"]["status"])


async def test_a_gateway_that_was_started_anew_is_shaken_hands_with_again(tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS}) as gateway:
        async with stdio_client(tmp_path, mode="legacy") as client, asyncio.timeout(30):
            assert text_of(await client.call_tool("loud", {"text": "before"})) == "BEFORE"
            gateway.stop()
            with pytest.raises(MCPError, match="is unreachable"):
                await client.call_tool("loud", {"text": "meanwhile"})
            again = start_gateway(tmp_path)
            try:
                assert text_of(await client.call_tool("loud", {"text": "after"})) == "AFTER"
            finally:
                again.stop()


def test_only_messages_go_to_stdout_and_the_end_of_stdin_is_the_end(project: Path) -> None:
    lines = [
        b"this is no message",
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"loud","arguments":{"text":"hi"}}}',
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "jackfield.cli", "mcp", "--config", "jackfield.toml"],
        cwd=project,
        env=clean_environment({"JACKFIELD_STORE": "memory:"}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        messages = [msgspec.json.decode(process.stdout.readline()) for _ in range(3)]
        process.stdin.close()
        rest, said = process.stdout.read(), process.stderr.read()
        assert process.wait(15) == 0
    assert messages[0]["error"]["code"] == -32700
    assert messages[1]["result"]["protocolVersion"] == "2025-06-18"
    assert messages[2]["result"]["content"][0]["text"] == "HI"
    assert rest == b""
    assert b"this goes to stderr" in said


async def test_a_gateway_that_refuses_says_why(tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS}) as gateway:
        env = {"JACKFIELD_URL": gateway.url, "JACKFIELD_KEY": "wrong"}
        line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n'
        told = run_cli("mcp", cwd=tmp_path, env=env, stdin=line.decode()).stdout
        assert "unknown to this gateway" in msgspec.json.decode(told)["error"]["message"]


async def test_a_large_catalog_can_be_searched_instead(project: Path) -> None:
    async with stdio_client(project, "--search-above", "2", mode="legacy") as client, asyncio.timeout(20):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools"]
        found = await client.call_tool("search_tools", {"query": "print"})
        assert found.structured_content is not None
        assert [tool["name"] for tool in found.structured_content["tools"]] == ["loud"]


@requirement("MCP2-groups-cli")
async def test_one_group_can_be_served_alone(project: Path) -> None:
    config = (project / "jackfield.toml").read_text() + '[groups.loud]\ntools = ["lou*"]\ninstructions = "Shout."\n'
    (project / "jackfield.toml").write_text(config)
    async with stdio_client(project, "--group", "loud", mode="legacy") as client, asyncio.timeout(20):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["loud"]
        assert client.instructions == "Shout."
