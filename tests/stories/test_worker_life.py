"""Seed 002 from outside: how a tool's process comes, serves, fails and goes, seen through a gateway's HTTP API."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.sources.workers import is_alive, worker_file
from tests.waiting import eventually

IDLE = 2.0
CONFIG = f"""
[sources.kept]
kind = "files"
path = "kept/*.py"
config = {{ units = "metric" }}
secrets = ["WEATHER_KEY"]

[sources.brief]
kind = "files"
path = "brief/*.py"
idle_timeout = {IDLE}

[models.oracle]
provider = "scripted"
script = "oracle.toml"
"""
ORACLE = '[[turns]]\nwhen = { user = "why" }\nsay = "Because."\n[otherwise]\nsay = "Ask why."\n'
SERVED = """
import asyncio, os, sys
import jackfield_tool
import ot_sdk
from jackfield_tool import call_tool, get_config, get_secret, log, worker_main

here = set()
both = asyncio.Event()

def pid() -> int:
    return os.getpid()

def divide(a: float, b: float) -> float:
    return a / b

def crash(code: int) -> None:
    os._exit(code)

async def meet(name: str) -> dict:
    here.add(name)
    if len(here) == 2:
        both.set()
    await both.wait()
    return {"name": name, "pid": os.getpid()}

def chatty() -> str:
    print("a word to stdout")
    with log("reckoning", city="Bern"):
        pass
    return "the answer"

async def through_the_sdk() -> dict:
    names = ("worker_main", "get_config", "get_secret", "log", "call_tool")
    return {
        "same": all(getattr(jackfield_tool, name) is getattr(ot_sdk, name) for name in names),
        "units": get_config("units"),
        "secret": get_secret("WEATHER_KEY") == "sunny-side-up",
        "called": await call_tool("in_process"),
    }

if __name__ == "__main__":
    worker_main()
"""
SCRIPT = """
import json, select, sys

def show(word: str = "") -> dict: ...
def fail() -> None: ...

def main():
    for line in sys.stdin:
        request = json.loads(line)
        early, _, _ = select.select([sys.stdin], [], [], 0.05)
        if request["function"] == "fail":
            answer = {"result": None, "error": "ValueError: boom"}
        else:
            secrets = {name: value[::-1] for name, value in request.pop("secrets").items()}
            answer = {"result": {"request": request, "secrets": secrets, "early": bool(early)}, "error": None}
        print(json.dumps(answer), flush=True)

if __name__ == "__main__":
    main()
"""
IN_PROCESS = """
import os
from pathlib import Path

Path(__file__).with_suffix(".imported").touch()

def in_process() -> int:
    return os.getpid()

async def wonder(ctx, question: str) -> str:
    return await ctx.model.ask(question)
"""
SIX = """\
# /// script
# requires-python = ">=3.11"
# dependencies = ["six=={version}"]
# ///
import six

def {name}() -> str:
    return six.__version__
