import asyncio
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jackfield.catalog.catalog import Catalog
from jackfield.errors import ConfigError, ToolNotFound
from jackfield.model.call import Failed
from jackfield.model.principal import Principal
from jackfield.model.tool import ToolKind
from jackfield.sources import supervisor
from jackfield.sources.files import files_source
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState
from tests.calls.harness import OPS
from tests.requirement import requirement
from tests.sources.toolbox import BOUND, Toolbox


@requirement("CON-file-syntax-tree", "WORK-inprocess")
async def test_listing_runs_nothing_and_the_first_call_does(toolbox: Toolbox, tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    toolbox.write(
        "a.py",
        f"""
        from pathlib import Path
        Path({str(mark)!r}).touch()
        import os
        def process() -> int:
            return os.getpid()
        """,
    )

    listing = await toolbox.refresh()

    assert [tool.name for tool in listing.tools] == ["process"]
    assert not mark.exists()
    assert await toolbox.call("process") == os.getpid()
    assert mark.exists()


async def test_a_tool_of_a_file_is_internal_and_hidden_and_has_the_sources_timeout(tmp_path: Path) -> None:
    toolbox = Toolbox(tmp_path, call_timeout=1.5, max_concurrency=3)
    toolbox.write("a.py", 'def hello(name: str):\n    """Greet."""\n')

    [tool] = (await toolbox.refresh()).tools

    assert (tool.source, tool.name, tool.description) == ("local", "hello", "Greet.")
    assert (tool.kind, tool.type, tool.visible, tool.timeout_ms) == (ToolKind.INTERNAL, "function", False, 1500)
    assert toolbox.source.max_concurrency == 3
    assert toolbox.source.can_execute(tool)
    await toolbox.source.close()


async def test_a_tool_of_another_source_is_not_executed_here(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def hello(): ...\n")
    await toolbox.refresh()
    invocation = toolbox.invocation("hello")
    (toolbox.folder / "tools" / "a.py").unlink()
    await toolbox.refresh()

    assert not toolbox.source.can_execute(invocation.tool)
    outcome = await toolbox.source.execute(invocation)
    assert isinstance(outcome, Failed)
    assert outcome.message == "'hello' is no longer in its file. List the tools again."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "sources.local needs the key 'path'. Add it."),
        (
            {"path": "a", "pth": "b"},
            "sources.local has an unknown key 'pth'. Did you mean 'path'? Remove or rename it.",
        ),
        ({"path": 3}, "sources.local.path is invalid: expected `str | array`, got `int`. Correct it."),
        ({"path": []}, "sources.local.path is invalid: expected `array` of length >= 1. Correct it."),
        (
            {"path": "a", "call_timeout": 0},
            "sources.local.call_timeout is invalid: expected `float` > 0.0. Correct it.",
        ),
        (
            {"path": "a", "max_concurrency": 0},
            "sources.local.max_concurrency is invalid: expected `int` >= 1. Correct it.",
        ),
    ],
)
def test_options_that_cannot_be_used_stop_the_start_with_a_sentence(options: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        files_source("local", options, None)  # type: ignore[arg-type]

    assert str(caught.value) == said


async def test_several_globs_are_read_as_one_list_in_order(tmp_path: Path) -> None:
    toolbox = Toolbox(tmp_path, path=["more/**/*.py", "tools/b.py", "tools/*.py"])
    toolbox.write("b.py", "def b(): ...")
    toolbox.write("a.py", "def a(): ...")
    toolbox.write("../more/deep/er/c.py", "def c(): ...")
    toolbox.write("../more/.hidden/d.py", "def d(): ...")

    listing = await toolbox.refresh()

    assert [tool.name for tool in listing.tools] == ["c", "a", "b"]
    assert listing.faults == ()
    await toolbox.source.close()


async def test_a_path_without_files_is_a_fault_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    toolbox = Toolbox(tmp_path, path=["nothing/*.py", "folder", f"{tmp_path}/absolute.py"])

    listing = await toolbox.refresh()

    assert listing.tools == ()
    assert listing.faults == (
        "sources.local.path: no file matches 'nothing/*.py'. Put a tool file there, or correct the path.",
        "sources.local.path: 'folder' is a folder. Write 'folder/*.py' for the Python files in it.",
        "sources.local.path: no file matches 'absolute.py'. Put a tool file there, or correct the path.",
    )
    await toolbox.source.close()


async def test_a_broken_file_is_one_sentence_and_the_others_work(toolbox: Toolbox) -> None:
    toolbox.write("bad.py", "def ok(): ...\ndef broken(:\n")
    toolbox.write("latin.py", "x = 1\n").write_bytes(b"# caf\xe9\ndef latin(): ...\n")
    toolbox.write("deep.py", "").write_bytes(b"a = 1\nb = 2\nc = 3\nd = '\xff'\n")
    toolbox.write("declared.py", "").write_bytes("# -*- coding: latin-1 -*-\ndef é(): ...\n".encode("latin-1"))
    (toolbox.folder / "tools" / "gone.py").symlink_to(toolbox.folder / "nowhere")
    toolbox.write("good.py", "def good():\n    return 1\n")

    listing = await toolbox.refresh()

    assert [tool.name for tool in listing.tools] == ["é", "good"]
    assert await toolbox.call("good") == 1
    assert [fault.partition(":")[0] for fault in listing.faults] == [
        "tools/deep.py, line 4",
        "tools/latin.py, line 1",
        "tools/bad.py, line 2",
    ]
    assert not any(str(toolbox.folder) in fault for fault in listing.faults)


async def test_a_file_that_cannot_be_read_is_a_fault(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    path = toolbox.write("locked.py", "def locked(): ...")
    toolbox.write("open.py", "def unlocked(): ...")
    real = type(path).read_bytes

    def read_bytes(self: Path) -> bytes:
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self)

    monkeypatch.setattr(type(path), "read_bytes", read_bytes)  # the tests run as root, whom no mode keeps out

    listing = await toolbox.refresh()

    assert listing.faults == ("tools/locked.py cannot be read: Permission denied. Check the file and its permissions.",)
    assert [tool.name for tool in listing.tools] == ["unlocked"]


async def test_a_name_in_two_files_keeps_both_tools_and_names_both_owners(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def search():\n    return 'a'\n")
    toolbox.write("b.py", "def other(): ...\ndef search():\n    return 'b'\n")
    toolbox.write("c.py", "def b_search():\n    return 'c'\n")

    listing = await toolbox.refresh()

    assert [await toolbox.call(name) for name in ("search", "b_search", "c_b_search")] == ["a", "b", "c"]
    assert listing.faults == (
        (
            "tools/b.py, line 2: 'search' is also a tool of tools/a.py, so this one is called 'b_search'. "
            "Set pack in one of the two files."
        ),
        (
            "tools/c.py, line 1: 'b_search' is also a tool of tools/b.py, so this one is called 'c_b_search'. "
            "Set pack in one of the two files."
        ),
    )


async def test_files_of_the_same_name_in_two_folders_still_get_names_of_their_own(tmp_path: Path) -> None:
    toolbox = Toolbox(tmp_path, path="tools/**/*.py")
    for folder in "abc":
        toolbox.write(f"{folder}/same.py", f"def f():\n    return {folder!r}\n")

    await toolbox.refresh()

    assert {name: await toolbox.call(name) for name in toolbox.tools} == {"f": "a", "same_f": "b", "same_f_2": "c"}
    await toolbox.source.close()


async def test_a_file_with_the_same_text_keeps_its_state_over_a_refresh_and_a_changed_one_starts_anew(
    toolbox: Toolbox,
) -> None:
    counter = "count = 0\ndef step():\n    global count\n    count += 1\n    return count\n"
    toolbox.write("a.py", counter)
    await toolbox.refresh()
    assert [await toolbox.call("step"), await toolbox.call("step")] == [1, 2]

    toolbox.write("b.py", "def other(): ...\n")
    await toolbox.refresh()
    assert await toolbox.call("step") == 3

    toolbox.write("a.py", counter + "# edited\n")
    await toolbox.refresh()
    assert await toolbox.call("step") == 1


async def test_what_is_called_is_the_text_that_was_listed(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def version():\n    return 1\n")
    await toolbox.refresh()
    toolbox.write("a.py", "def version():\n    return 2\n")

    assert await toolbox.call("version") == 1
    await toolbox.refresh()
    assert await toolbox.call("version") == 2


async def test_a_running_call_finishes_on_the_old_code(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        import asyncio
        started, go = asyncio.Event(), asyncio.Event()
        def module():
            return __name__
        def answer():
            return "old"
        async def wait():
            started.set()
            await go.wait()
            return answer()
        """,
    )
    await toolbox.refresh()
    old = sys.modules[await toolbox.call("module")]
    running = asyncio.create_task(toolbox.call("wait"))
    async with asyncio.timeout(BOUND):
        await old.started.wait()

    toolbox.write("a.py", "async def wait():\n    return 'new'\n")
    await toolbox.refresh()

    assert await toolbox.call("wait") == "new"
    assert old.__name__ in sys.modules
    old.go.set()
    assert await running == "old"
    assert old.__name__ not in sys.modules


async def test_closing_takes_the_modules_out(tmp_path: Path) -> None:
    toolbox = Toolbox(tmp_path)
    toolbox.write("a.py", "def name():\n    return __name__\n")
    await toolbox.refresh()
    module = await toolbox.call("name")
    assert module in sys.modules

    await toolbox.source.close()

    assert module not in sys.modules


@requirement("OPS-sources-shown")
async def test_a_source_is_faulty_since_its_file_broke(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1)
    monkeypatch.setattr(supervisor, "_now_ms", lambda: next(clock))
    source_registry = SourceRegistry(on_listing=lambda: None)
    seen = []
    toolbox.write("tool.py", "def fine() -> int:\n    return 1\n")
    await source_registry.add(toolbox.source)
    try:
        await source_registry.settled(within=BOUND)
        for text in ("def fine(:\n", "def fine() -> int:\n    return 2\n", ""):
            seen.append([source_registry.statuses()[0].since or 0 for _ in range(2)])
            toolbox.write("tool.py", text)
            await source_registry.refresh()
    finally:
        await source_registry.close()
    assert all(first == again for first, again in seen), "it changes while nothing does"
    assert seen == sorted(seen)
    assert len({first for first, _ in seen}) == 3


@requirement("SAFE-causes-are-shown")
async def test_a_file_that_cannot_be_read_makes_the_source_faulty_and_its_tools_are_known(toolbox: Toolbox) -> None:
    toolbox.write("good.py", "def fine() -> int:\n    return 1\n")
    toolbox.write("bad.py", "pack = 'ops'\nasync def pay(amount: int) -> int:\n    return (\n\ndef _own():\n    pass\n")
    source_registry = SourceRegistry(on_listing=lambda: None)
    await source_registry.add(toolbox.source)
    try:
        await source_registry.settled(within=BOUND)
        (status,) = source_registry.statuses()
        assert (status.status, status.tools) == (SourceState.FAULTY, 1)
        assert status.error is not None
        assert status.error.startswith("tools/bad.py, line 3: '(' was never closed.")
        catalog = Catalog()
        catalog.update(source_registry.listings())
        with pytest.raises(ToolNotFound, match=r"Tool 'ops_pay' cannot be used now\. tools/bad\.py, line 3: '\('"):
            catalog.view(OPS).get("ops_pay")
        narrow = Principal(name="narrow", scopes=frozenset({"call"}), tools=("fine",))
        with pytest.raises(ToolNotFound, match="There is no tool 'ops_pay'"):
            catalog.view(narrow).get("ops_pay")
        toolbox.write("bad.py", "pack = 'ops'\ndef pay(amount: int) -> int:\n    return amount\n")
        await source_registry.refresh()
        assert source_registry.statuses()[0].status is SourceState.UP
    finally:
        await source_registry.close()
