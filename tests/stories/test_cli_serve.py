"""`jackfield serve` as an operator meets it: the first start, the environment, a bad config, the end."""

import json
import re
import signal
import stat
from pathlib import Path

import httpx2
import pytest

from tests.harness.process import DEFAULT_CONFIG, DEFAULT_TOOLS, free_port, run_cli, running_gateway, start_gateway
from tests.requirement import requirement
from tests.waiting import eventually

TOOLS = {"tools/story.py": DEFAULT_TOOLS}


@requirement("CON-key-first-start")
def test_the_first_start_makes_a_key_that_the_cli_uses_and_nobody_sees(tmp_path: Path) -> None:
    with running_gateway(tmp_path, DEFAULT_CONFIG, files=TOOLS) as gateway:
        key_file = tmp_path / ".jackfield" / "admin.key"
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        assert gateway.key not in gateway.log
        assert str(key_file) in gateway.log
        link = re.search(rf"{re.escape(gateway.url)}/#code=(\S+)", gateway.log)
        assert link is not None
        signed_in = httpx2.post(f"{gateway.url}/api/login", json={"code": link[1]})
        assert signed_in.status_code == 200
        assert gateway.key not in signed_in.headers["set-cookie"]
        assert run_cli("call", "add", "a=1", cwd=tmp_path).stdout == "2\n"
        assert httpx2.get(f"{gateway.url}/api/v1/tools").status_code == 401


@requirement("CON-key-first-start")
def test_the_key_stays_the_same_after_a_restart(tmp_path: Path) -> None:
    with running_gateway(tmp_path, DEFAULT_CONFIG, files=TOOLS) as first:
        pass
    with running_gateway(tmp_path) as second:
        assert (second.key, second.url) == (first.key, first.url)


@requirement("CON-env")
def test_the_environment_wins_over_the_config(tmp_path: Path) -> None:
    config = '[server]\nhost = "192.0.2.1"\nport = 1\n[store]\nurl = "sqlite:////nowhere/at/all.db"\n' + DEFAULT_CONFIG
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "named.toml").write_text(config, encoding="utf-8")
    data = tmp_path / "kept here"
    port = free_port()
    environment = {
        "JACKFIELD_CONFIG": str(tmp_path / "elsewhere" / "named.toml"),
        "JACKFIELD_HOST": "127.0.0.1",
        "JACKFIELD_PORT": str(port),
        "JACKFIELD_STORE": f"sqlite:///{tmp_path}/calls.db",
        "JACKFIELD_DATA": str(data),
        "JACKFIELD_ADMIN_KEY": "the-operators-own-key",
        "JACKFIELD_LOG": "json",
    }
    files = {"elsewhere/tools/story.py": DEFAULT_TOOLS, "elsewhere/tools/broken.py": "def oops(:\n"}
    with running_gateway(tmp_path, env=environment, files=files) as gateway:
        assert gateway.url == f"http://127.0.0.1:{port}"
        answer = httpx2.post(
            f"{gateway.url}/api/v1/tools/add/execute",
            headers={"x-api-key": "the-operators-own-key"},
            json={"arguments": {"a": 1}},
        )
        assert answer.json()["result"] == 2
        by_cli = run_cli("call", "add", "a=1", cwd=tmp_path, env=environment)
        assert (by_cli.returncode, by_cli.stdout) == (0, "2\n")
        logged = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
        assert any("broken.py" in entry["message"] for entry in logged)
    assert (tmp_path / "calls.db").is_file()
    assert data.is_dir()
    assert not (data / "admin.key").exists()
    assert not (tmp_path / "elsewhere" / ".jackfield").exists()


@requirement("CON-env")
def test_the_command_line_wins_over_the_environment(tmp_path: Path) -> None:
    port = free_port()
    environment = {"JACKFIELD_PORT": str(port), "JACKFIELD_HOST": "192.0.2.1", "JACKFIELD_STORE": "nonsense:"}
    with running_gateway(
        tmp_path, DEFAULT_CONFIG, env=environment, files=TOOLS, args=("--host", "127.0.0.1", "--store", "memory:")
    ) as gateway:
        assert run_cli("call", "add", "a=1", cwd=tmp_path).stdout == "2\n"
    assert gateway.url.endswith(f":{port}")
    assert not list((tmp_path / ".jackfield").glob("*.db"))


