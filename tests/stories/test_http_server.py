"""The server process: its port, its note, its words, its end."""

import json
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.harness.process import clean_environment, free_port, run_cli, running_gateway
from tests.waiting import eventually

TOOL = {"tools/a.py": 'def hello(name: str) -> str:\n    """Say hello."""\n    return f"hello {name}"\n'}
CONFIG = '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'


def test_a_busy_port_is_one_sentence_with_the_cure(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run_cli("serve", "--port", str(port), cwd=tmp_path)
    assert ended.returncode != 0
    said = ended.stderr.strip()
    assert f"127.0.0.1:{port}" in said
    assert "address already in use" in said
    assert "--port" in said
    assert "\n" not in said


def test_a_host_that_is_not_ours_is_one_sentence_with_the_cure(tmp_path: Path) -> None:
    ended = run_cli("serve", "--host", "203.0.113.7", "--port", str(free_port()), cwd=tmp_path)
    assert ended.returncode != 0
    assert "203.0.113.7" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture
def on_any_port(tmp_path: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "jackfield.cli", "serve"],
        cwd=tmp_path,
        env=clean_environment({"JACKFIELD_PORT": "0"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_port_0_takes_a_free_one_and_says_which(tmp_path: Path, on_any_port: "subprocess.Popen[bytes]") -> None:
    note = tmp_path / ".jackfield" / "gateway.json"
    try:
        assert on_any_port.stderr is not None
        first_line = on_any_port.stderr.readline().decode()
        told = json.loads(note.read_text())
        assert told["pid"] == on_any_port.pid
        assert told["url"] in first_line
        assert not told["url"].endswith(":0")
        assert httpx2.get(f"{told['url']}/healthz").status_code == 200
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        on_any_port.send_signal(signal.SIGTERM)
        assert on_any_port.wait(15) == 0
        assert not note.exists()
    finally:
        on_any_port.kill()
        on_any_port.communicate()


def test_the_printed_curl_works_when_pasted(tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files=TOOL) as gateway:
        [line] = [line for line in gateway.log.splitlines() if line.startswith("  try ")]
        command = line.removeprefix("  try ").strip()
        ended = subprocess.run(command, shell=True, capture_output=True, timeout=30, check=True)
        assert json.loads(ended.stdout)["result"] == "hello hello"
        assert "with 1 tool." in gateway.log


def test_ctrl_c_stops_gracefully(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as gateway:
        gateway.process.send_signal(signal.SIGINT)
        assert gateway.process.wait(15) == 0
        assert "Traceback" not in gateway.log


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    tools = {"tools/a.py": "import time\n\n\ndef stuck() -> None:\n    time.sleep(60)\n"}
    with running_gateway(tmp_path, CONFIG, files=tools) as gateway:
        headers = {**gateway.headers, "accept": "text/event-stream"}
        with httpx2.stream("POST", f"{gateway.url}/api/v1/tools/stuck/execute", headers=headers) as answer:
            next(answer.iter_bytes())
            gateway.process.send_signal(signal.SIGINT)
            eventually(lambda: _refuses_connections(gateway.port))
            gateway.process.send_signal(signal.SIGINT)
            assert gateway.process.wait(2) == 128 + signal.SIGINT
        assert not (tmp_path / ".jackfield" / "gateway.json").exists()


def test_logs_are_json_lines_when_asked_for(tmp_path: Path) -> None:
    broken = {"tools/a.py": "def half(:\n"}
    with running_gateway(tmp_path, CONFIG, files=broken, env={"JACKFIELD_LOG": "json"}) as gateway:
        lines = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
    assert [line["level"] for line in lines if "a.py" in line["message"]] == ["warning"]


def test_only_a_trusted_proxy_may_say_where_a_request_came_from(tmp_path: Path) -> None:
    """With a proxy in between, cookies are marked Secure when the client spoke https."""
    sent = {"X-Forwarded-Proto": "https"}
    for trusted, secure in (("[]", False), ('["127.0.0.1"]', True)):
        with running_gateway(tmp_path, f"[server]\ntrusted_proxies = {trusted}\n") as gateway:
            answer = httpx2.post(f"{gateway.url}/api/login", headers={**gateway.headers, **sent})
            assert ("Secure" in answer.headers["set-cookie"]) is secure


def test_behind_a_public_url_that_host_is_ours_and_links_lead_there(tmp_path: Path) -> None:
    with running_gateway(tmp_path, '[server]\npublic_url = "https://tools.example"\n') as gateway:
        answer = httpx2.get(f"{gateway.url}/api/v1/tools", headers={**gateway.headers, "Host": "tools.example"})
        assert answer.status_code == 200
        assert "https://tools.example/#code=" in gateway.log


def _refuses_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
