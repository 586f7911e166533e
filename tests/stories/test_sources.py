"""Why a source does not work is shown where its operator looks: the API, `/readyz`, the command line, `doctor`."""

import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, run_cli, running_gateway
from tests.requirement import requirement
from tests.sources.mcp.scene import PLAIN
from tests.waiting import eventually

CONFIG = f"""
[auth.keys.reader]
key = "reader-key"
scopes = ["read"]

[auth.keys.caller]
key = "caller-key"
scopes = ["call"]

[sources.broken]
kind = "mcp"
command = ["{sys.executable}", "{PLAIN}", "raises"]
env = {{ TOKEN = "${{TOKEN}}" }}

[sources.local]
kind = "files"
path = "tools/*.py"
"""
FAILS = """
def {name}() -> int:
    return deeper()

def deeper() -> int:
    raise ValueError("bad hunter22-hunter22")

__all__ = ["{name}"]
"""
FILES = {
    "tools/fails.py": FAILS.format(name="fails"),
    "tools/fails_in_worker.py": "# /// script\n# dependencies = []\n# ///\n" + FAILS.format(name="fails_in_worker"),
    "tools/good.py": "def fine() -> int:\n    return 1\n",
    "tools/bad.py": "def pay(amount: int) -> int:\n    return (\n",
}
BROKEN_WHEN_LOADED = {
    "plain.py": "import nothing_like_this\n\ndef late() -> int:\n    return 1\n",
    "worker.py": "# /// script\n# dependencies = []\n# ///\n1 / 0\n\ndef later() -> int:\n    return 1\n",
}
TOKEN = "hunter22-hunter22"
ENV = {"TOKEN": TOKEN, "JACKFIELD_ADMIN_KEY": "admin-key-of-the-story"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("sources"), CONFIG, files=FILES, env=ENV) as made:
        yield made


def get(gateway: RunningGateway, path: str, key: str | None = None) -> httpx2.Response:
    return httpx2.get(f"{gateway.url}{path}", headers={"x-api-key": key or gateway.key})


@requirement("SAFE-causes-are-shown")
def test_the_api_shows_an_admin_each_source_with_the_end_of_its_stderr(gateway: RunningGateway) -> None:
    broken: dict[str, Any] = get(gateway, "/api/v1/sources/broken").json()["source"]
    assert (broken["kind"], broken["origin"], broken["status"], broken["tools"]) == ("mcp", "config", "down", [])
    assert broken["error"] == "The server's process exited (code 1)."
    assert len(broken["stderr"]) == 50
    assert broken["stderr"][-1] == "ValueError: no such account for [redacted]"
    assert broken["since"] is not None

    local = get(gateway, "/api/v1/sources/local").json()["source"]
    assert (local["status"], local["tools"]) == ("faulty", ["fails", "fails_in_worker", "fine"])
    assert "tools/bad.py, line 2: '(' was never closed" in local["error"]

    names = [source["name"] for source in get(gateway, "/api/v1/sources").json()["sources"]]
    assert {"broken", "local"} <= set(names)
    assert get(gateway, "/api/v1/sources/nobody").status_code == 404
    assert get(gateway, "/api/v1/sources/broken", "reader-key").status_code == 403


@requirement("SAFE-causes-are-shown")
def test_readyz_shows_the_last_words_to_an_admin_only(gateway: RunningGateway) -> None:
    def broken(key: str) -> dict[str, Any]:
        [found] = [one for one in get(gateway, "/readyz", key).json()["sources"] if one["name"] == "broken"]
        return dict(found)

    assert broken(gateway.key)["stderr"][-1] == "ValueError: no such account for [redacted]"
    assert "stderr" not in broken("reader-key")


@requirement("SAFE-causes-are-shown")
def test_a_call_of_a_tool_whose_file_is_broken_names_the_file(gateway: RunningGateway) -> None:
    answer = httpx2.post(f"{gateway.url}/api/v1/tools/pay/execute", json={}, headers=gateway.headers)
    assert answer.status_code == 404
    assert "tools/bad.py, line 2: '(' was never closed" in answer.json()["error"]["message"]