"""
FILES = {
    "kept/served.py": worker_file(SERVED),
    "kept/script.py": worker_file(SCRIPT),
    "kept/plain.py": IN_PROCESS,
    "kept/malformed.py": "# /// script\n# dependencies = [\n# ///\nprint('it ran')\n\ndef never() -> None: ...\n",
    "kept/older.py": SIX.format(name="older", version="1.16.0"),
    "kept/newer.py": SIX.format(name="newer", version="1.17.0"),
    "brief/brief.py": worker_file("import os\n\ndef brief() -> int:\n    return os.getpid()\n"),
    "oracle.toml": ORACLE,
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("workers")
    with running_gateway(folder, CONFIG, files=FILES, env={"WEATHER_KEY": "sunny-side-up"}) as running:
        yield running


def execute(gateway: RunningGateway, tool: str, **arguments: Any) -> dict[str, Any]:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    answer = httpx2.post(url, json={"arguments": arguments}, headers=gateway.headers, timeout=60)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def result(gateway: RunningGateway, tool: str, **arguments: Any) -> Any:
    body = execute(gateway, tool, **arguments)
    assert body["status"] == "completed", body
    return body["result"]


def get(gateway: RunningGateway, path: str) -> Any:
    return httpx2.get(f"{gateway.url}{path}", headers=gateway.headers, timeout=10).raise_for_status().json()


def worker(gateway: RunningGateway, name: str) -> dict[str, Any]:
    [found] = [one for one in get(gateway, "/api/v1/workers")["workers"] if one["name"] == name]
    shown: dict[str, Any] = found
    return shown


def pids(gateway: RunningGateway, name: str) -> list[int]:
    return [process["pid"] for process in worker(gateway, name)["processes"]]


@requirement(
    "WORK-persistent",
    "WORK-start-on-first-call",
    "WORK-stays-running",
    "WORK-lifecycle-managed",
    "WORK-reuse-routes",
    "WORK-reuse-no-spawn",
)
def test_the_first_call_starts_one_process_and_every_later_call_goes_to_it(tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files=FILES) as gateway:
        assert "pid" in {tool["name"] for tool in get(gateway, "/api/v1/tools")["tools"]}
        assert pids(gateway, "served") == []

        first = result(gateway, "pid")
        assert first != gateway.pid
        assert is_alive(first)
        assert {result(gateway, "pid") for _ in range(10)} == {first}
        shown = worker(gateway, "served")
        assert (shown["calls"], shown["restarts"], pids(gateway, "served")) == (11, 0, [first])
    eventually(lambda: not is_alive(first))


@requirement("WORK-idle-terminates", "WORK-idle-removed-from-pool", "WORK-idle-configurable")
def test_a_process_that_is_idle_for_the_configured_time_is_ended_and_the_next_call_starts_another(
    gateway: RunningGateway,
) -> None:
    first, other = result(gateway, "brief"), result(gateway, "pid")
    eventually(lambda: not is_alive(first), within=30)
    eventually(lambda: pids(gateway, "brief") == [])
    assert is_alive(other), "its source has the default, which is ten minutes"
    assert result(gateway, "brief") != first


@requirement("WORK-call-resets-idle", "WORK-call-extends-life")
def test_a_call_before_the_time_is_up_gives_the_process_another_full_period(gateway: RunningGateway) -> None:
    """Calls at half of its idle time, until it has lived for twice that time; begun anew where the machine was late."""
    began = asked = time.monotonic()
    process = result(gateway, "brief")
    while time.monotonic() < began + 2 * IDLE:
        eventually(lambda: time.monotonic() > asked + IDLE / 2)  # noqa: B023 - called before the next turn
        sent = time.monotonic()
        now = result(gateway, "brief")
        if time.monotonic() - asked > 0.9 * IDLE:
            began, process = sent, now
        assert now == process
        asked = sent


@requirement(
    "WORK-rpc-stdio",
    "WORK-request-function",
    "WORK-request-kwargs",
    "WORK-request-config",
    "WORK-request-secrets",
    "WORK-response-success",
    "WORK-response-error",
)
def test_a_program_that_reads_lines_gets_function_kwargs_config_and_secrets_with_every_call(
    gateway: RunningGateway,
) -> None:
    for word in ("one", "two"):
        seen = result(gateway, "show", word=word)
        assert seen["request"] == {
            "id": seen["request"]["id"],
            "function": "show",
            "kwargs": {"word": word},
            "config": {"units": "metric"},
        }
        assert seen["secrets"] == {"WEATHER_KEY": "pu-edis-ynnus"}
    failed = execute(gateway, "fail")
    assert (failed["status"], failed["error"]) == ("failed", {"code": "tool_error", "message": "ValueError: boom"})


@requirement("WORK-response-result-returned", "WORK-response-error-raised")
def test_an_exception_fails_the_call_with_its_message_and_the_process_lives_on(gateway: RunningGateway) -> None:
    before = result(gateway, "pid")
    failed = execute(gateway, "divide", a=1, b=0)
    assert (failed["status"], failed["error"]) == (
        "failed",
        {"code": "tool_error", "message": "ZeroDivisionError: division by zero"},
    )
    assert result(gateway, "divide", a=6, b=3) == 2
    assert result(gateway, "pid") == before


@requirement("CON-worker-multiplex", "WORK-request-awaits-response")
def test_calls_run_side_by_side_in_one_process_and_one_at_a_time_where_it_echoes_no_id(gateway: RunningGateway) -> None:
    with ThreadPoolExecutor(6) as callers:
        met = [callers.submit(result, gateway, "meet", name=name) for name in ("Ada", "Eve")]
        assert [one.result(30)["name"] for one in met] == ["Ada", "Eve"]
        assert len({one.result()["pid"] for one in met}) == 1

        shown = [callers.submit(result, gateway, "show", word=str(number)) for number in range(6)]
        assert [one.result(30)["request"]["kwargs"]["word"] for one in shown] == [str(number) for number in range(6)]
        assert not any(one.result()["early"] for one in shown), "it was sent a line before it had answered the last"


def restarts(gateway: RunningGateway) -> dict[str, float]:
    """The figures of workers for Prometheus."""
    lines = httpx2.get(f"{gateway.url}/metrics", headers=gateway.headers).text.splitlines()
    pairs = (line.rpartition(" ") for line in lines if line.startswith("jackfield_worker"))
    return {name: float(value) for name, _, value in pairs}


@requirement("WORK-crash-respawn", "OPS-METRICS-families")
def test_the_call_after_a_crash_starts_a_new_process_and_succeeds(gateway: RunningGateway) -> None:
    before, counted = result(gateway, "pid"), restarts(gateway)
    crashed = execute(gateway, "crash", code=7)
    assert (crashed["status"], crashed["error"]["code"]) == ("failed", "worker_crashed")
    assert "it exited with code 7" in crashed["error"]["message"]
    assert result(gateway, "pid") != before
    assert not is_alive(before)
    now = restarts(gateway)
    [crashes] = [name for name in counted if "restarts_total" in name and now[name] != counted[name]]
    assert now[crashes] == counted[crashes] + 1
    assert now[crashes.replace("worker_restarts_total", "workers_running")] >= 1


@requirement("CON-worker-print", "WORK-log-stderr-json")
def test_what_a_tool_prints_and_logs_is_in_its_log_and_not_in_its_answer(gateway: RunningGateway) -> None:
    assert result(gateway, "chatty") == "the answer"

    def span() -> Any:
        lines = get(gateway, "/api/v1/workers/served/log")["lines"]
        spans = [line["span"] for line in lines if (line.get("span") or {}).get("span") == "reckoning"]
        return spans and any("a word to stdout" in line["text"] for line in lines) and spans[0]

    assert eventually(span)["city"] == "Bern"


@requirement("CON-worker-sdk")
def test_both_names_of_the_sdk_give_config_secrets_logs_and_calls_of_other_tools(gateway: RunningGateway) -> None:
    assert result(gateway, "through_the_sdk") == {
        "same": True,
        "units": "metric",
        "secret": True,
        "called": gateway.pid,
    }


@requirement("WORK-pep723-declares", "WORK-pep723-isolated", "WORK-pep723-installs", "WORK-start-uv-run")
def test_two_files_that_declare_different_versions_of_a_package_each_have_theirs(gateway: RunningGateway) -> None:
    assert (result(gateway, "older"), result(gateway, "newer")) == ("1.16.0", "1.17.0")


@requirement("WORK-inprocess", "CON-file-syntax-tree")
def test_a_file_without_metadata_is_listed_unread_and_runs_in_the_gateways_own_process(tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files=FILES) as gateway:
        imported = tmp_path / "kept/plain.imported"
        assert "in_process" in {tool["name"] for tool in get(gateway, "/api/v1/tools")["tools"]}
        assert not imported.exists()
        assert result(gateway, "in_process") == gateway.pid
        assert imported.exists()


@requirement("WORK-inprocess-llm")
def test_a_tool_in_the_gateways_process_asks_the_configured_model(gateway: RunningGateway) -> None:
    assert result(gateway, "wonder", question="why?") == "Because."


@requirement("CON-file-malformed")
def test_a_file_with_malformed_metadata_is_skipped_with_its_fault_shown(gateway: RunningGateway) -> None:
    [source] = [one for one in get(gateway, "/readyz")["sources"] if one["name"] == "kept"]
    [fault] = [fault for fault in source["faults"] if "malformed.py" in fault]
    assert "its script metadata is malformed" in fault
    assert "never" not in json.dumps(get(gateway, "/api/v1/tools"))
    assert "it ran" not in gateway.log + gateway.printed
