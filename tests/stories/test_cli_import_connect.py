"""`jackfield import` and `jackfield connect` as people run them: shown first, then written, and it works."""

import json
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest

from tests.harness.process import RunningGateway, run_cli, running_gateway
from tests.requirement import requirement

SERVER = Path(__file__).with_name("changing_server.py")
CONFIG = "# my project\n[scenario]\nname = 'story'  # as it is\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a config and the servers of another program, one of which has a secret."""
    (tmp_path / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "description.txt").write_text("Says it.", encoding="utf-8")
    server = {
        "command": sys.executable,
        "args": [str(SERVER), "${workspaceFolder}/description.txt"],
        "env": {"SAY_TOKEN": "s3cr3t-value-0001"},
    }
    (tmp_path / ".vscode").mkdir()
    text = f"// of VS Code\n{json.dumps({'servers': {'talk': server}})}"
    (tmp_path / ".vscode/mcp.json").write_text(text, encoding="utf-8")
    return tmp_path


def test_imported_servers_are_shown_then_written_and_their_tools_can_be_called(project: Path) -> None:
    config = project / "jackfield.toml"
    asked = run_cli("import", ".vscode/mcp.json", cwd=project)
    assert asked.returncode == 2
    assert "+[sources.talk]" in asked.stdout
    assert "pass --yes" in asked.stderr
    assert config.read_text(encoding="utf-8") == CONFIG

    done = run_cli("import", ".vscode/mcp.json", "--yes", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "SAY_TOKEN  env.SAY_TOKEN of 'talk'" in done.stdout
    assert "s3cr3t" not in done.stdout + config.read_text(encoding="utf-8")
    assert config.read_text(encoding="utf-8").startswith(CONFIG)
    assert tomllib.loads(config.read_text(encoding="utf-8"))["sources"]["talk"] == {
        "kind": "mcp",
        "command": [sys.executable, str(SERVER), f"{project}/description.txt"],
        "env": {"SAY_TOKEN": "${SAY_TOKEN}"},
    }

    again = run_cli("import", ".vscode/mcp.json", "--yes", cwd=project)
    assert again.returncode == 2
    assert "The name 'talk' is taken by a source of the config." in again.stderr
    with running_gateway(project, env={"SAY_TOKEN": "s3cr3t-value-0001"}):
        called = run_cli("call", "say", cwd=project, env={"SAY_TOKEN": "s3cr3t-value-0001"})
    # The secret reached the server; what it says of it does not reach us.
    assert called.stdout.startswith("said with ")
    assert "nothing" not in called.stdout
    assert "s3cr3t" not in called.stdout


def test_without_a_config_one_is_made(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"url": "https://a.example/mcp"}}}', encoding="utf-8")
    assert run_cli("import", ".mcp.json", "-y", cwd=tmp_path).returncode == 0
    assert (tmp_path / "jackfield.toml").read_text(encoding="utf-8") == (
        '# from .mcp.json\n[sources.a]\nkind = "mcp"\nurl = "https://a.example/mcp"\ntransport = "http"\n'
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read"),
        ("{", "is not valid JSON"),
        ("{}", "has no MCP servers"),
    ],
)
def test_a_file_that_is_none_is_said(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / ".mcp.json").write_text(text, encoding="utf-8")
    refused = run_cli("import", ".mcp.json", "--yes", cwd=tmp_path)
    assert refused.returncode == 2
    assert sentence in refused.stderr
    assert not (tmp_path / "jackfield.toml").exists()


