"""MCP servers on stdio with `sandbox = …`: a real server, walled in, and told apart by what it can reach."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.errors import ConfigError
from jackfield.sources.mcp.options import parse_options
from tests.harness.process import RunningGateway, run_cli, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually
from tests.workers.processes import marked

SERVER = """
import os, socket, subprocess, sys
from mcp.server import MCPServer

server = MCPServer("walled")

@server.tool()
def hello(name: str) -> str:
    return f"hello {name}"

@server.tool()
def read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError as fault:
        return str(fault)

@server.tool()
def write(path: str) -> str:
    try:
        with open(path, "w") as file:
            file.write("x")
        return "written"
    except OSError as fault:
        return str(fault)

@server.tool()
def reach(port: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return "reached"
    except OSError as fault:
        return str(fault)

@server.tool()
def environment() -> list[str]:
    return sorted(os.environ)

@server.tool()
def breed() -> int:
    return len([subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)])

server.run("stdio")
"""
CONFIG = """
[store]
url = "sqlite:///calls.db"

[sources.walled]
kind = "mcp"
prefix = "walled_"
command = ["{python}", "-W", "ignore", "server.py"]
cwd = "server"
env = {{ MARK = "{mark}" }}
sandbox = {{ memory = 3_000_000_000, writable = ["out"] }}

[sources.open]
kind = "mcp"
prefix = "open_"
command = ["{python}", "-W", "ignore", "server.py"]
cwd = "server"
sandbox = {{ network = true }}

[sources.impossible]
kind = "mcp"
command = ["{python}", "server.py"]
sandbox = {{ readable = ["models"] }}
"""


def call(gateway: RunningGateway, tool: str, **arguments: Any) -> dict[str, Any]:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    answer = httpx2.post(url, json={"arguments": arguments}, headers=gateway.headers, timeout=60)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def said(answer: dict[str, Any]) -> str:
    return json.dumps(answer)


@requirement("SAFE-sandbox-mcp")
def test_a_sandboxed_server_is_called_like_any_other_and_reaches_nothing_it_was_not_given(tmp_path: Path) -> None:
    mark = f"mcp-sandbox-{os.getpid()}-{os.urandom(4).hex()}"
    (tmp_path / "server").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "server" / "server.py").write_text(SERVER)
    (tmp_path / "secret.txt").write_text("mine")
    config = CONFIG.format(python=sys.executable, mark=mark)
    with running_gateway(tmp_path, config) as gateway:
        assert "hello Ada" in said(call(gateway, "walled_hello", name="Ada"))
        for hidden in (tmp_path / "secret.txt", tmp_path / "calls.db", tmp_path / ".jackfield" / "admin.key"):
            assert "No such file" in said(call(gateway, "walled_read", path=str(hidden)))
        port = int(gateway.url.rpartition(":")[2])
        assert "refused" in said(call(gateway, "walled_reach", port=port))
        assert "reached" in said(call(gateway, "open_reach", port=port))
        assert "Read-only" in said(call(gateway, "walled_write", path=str(tmp_path / "server" / "new.py")))
        assert "written" in said(call(gateway, "walled_write", path=str(tmp_path / "out" / "new.txt")))
        assert (tmp_path / "out" / "new.txt").read_text() == "x"
        names = said(call(gateway, "walled_environment"))
        assert "MARK" in names
        assert "npm_config_ignore_scripts" in names
        assert "JACKFIELD" not in names

        assert "2" in said(call(gateway, "walled_breed"))
        assert len(marked(mark)) >= 3  # bubblewrap has processes of its own beside the server and its two
        gateway.kill()
        eventually(lambda: not marked(mark), within=10)


def test_a_sandbox_that_cannot_be_had_is_why_the_source_is_down(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "jackfield.toml").write_text(
        '[sources.impossible]\nkind = "mcp"\ncommand = ["python3", "server.py"]\nsandbox = { readable = ["models"] }\n'
    )
    findings = json.loads(run_cli("doctor", "--json", cwd=tmp_path).stdout)["findings"]
    (told,) = [finding for finding in findings if finding["subject"] == "source impossible"]
    assert "The sandbox is to show 'models', which is not there." in told["says"]


def test_a_server_that_is_not_started_here_has_no_sandbox() -> None:
    with pytest.raises(ConfigError, match=r"^s\.sandbox is for a server that is started here, by a command"):
        parse_options({"url": "https://far.example/mcp", "sandbox": True}, where="s")
