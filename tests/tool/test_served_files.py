"""Files of different kinds, each in a worker of its own."""

from pathlib import Path

import pytest

from tests.tool.process import launched, started


def test_threads_are_bounded_and_the_rest_waits_in_order(tmp_path: Path) -> None:
    text = """
    import threading
    door = threading.Event()
    running, most = 0, 0
    lock = threading.Lock()

    def enter(number: int):
        global running, most
        with lock:
            running += 1
            most = max(most, running)
        door.wait(10)
        with lock:
            running -= 1
        return number

    async def let_in():
        door.set()

    async def at_most():
        return most
    """
    with started(tmp_path, text, threads=3) as worker:
        calls = [worker.begin("enter", number=number) for number in range(12)]
        worker.send({"cancel": calls[-1]})
        cancelled = worker.receive()
        worker.result("let_in")
        for number, call in enumerate(calls[:-1]):
            assert worker.answer(call)["result"] == number

        assert cancelled == {"id": calls[-1], "result": None, "error": "cancelled", "code": "cancelled"}
        assert worker.result("at_most") == 3


def test_a_running_thread_is_not_answered_for_when_it_is_cancelled(tmp_path: Path) -> None:
    text = """
    import threading
    begun, door = threading.Event(), threading.Event()

    def wait():
        begun.set()
        door.wait(10)
        return "done"

    async def has_begun():
        return begun.wait(10)

    async def open_it():
        door.set()
    """
    with started(tmp_path, text) as worker:
        call = worker.begin("wait")
        assert worker.result("has_begun") is True
        worker.send({"cancel": call})
        after = worker.begin("has_begun")
        assert worker.receive() == {"id": after, "result": True, "error": None}
        worker.result("open_it")

        assert worker.answer(call) == {"id": call, "result": "done", "error": None}


def test_a_thousand_calls_of_fifty_milliseconds_overlap(tmp_path: Path) -> None:
    text = """
    import asyncio
    most = running = 0

    async def nap():
        global most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1

    async def at_most():
        return most
    """
    with started(tmp_path, text) as worker:
        requests = [worker.request("nap") for _ in range(1000)]
        worker.send(*requests)
        answered = {worker.receive()["id"] for _ in requests}

        assert answered == {request["id"] for request in requests}
        assert worker.result("at_most") > 500


def test_functions_may_use_processes_and_threads_in_every_usual_way(tmp_path: Path) -> None:
    text = """
    import asyncio, concurrent.futures, multiprocessing, sys
    from jackfield_tool import get_config

    class Awkward:
        def __call__(self): ...
        @property
        def __module__(self): raise RuntimeError("not there yet")

    awkward = Awkward()

    def square(n): return n * n

    def pools(method: str):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return list(pool.map(square, [1, 2, 3]))

    async def program():
        process = await asyncio.create_subprocess_exec("cat", stdout=-1, stdin=-1)
        out, _ = await process.communicate(b"through a pipe")
        return [out.decode(), process.returncode]

    async def thread():
        return await asyncio.to_thread(get_config, "a") if sys.version_info > (3, 9) else 1
    """
    with started(tmp_path, text, folder=str(tmp_path)) as worker:
        assert worker.result("pools", method="spawn") == [1, 4, 9]
        assert worker.result("pools", method="fork") == [1, 4, 9]
        assert worker.result("program") == ["through a pipe", 0]
        worker.send({**worker.request("thread"), "config": {"a": 1}})
        assert worker.receive()["result"] == 1
        said = worker.call("nowhere")["error"]
        assert said == "Unknown function 'nowhere'. Available: pools, program, square, thread"


def test_all_names_what_is_a_tool(tmp_path: Path) -> None:
    text = """
    __all__ = ["_chosen", "missing"]
    def _chosen(): return 1
    def other(): return 2
    """
    with started(tmp_path, text) as worker:
        assert worker.result("_chosen") == 1
        assert worker.call("other")["error"] == "Unknown function 'other'. Available: _chosen"


def test_a_file_that_cannot_be_imported_says_why_and_ends(tmp_path: Path) -> None:
    with launched(tmp_path, "import no_such_package\n") as worker:
        said = worker.receive()

        assert said == {"ready": False, "error": "line 1: ModuleNotFoundError: No module named 'no_such_package'"}
        assert worker.exit_code() == 1
        assert "import no_such_package" in worker.log()


@pytest.mark.parametrize("line", ["raise SystemExit(0)", "import sys; sys.exit('bye')", "raise KeyboardInterrupt"])
def test_a_file_that_exits_while_it_is_imported_is_not_ready(tmp_path: Path, line: str) -> None:
    with launched(tmp_path, line + "\n") as worker:
        assert worker.receive()["ready"] is False
        assert worker.exit_code() == 1


def test_a_tool_file_may_be_called_like_a_module_of_pythons_own(tmp_path: Path) -> None:
    text = """
    from email.message import EmailMessage
    def subject(): return type(EmailMessage()).__module__
    """
    with started(tmp_path, text, name="email.py", folder=str(tmp_path)) as worker:
        assert worker.result("subject") == "email.message"


def test_files_beside_a_tool_file_can_be_imported_and_hide_nothing(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "friend.py").write_text("def help(): return 'helped'\n")
    (beside / "json.py").write_text("raise RuntimeError('not this one')\n")
    text = """
    import json, sys
    from friend import help as ask

    def run(): return [ask(), json.loads("1"), __name__, sys.modules[__name__] is not None, __file__]
    """
    with started(tmp_path, text, name="helped.py", folder=str(beside)) as worker:
        assert worker.result("run") == ["helped", 1, "helped", True, str(tmp_path / "helped.py")]