def test_a_connected_client_reaches_the_gateway_with_what_was_written(gateway_project: RunningGateway) -> None:
    folder = gateway_project.folder
    file = folder / ".mcp.json"
    file.write_text('{"mcpServers": {"other": {"command": "x"}}}', encoding="utf-8")
    asked = run_cli("connect", "claude-code", "--admin", cwd=folder)
    assert asked.returncode == 2
    assert "other" in file.read_text(encoding="utf-8")
    assert "jackfield" not in file.read_text(encoding="utf-8")
    done = run_cli("connect", "claude-code", "--admin", "--yes", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert gateway_project.key not in asked.stdout + done.stdout + done.stderr
    assert "keep it out of version control" in done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    servers = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    assert list(servers) == ["other", "jackfield"]
    entry = servers["jackfield"]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    headers = {**entry["headers"], "Accept": "application/json, text/event-stream"}
    assert httpx2.post(entry["url"], json=hello, headers=headers).status_code == 200
    assert httpx2.post(entry["url"], json=hello).status_code == 401
    assert "already has this gateway" in run_cli("connect", "claude-code", "--admin", cwd=folder).stdout
    taken = run_cli("import", ".mcp.json", cwd=folder, env={"JACKFIELD_PORT": str(gateway_project.port)})
    assert "'jackfield' is this gateway" in taken.stdout
    assert "+[sources.other]" in taken.stdout
    assert "[sources.jackfield]" not in taken.stdout


@pytest.mark.parametrize(
    ("args", "file", "servers"),
    [
        (("cursor",), ".cursor/mcp.json", "mcpServers"),
        (("vscode",), ".vscode/mcp.json", "servers"),
        (("claude-code", "--user"), "home/.claude.json", "mcpServers"),
        (("cursor", "--user"), "home/.cursor/mcp.json", "mcpServers"),
        (("vscode", "--user"), "home/.config/Code/User/mcp.json", "servers"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the user's folder of VS Code lies elsewhere")
def test_each_client_has_its_own_file(tmp_path: Path, args: tuple[str, ...], file: str, servers: str) -> None:
    env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": "", "JACKFIELD_URL": "https://gw.example"}
    options = ("--key", "k-0001", "--name", "tools", "--yes")
    assert run_cli("connect", *args, *options, cwd=tmp_path, env=env).returncode == 0
    entry = json.loads((tmp_path / file).read_text(encoding="utf-8"))[servers]["tools"]
    assert (entry["url"], entry["headers"]) == ("https://gw.example/mcp", {"Authorization": "Bearer k-0001"})


def test_without_a_key_nothing_is_written(tmp_path: Path) -> None:
    refused = run_cli("connect", "cursor", "--yes", cwd=tmp_path)
    assert refused.returncode == 2
    assert "has no key yet" in refused.stderr
    assert not (tmp_path / ".cursor").exists()


@requirement("SAFE-connect-narrow-key")
def test_an_administrators_key_is_not_written_into_an_agents_config(tmp_path: Path) -> None:
    keys = '[auth.keys.boss]\nkey = "boss-key"\nscopes = ["admin"]\n'
    (tmp_path / "jackfield.toml").write_text(keys, encoding="utf-8")
    refused = run_cli("connect", "cursor", "--yes", "--key", "boss-key", cwd=tmp_path)
    assert refused.returncode == 2, "nobody could make another key"
    assert '[auth.keys.cursor] with key = "${CURSOR_KEY}" and scopes = ["call"]' in refused.stderr
    assert "boss-key" not in refused.stdout + refused.stderr
    by_itself = run_cli("connect", "cursor", "--yes", cwd=tmp_path)
    assert "admin key" in by_itself.stderr, "known from the config alone, where no gateway runs"
    assert not (tmp_path / ".cursor").exists()
    assert run_cli("connect", "cursor", "--yes", "--key-variable", "K", cwd=tmp_path).returncode == 0


def test_where_oauth_is_off_no_client_is_told_to_log_in(tmp_path: Path) -> None:
    with running_gateway(tmp_path, '[auth.oauth]\nmode = "off"\n') as gateway:
        refused = run_cli("connect", "cursor", "--oauth", "--yes", "--url", gateway.url, cwd=tmp_path)
        assert refused.returncode == 2
        assert "takes keys only" in refused.stderr
        assert not (tmp_path / ".cursor").exists()


@requirement("ID-connect-oauth")
def test_with_oauth_only_the_url_is_written(tmp_path: Path) -> None:
    env = {"JACKFIELD_ADMIN_KEY": "env-admin-key"}
    with running_gateway(tmp_path, "", env=env) as gateway:
        done = run_cli("connect", "cursor", "--oauth", "--yes", "--url", gateway.url, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        assert "opens a browser to log in" in done.stdout
        servers = json.loads((tmp_path / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]
        assert servers == {"jackfield": {"url": f"{gateway.url}/mcp"}}
        refused = run_cli("connect", "cursor", "--oauth", "--key", "k", "--url", gateway.url, cwd=tmp_path)
        assert "--oauth writes no key" in refused.stderr
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        by_itself = run_cli("connect", "vscode", "--yes", "--url", gateway.url, cwd=elsewhere)
        assert by_itself.returncode == 0, by_itself.stderr
        servers = json.loads((elsewhere / ".vscode/mcp.json").read_text(encoding="utf-8"))["servers"]
        assert servers == {"jackfield": {"type": "http", "url": f"{gateway.url}/mcp"}}
        listed = run_cli("grants", "--url", gateway.url, "--key", "env-admin-key", cwd=elsewhere)
        assert "No OAuth client was allowed anything." in listed.stdout
        unknown = run_cli("grants", "revoke", "grant_x", "--url", gateway.url, "--key", "env-admin-key", cwd=elsewhere)
        assert "There is no grant 'grant_x'" in unknown.stderr


@requirement("ID-connect-makes-key")
def test_a_running_gateway_makes_a_key_for_the_client(tmp_path: Path) -> None:
    groups = '[groups.docs]\ntools = ["read*"]\n'
    with running_gateway(tmp_path, groups, env={"JACKFIELD_ADMIN_KEY": "env-admin-key"}) as gateway:
        admin = ("--key", "env-admin-key", "--url", gateway.url)
        declined = run_cli("connect", "cursor", *admin, cwd=tmp_path)
        assert declined.returncode == 2
        done = run_cli("connect", "cursor", "--yes", "--group", "docs", *admin, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Created the key 'cursor'." in done.stdout
        entry = json.loads((tmp_path / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]["jackfield"]
        key = entry["headers"]["Authorization"].removeprefix("Bearer ")
        assert key.startswith("jf_")
        assert key not in done.stdout + done.stderr
        assert entry["url"] == f"{gateway.url}/mcp/docs"
        whose = httpx2.get(f"{gateway.url}/api/login", headers={"x-api-key": key}).json()
        assert (whose["principal"], whose["scopes"]) == ("cursor", ["call"])
        again = run_cli("connect", "cursor", "--yes", "--group", "docs", *admin, cwd=tmp_path)
        assert "already has this gateway" in again.stdout
        (tmp_path / ".cursor/mcp.json").unlink()
        second = run_cli("connect", "cursor", "--yes", *admin, cwd=tmp_path)
        assert "Created the key 'cursor-2'." in second.stdout


@requirement("SAFE-connect-narrow-key")
def test_the_key_that_the_config_has_for_the_client_is_written(tmp_path: Path) -> None:
    keys = '[auth.keys.cursor]\nkey = "${CURSOR_KEY}"\nscopes = ["call"]\n'
    env = {"CURSOR_KEY": "narrow-key"}
    with running_gateway(tmp_path, keys, env={**env, "JACKFIELD_ADMIN_KEY": "env-admin-key"}):
        unset = run_cli("connect", "cursor", "--yes", cwd=tmp_path)
        assert unset.returncode == 2
        assert "The key of [auth.keys.cursor] is not available" in unset.stderr
        done = run_cli("connect", "cursor", "--yes", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    entry = json.loads((tmp_path / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]["jackfield"]
    assert entry["headers"] == {"Authorization": "Bearer narrow-key"}
    assert "does not accept this key" not in done.stderr


@requirement("SAFE-connect-narrow-key")
def test_a_key_that_the_running_gateway_has_not_read_yet_is_written_and_said_to_be_so(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "", env={"JACKFIELD_ADMIN_KEY": "env-admin-key"}) as gateway:
        config = gateway.folder / "jackfield.toml"
        key = '\n[auth.keys.cursor]\nkey = "narrow-key"\n'
        config.write_text(config.read_text(encoding="utf-8") + key, encoding="utf-8")
        done = run_cli("connect", "cursor", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "does not accept this key." in done.stderr
