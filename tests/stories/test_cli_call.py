"""`jackfield call` against a real gateway, and without one."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.harness.process import DEFAULT_CONFIG, DEFAULT_TOOLS, RunningGateway, clean_environment, free_port, run_cli
from tests.requirement import requirement
from tests.waiting import eventually

EXITS = requirement("CON-cli-call-exits")


@EXITS
def test_a_call_that_is_done_prints_its_result_and_exits_0(gateway_project: RunningGateway) -> None:
    done = run_cli("call", "add", "a=1", "b=2", cwd=gateway_project.folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@EXITS
def test_a_failing_tool_says_why_on_stderr_and_exits_1(gateway_project: RunningGateway) -> None:
    done = run_cli("call", "boom", "reason=too hot", cwd=gateway_project.folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("'boom' failed (")
    assert "too hot" in done.stderr
    assert "Traceback" not in done.stderr


@EXITS
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["nothere"], "There is no tool 'nothere'"),
        (["add", "a=one"], "'a' takes a whole number, not 'one'"),
        (["add", "aa=1"], "'add' has no argument 'aa'. Did you mean 'a'?"),
        (["add"], "'a' is required"),
        (["add", "--json", '{"a": "one"}'], "a must be an integer"),
        (["add", "--json", "{"], "not valid JSON"),
        (["add", "a=1", "--agent", "\x07"], "'agent' in the body is invalid"),
    ],
)
def test_a_call_that_is_not_made_is_one_sentence_and_exits_2(
    gateway_project: RunningGateway, line: list[str], sentence: str
) -> None:
    done = run_cli("call", *line, cwd=gateway_project.folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


@EXITS
def test_a_call_that_needs_a_person_prints_its_id_and_exits_3(gateway_project: RunningGateway) -> None:
    done = run_cli("call", "guarded", "amount=5", cwd=gateway_project.folder)
    assert done.returncode == 3
    call_id = done.stdout.strip()
    record = httpx2.get(f"{gateway_project.url}/api/v1/calls/{call_id}", headers=gateway_project.headers).json()["call"]
    assert (record["status"], record["arguments"]) == ("pending_approval", {"amount": 5})
    assert "needs approval" in done.stderr


@EXITS
def test_a_refused_key_exits_2(gateway_project: RunningGateway) -> None:
    done = run_cli("call", "echo", "text=hi", "--key", "wrong", cwd=gateway_project.folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "key" in done.stderr


def test_every_type_of_argument_arrives_as_its_type(gateway_project: RunningGateway) -> None:
    line = ["flag=yes", "ratio=2", 'names=["a", "b"]', 'options={"x": 1}']
    done = run_cli("call", "shapes", *line, cwd=gateway_project.folder)
    assert json.loads(done.stdout) == {"flag": True, "ratio": 2, "names": ["a", "b"], "options": {"x": 1}}


@pytest.mark.parametrize("where", ["inline", "file", "stdin"])
def test_json_arguments_come_from_the_line_a_file_or_stdin(
    gateway_project: RunningGateway, tmp_path: Path, where: str
) -> None:
    text = '{"a": 20, "b": 22}'
    (tmp_path / "arguments.json").write_text(text, encoding="utf-8")
    given = {"inline": text, "file": f"@{tmp_path / 'arguments.json'}", "stdin": "-"}[where]
    done = run_cli("call", "add", "--json", given, cwd=gateway_project.folder, stdin=text)
    assert (done.returncode, done.stdout) == (0, "42\n")


def test_text_is_printed_plainly_and_null_as_null(gateway_project: RunningGateway) -> None:
    assert run_cli("call", "echo", "text=a b = ü", cwd=gateway_project.folder).stdout == "a b = ü\n"
    assert run_cli("call", "nothing", cwd=gateway_project.folder).stdout == "null\n"


def test_raw_prints_the_whole_answer(gateway_project: RunningGateway) -> None:
    answer = json.loads(run_cli("call", "add", "a=1", "--raw", cwd=gateway_project.folder).stdout)
    assert (answer["success"], answer["status"], answer["result"]) == (True, "completed", 2)
    failed = run_cli("call", "boom", "--raw", cwd=gateway_project.folder)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["error"]["message"]
    refused = run_cli("call", "add", "--raw", cwd=gateway_project.folder)
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["code"] == "invalid_arguments"
    assert refused.stderr == ""


def test_following_tells_the_steps_on_stderr(gateway_project: RunningGateway) -> None:
    done = run_cli("call", "steps", "count=2", "--follow", cwd=gateway_project.folder)
    assert done.stdout == "2\n"
    assert "1 of 2 step 1\n2 of 2 step 2\n" in done.stderr


def test_waiting_ends_with_the_timeout_and_says_so(gateway_project: RunningGateway) -> None:
    done = run_cli("call", "wait", "--timeout", "0.3", cwd=gateway_project.folder)
    assert done.returncode == 1
    assert "within 0.3 s" in done.stderr


def test_the_same_idempotency_key_is_the_same_call(gateway_project: RunningGateway) -> None:
    line = ["call", "add", "a=1", "--idempotency-key", "story-1", "--raw"]
    first, second = (json.loads(run_cli(*line, cwd=gateway_project.folder).stdout) for _ in range(2))
    assert first["call_id"] == second["call_id"]


def test_an_agents_name_is_on_the_record(gateway_project: RunningGateway) -> None:
    answer = json.loads(run_cli("call", "add", "a=1", "--agent", "ann", "--raw", cwd=gateway_project.folder).stdout)
    url = f"{gateway_project.url}/api/v1/calls/{answer['call_id']}"
    assert httpx2.get(url, headers=gateway_project.headers).json()["call"]["agent"] == "ann"


@requirement("CON-env")
def test_url_and_key_of_the_environment_find_a_gateway_from_anywhere(
    gateway_project: RunningGateway, tmp_path: Path
) -> None:
    done = run_cli("call", "add", "a=1", cwd=tmp_path, env=gateway_project.environment)
    assert (done.returncode, done.stdout) == (0, "2\n")


def test_an_interrupt_ends_a_waiting_call_quietly(gateway_project: RunningGateway) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "jackfield.cli", "call", "wait", "seconds=50"],
        cwd=gateway_project.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    running = f"{gateway_project.url}/api/v1/calls?status=running&tool=wait"

    def is_waiting() -> bool:
        calls = httpx2.get(running, headers=gateway_project.headers).json()["calls"]
        return any(call["arguments"] == {"seconds": 50} for call in calls)

    try:
        eventually(is_waiting)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_leaves_early_hears_no_complaint(gateway_project: RunningGateway) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "jackfield.cli", "tools", "--json"],
            cwd=gateway_project.folder,
            env=clean_environment(),
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the handy project and no gateway."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "story.py").write_text(DEFAULT_TOOLS, encoding="utf-8")
    config = f"[server]\nport = {free_port()}\n{DEFAULT_CONFIG}"
    (tmp_path / "jackfield.toml").write_text(config, encoding="utf-8")
    return tmp_path


@requirement("CON-cli-in-process")
def test_with_a_config_and_no_gateway_calls_and_lists_run_in_process(project: Path, tmp_path: Path) -> None:
    config = str(project / "jackfield.toml")
    done = run_cli("call", "add", "a=1", "b=2", "--config", config, cwd=Path("/"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert run_cli("call", "boom", "--config", config, cwd=Path("/")).returncode == 1
    assert run_cli("call", "guarded", "amount=1", "--config", config, cwd=Path("/")).returncode == 3
    assert run_cli("call", "nothere", "--config", config, cwd=Path("/")).returncode == 2
    listed = json.loads(run_cli("tools", "--json", "--config", config, cwd=Path("/")).stdout)
    assert "add" in [tool["name"] for tool in listed["tools"]]


@requirement("CON-cli-in-process")
def test_without_a_config_and_without_a_gateway_the_cure_is_said(project: Path) -> None:
    done = run_cli("call", "add", "a=1", cwd=project)
    assert done.returncode == 1
    assert "jackfield serve" in done.stderr


@requirement("CON-cli-in-process")
def test_with_a_config_a_gateway_that_runs_for_it_is_used(gateway_project: RunningGateway) -> None:
    config = str(gateway_project.folder / "jackfield.toml")
    done = run_cli("call", "add", "a=1", "--config", config, "--raw", cwd=Path("/"))
    url = f"{gateway_project.url}/api/v1/calls/{json.loads(done.stdout)['call_id']}"
    assert httpx2.get(url, headers=gateway_project.headers).status_code == 200


def test_keys_of_the_config_open_its_gateway_in_process_too(project: Path) -> None:
    with (project / "jackfield.toml").open("a", encoding="utf-8") as file:
        file.write('\n[auth.keys.reader]\nkey = "read-only-key"\nscopes = ["read"]\n')
        file.write('\n[auth.keys.caller]\nkey = "calling-key"\nscopes = ["call"]\n')
    line = ["call", "add", "a=1", "--config", "jackfield.toml"]
    assert run_cli(*line, cwd=project).stdout == "2\n"
    refused = run_cli(*line, "--key", "read-only-key", cwd=project)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert not (project / ".jackfield" / "admin.key").exists()


def test_a_reader_that_has_seen_enough_is_no_fault(gateway_project: RunningGateway) -> None:
    command = shlex.join([sys.executable, "-m", "jackfield.cli", "call", "echo", f"text={'line ' * 20_000}"])
    ended = subprocess.run(
        ["sh", "-c", f"{command} | head -c 1"],
        cwd=gateway_project.folder,
        env=gateway_project.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("l", "")
