import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jackfield.sources import watching
from jackfield.sources.watching import Globs
from tests.requirement import requirement
from tests.sources.toolbox import Toolbox
from tests.waiting import Stopwatch, eventually_async

PROMISED = 5.0


Opener = Callable[..., Awaitable[Toolbox]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    boxes: list[Toolbox] = []

    async def make(**options: Any) -> Toolbox:
        box = Toolbox(tmp_path, **options)
        await box.source.open()
        await box.refresh()
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        await box.source.close()


async def names_after_change(toolbox: Toolbox) -> list[str]:
    """The tools after the next word of a change, which must come within what is promised."""
    async with asyncio.timeout(PROMISED):
        await toolbox.changes.wait()
    toolbox.changes.clear()
    await toolbox.refresh()
    return sorted(toolbox.tools)


async def until(toolbox: Toolbox, names: list[str]) -> None:
    """Refresh at each word of a change until these are the tools; one save may come as several changes."""
    async with asyncio.timeout(PROMISED):
        while await names_after_change(toolbox) != names:
            pass


async def test_new_edited_and_deleted_files_are_seen_in_time(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    toolbox = await opened()

    path = toolbox.write("a.py", "def one():\n    return 1\n")
    await until(toolbox, ["one"])
    toolbox.write("a.py", "def two():\n    return 2\n")
    await until(toolbox, ["two"])
    assert await toolbox.call("two") == 2
    replacement = toolbox.write("a.tmp", "def three():\n    return 3\n")
    replacement.replace(path)
    await until(toolbox, ["three"])
    path.unlink()
    await until(toolbox, [])


@requirement("OPS-sources-restart-follows")
async def test_files_are_followed_after_the_source_was_closed_and_opened_again(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    toolbox = await opened()
    toolbox.write("a.py", "count = 0\n\n\ndef one():\n    global count\n    count += 1\n    return count\n")
    await until(toolbox, ["one"])
    assert [await toolbox.call("one"), await toolbox.call("one")] == [1, 2]

    await toolbox.source.close()
    await toolbox.source.open()
    await toolbox.refresh()
    assert await toolbox.call("one") == 1

    toolbox.write("b.py", "def two(): ...")
    await until(toolbox, ["one", "two"])


async def test_a_folder_that_is_made_later_or_made_again_is_seen(opened: Opener) -> None:
    toolbox = await opened()
    assert toolbox.listing.tools == ()

    toolbox.write("a.py", "def one(): ...")
    await until(toolbox, ["one"])
    shutil.rmtree(toolbox.folder / "tools")
    await until(toolbox, [])
    toolbox.write("b.py", "def two(): ...")
    await until(toolbox, ["two"])


async def test_files_in_deeper_folders_are_seen_when_the_glob_goes_there(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    toolbox = await opened(path="tools/**/*.py")

    toolbox.write("deep/er/a.py", "def one(): ...")

    await until(toolbox, ["one"])


async def test_changes_are_seen_where_the_system_sends_no_events(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_events(*paths: str, **options: Any) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(watching, "watch", no_events)
    (tmp_path / "tools").mkdir()
    toolbox = await opened()

    toolbox.write("a.py", "def one(): ...")

    await until(toolbox, ["one"])
    await eventually_async(lambda: "changes are looked for every 2 s" in caplog.text)  # a thread of its own says it


async def test_reading_the_files_is_not_taken_for_a_change(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SWEEP_SECONDS", 0.2)
    (tmp_path / "tools").mkdir()
    toolbox = await opened()
    toolbox.write("a.py", "def one(): ...")
    await until(toolbox, ["one"])
    while await changed_within(toolbox, 1.0):  # one save is told twice, by the sweep and by the event
        toolbox.changes.clear()

    for _ in range(3):
        await toolbox.refresh()

    assert not await changed_within(toolbox, 1.0)


async def changed_within(toolbox: Toolbox, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await toolbox.changes.wait()
    except TimeoutError:
        return False


async def test_closing_is_quick(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    toolbox = await opened()
    toolbox.write("a.py", "def one(): ...")
    await until(toolbox, ["one"])

    watch = Stopwatch()
    await toolbox.source.close()

    assert watch.seconds() < 1.0


@pytest.mark.parametrize(
    ("pattern", "base", "recursive"),
    [
        ("*.py", "", False),
        ("tools/*.py", "tools", False),
        ("tools/a.py", "tools", False),
        ("tools/**/*.py", "tools", True),
        ("tools/*/main.py", "tools", True),
        ("tools/sub/../x.py", "tools/sub/..", False),
    ],
)
def test_a_glob_is_watched_no_wider_than_it_reaches(
    tmp_path: Path, pattern: str, base: str, *, recursive: bool
) -> None:
    (tmp_path / "tools" / "sub").mkdir(parents=True)

    [folder] = Globs((pattern,), folder=tmp_path).folders()

    assert (folder.path, folder.recursive) == (str(tmp_path / base), recursive)


def test_an_event_of_a_file_that_no_glob_names_is_passed_over(tmp_path: Path) -> None:
    globs = Globs(("tools/*.py",), folder=tmp_path)

    assert globs.concerns("/x/tools/a.py")
    assert not globs.concerns("/x/tools/jackfield.db-wal")