@pytest.mark.parametrize(
    ("config", "environment", "sentence"),
    [
        ("[server]\nprot = 1\n", {}, "Did you mean 'port'?"),
        ("", {"JACKFIELD_PORT": "many"}, "The port 'many' is not a number from 0 to 65535"),
        ("", {"JACKFIELD_STORE": "mongodb://x"}, "mongodb://x"),
        ("", {"JACKFIELD_LOG": "loud"}, "it takes 'text' or 'json'"),
        ('[sources.x]\nkind = "nonsense"\n', {}, "nonsense"),
    ],
)
def test_a_config_that_cannot_be_used_stops_the_start_with_one_sentence(
    tmp_path: Path, config: str, environment: dict[str, str], sentence: str
) -> None:
    (tmp_path / "jackfield.toml").write_text(config, encoding="utf-8")
    done = run_cli("serve", cwd=tmp_path, env={"JACKFIELD_PORT": str(free_port()), **environment})
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_port_that_is_taken_is_said_with_the_cure(tmp_path: Path) -> None:
    with running_gateway(tmp_path, DEFAULT_CONFIG, files=TOOLS) as gateway:
        other = tmp_path / "other"
        other.mkdir()
        done = run_cli("serve", "--port", str(gateway.port), cwd=other)
    assert done.returncode == 1
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_told_gateway_ends_with_exit_code_0(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, DEFAULT_CONFIG, files=TOOLS)
    assert gateway.stop() == 0
    assert "Traceback" not in gateway.log


@requirement("CON-config-client-commands")
def test_client_commands_need_a_url_and_a_key_and_not_what_the_gateway_needs(tmp_path: Path) -> None:
    with running_gateway(tmp_path, DEFAULT_CONFIG, files=TOOLS) as gateway:
        unset = '[sources.gh]\nkind = "mcp"\nurl = "http://127.0.0.1:9/mcp"\nheaders = { Authorization = "${TOKEN}" }\n'
        key = '[auth.keys.later]\nkey = "${NOT_YET}"\nscopes = ["admin"]\n'
        (tmp_path / "jackfield.toml").write_text(DEFAULT_CONFIG + unset + key, encoding="utf-8")
        assert run_cli("call", "add", "a=1", cwd=tmp_path).stdout == "2\n"
        assert run_cli("call", "add", "a=1", "--config", "jackfield.toml", cwd=tmp_path).stdout == "2\n"
        assert gateway.process.poll() is None
    needs_all = run_cli("call", "add", "a=1", "--config", "jackfield.toml", cwd=tmp_path)
    assert "${TOKEN}, which is not set" in needs_all.stderr


@requirement("CON-sighup-lives")
@requirement("OP-reload")
@requirement("OP-reload-cli")
def test_a_gateway_reads_its_config_anew_on_sighup_and_by_the_command_line(tmp_path: Path) -> None:
    with running_gateway(tmp_path, DEFAULT_CONFIG, files=TOOLS) as gateway:
        config = (tmp_path / "jackfield.toml").read_text(encoding="utf-8")
        (tmp_path / "jackfield.toml").write_text(config + "[groups.sums]\ntools = ['add']\n", encoding="utf-8")
        gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: "The config was read anew (SIGHUP). Added groups.sums." in gateway.log)
        (tmp_path / "jackfield.toml").write_text(config, encoding="utf-8")
        assert run_cli("reload", cwd=tmp_path).stdout == "removed   groups.sums\n"
        (tmp_path / "jackfield.toml").write_text(config + "[groups.sums]\ntols = []\n", encoding="utf-8")
        refused = run_cli("reload", cwd=tmp_path)
        assert refused.returncode != 0
        assert "tols" in refused.stderr
        assert run_cli("call", "add", "a=1", cwd=tmp_path).stdout == "2\n"
        (tmp_path / "jackfield.toml").write_text(config + "[groups.sums\n", encoding="utf-8")
        refused = run_cli("reload", cwd=tmp_path)
        assert (refused.returncode, "is not valid TOML" in refused.stderr) == (2, True), refused.stderr
        eventually(lambda: "and nothing was changed. " in gateway.log)
        assert run_cli("call", "add", "a=1", cwd=tmp_path).stdout == "2\n"
        doctor = run_cli("doctor", cwd=tmp_path).stdout
        assert "fault    config: " in doctor
        assert "fault    reload: The config in force is that of" in doctor
    assert "is not valid TOML" in run_cli("calls", cwd=tmp_path).stderr


def test_a_link_that_other_devices_cannot_open_is_said_where_they_are_meant_to(tmp_path: Path) -> None:
    said = "Other devices cannot open this link"
    with running_gateway(tmp_path, '[server]\nhost = "0.0.0.0"\n') as gateway:
        eventually(lambda: said in gateway.log)
        assert "[server] public_url" in gateway.log
    (tmp_path / "gateway.log").unlink()
    with running_gateway(tmp_path, '[server]\nhost = "0.0.0.0"\npublic_url = "http://10.0.0.1:8420"\n') as gateway:
        eventually(lambda: "#code=" in gateway.log)
        assert said not in gateway.log
