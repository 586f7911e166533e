"""`worker_main()` on pipes, and files that speak for themselves."""

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.requirement import requirement
from tests.tool.process import PYTHON, SDK_FOLDER, TIMEOUT, launched

TOOL = """
import asyncio, time
from ot_sdk import call_tool, get_secret, worker_main

def slow(value):
    time.sleep(0.2)
    return [value, get_secret("KEY")]

async def slow_async(value):
    await asyncio.sleep(0.2)
    print("said aside")
    return value

def ask():
    return call_tool("other")

if __name__ == "__main__":
    worker_main()
"""


def run(folder: Path, *requests: Any) -> tuple[list[dict[str, Any]], str]:
    """The answers and the log of a file that is started as any Python file is, with all its requests on stdin."""
    file = folder / "tools.py"
    file.write_text(TOOL)
    ended = subprocess.run(
        [PYTHON, str(file)],
        input="".join(json.dumps(request) + "\n" for request in requests),
        env={"PYTHONPATH": str(SDK_FOLDER)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


@requirement("WORK-rpc-stdio")
def test_worker_main_answers_everything_on_stdin_before_it_ends(tmp_path: Path) -> None:
    answers, log = run(
        tmp_path,
        {"id": 1, "function": "slow", "kwargs": {"value": 1}, "secrets": {"KEY": "k"}},
        {"id": 2, "function": "slow_async", "kwargs": {"value": "x" * 300_000}},
        {"id": 3, "function": "nowhere"},
    )

    assert sorted(answers, key=lambda answer: str(answer["id"])) == [
        {"id": 1, "result": [1, "k"], "error": None},
        {"id": 2, "result": "x" * 300_000, "error": None},
        {
            "id": 3,
            "result": None,
            "error": "Unknown function 'nowhere'. Available: ask, slow, slow_async",
            "code": "unknown_function",
        },
    ]
    assert log == "said aside\n"


def test_without_requests_worker_main_returns(tmp_path: Path) -> None:
    assert run(tmp_path) == ([], "")


def test_a_parent_that_knows_no_ids_cannot_be_called_back(tmp_path: Path) -> None:
    (answer,), _ = run(tmp_path, {"function": "ask"})

    assert answer["error"] == "ToolError: 'other' cannot be called: the parent of this worker does not support it."


def test_a_script_speaks_on_stdin_and_stdout_itself(tmp_path: Path) -> None:
    text = """
    import json, sys

    def double(n): return 2 * n

    def main():
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps({"result": double(**request["kwargs"])}), flush=True)

    if __name__ == "__main__":
        main()
    """
    with launched(tmp_path, text, mode="script") as worker:
        worker.send({"id": 1, "function": "double", "kwargs": {"n": 21}})
        assert worker.receive() == {"result": 42}
        worker.send({"id": 2, "function": "double", "kwargs": {"n": 1}})
        assert worker.receive() == {"result": 2}


def test_a_script_that_prepares_and_then_calls_worker_main_is_served_on_the_channel(tmp_path: Path) -> None:
    text = """
    from jackfield_tool import worker_main

    def value():
        print("not an answer")
        return prepared

    if __name__ == "__main__":
        prepared = 7
        worker_main()
    """
    with launched(tmp_path, text, mode="script") as worker:
        worker.send({"id": 1, "function": "value", "kwargs": {}})

        assert worker.receive() == {"id": 1, "result": 7, "error": None}
        assert "not an answer" in worker.log()


def test_the_command_line_is_checked(tmp_path: Path) -> None:
    for arguments in ([], ["serve"], ["dance", "x.py"], ["serve", "x.py", "--what", "{}"]):
        ended = subprocess.run(
            [PYTHON, str(SDK_FOLDER), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

        assert ended.returncode == 1
        assert ended.stderr == "Usage: jackfield_tool serve|script FILE [--options JSON]\n"


def test_both_names_are_one_module_in_a_script(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(
        dedent("import ot_sdk, jackfield_tool\nprint(ot_sdk is jackfield_tool, ot_sdk.ToolError.__module__)")
    )
    ended = subprocess.run(
        [PYTHON, str(SDK_FOLDER), "script", str(file)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )

    assert ended.stdout == "True jackfield_tool\n"