@requirement("SAFE-causes-are-shown")
def test_the_command_line_shows_the_same(gateway: RunningGateway) -> None:
    shown = run_cli("sources", "broken", cwd=gateway.folder, env=gateway.environment)
    assert shown.returncode == 1
    assert "ValueError: no such account for [redacted]" in shown.stdout
    [local] = [
        line
        for line in run_cli("sources", cwd=gateway.folder, env=gateway.environment).stdout.splitlines()
        if line.startswith("local")
    ]
    assert local.split()[1] == "faulty"
    once = run_cli("sources", "local", cwd=gateway.folder, env=gateway.environment).stdout
    assert once.count("tools/bad.py, line 2") == 1
    doctor = run_cli("doctor", cwd=gateway.folder, env={**gateway.environment, **ENV})
    assert "ValueError: no such account for [redacted]" in doctor.stdout, doctor.stdout[-900:]
    assert "tools/bad.py, line 2" in doctor.stdout
    assert TOKEN not in shown.stdout + doctor.stdout


@requirement("SAFE-causes-are-shown")
def test_the_log_has_the_line_with_the_cause_and_no_secret(gateway: RunningGateway) -> None:
    assert "ValueError: no such account for [redacted]" in gateway.log
    assert TOKEN not in gateway.log


@requirement("SAFE-causes-are-shown")
@pytest.mark.parametrize("tool", ["fails", "fails_in_worker"])
def test_the_traceback_of_a_failing_tool_is_on_record_for_an_admin_alone(gateway: RunningGateway, tool: str) -> None:
    headers = {"x-api-key": "caller-key"}
    told = httpx2.post(f"{gateway.url}/api/v1/tools/{tool}/execute", json={}, headers=headers, timeout=120).json()
    assert (told["status"], told["error"]["message"]) == ("failed", "ValueError: bad [redacted]")
    path = f"/api/v1/calls/{told['call_id']}"
    trace = get(gateway, path).json()["call"]["trace"]
    assert trace.rstrip().endswith("ValueError: bad [redacted]")
    assert "in deeper" in trace
    assert get(gateway, path, "caller-key").json()["call"]["trace"] is None
    mine = run_cli("result", told["call_id"], "--key", "caller-key", cwd=gateway.folder, env=gateway.environment)
    assert (mine.returncode, mine.stdout) == (1, "")
    assert mine.stderr == f"'{tool}' failed (tool_error): ValueError: bad [redacted]\n"
    admins = run_cli("result", told["call_id"], cwd=gateway.folder, env=gateway.environment)
    assert admins.returncode == 1
    assert "in deeper" in admins.stderr


@requirement("OPS-sources-shown")
def test_a_file_that_cannot_be_loaded_makes_its_source_faulty_with_its_traceback(gateway: RunningGateway) -> None:
    def shown(command: str) -> str:
        words = (command, "local") if command == "sources" else (command,)
        return run_cli(*words, cwd=gateway.folder, env={**gateway.environment, **ENV}).stdout

    def local() -> dict[str, Any]:
        return dict(get(gateway, "/api/v1/sources/local").json()["source"])

    files = {gateway.folder / "tools" / name: text for name, text in BROKEN_WHEN_LOADED.items()}
    for path, text in files.items():
        path.write_text(text)
    eventually(lambda: {"late", "later"} <= set(local()["tools"]))
    calls = [
        httpx2.post(f"{gateway.url}/api/v1/tools/{name}/execute", json={}, headers=gateway.headers, timeout=120)
        for name in ("late", "later")
    ]
    assert [call.json()["status"] for call in calls] == ["failed", "failed"]
    trace = get(gateway, f"/api/v1/calls/{calls[0].json()['call_id']}").json()["call"]["trace"]
    assert trace.startswith("Traceback")
    assert "inprocess.py" not in trace

    source = local()
    assert source["status"] == "faulty"
    said = ["The file tools/plain.py could not be loaded: ModuleNotFoundError", "The file worker could not be loaded"]
    traced = [f'File "{gateway.folder}/tools/plain.py", line 1, in <module>', "ZeroDivisionError: division by zero"]
    assert all(any(one in fault for fault in source["faults"]) for one in said), source
    assert all(any(one in line for line in source["stderr"]) for one in traced), source
    assert all(one in shown(command) for command in ("sources", "doctor") for one in (*said, *traced))
    caller = get(gateway, "/readyz", "reader-key").json()["sources"]
    assert str(gateway.folder) not in str(caller)

    for path in files:
        path.unlink()
    eventually(lambda: not any("could not be loaded" in fault for fault in local()["faults"]))
