"""PEP 723 in earnest: what a file depends on is installed by uv, for that file, outside the call's time."""

import asyncio
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
import uv

from tests.requirement import requirement
from tests.sources.workers import PID, until, worker_box, worker_file

DEPENDS = """\
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "{requirement}",
# ]
# ///
"""
VERSION = "import importlib.metadata\n\ndef {name}() -> str:\n    return importlib.metadata.version('six')\n"


@requirement(
    "WORK-pep723-declares",
    "WORK-pep723-detected",
    "WORK-pep723-isolated",
    "WORK-pep723-installs",
    "WORK-start-uv-run",
)
async def test_two_files_that_need_different_versions_of_a_package_both_work(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        for name, version in (("older", "1.16.0"), ("newer", "1.17.0")):
            header = DEPENDS.format(requirement=f"six=={version}")
            text = VERSION.format(name=name) + f"# {uuid4()}: uv has no environment of it yet\n"
            box.write(f"{name}.py", worker_file(text, header=header))
        await box.refresh()
        assert list(await asyncio.gather(box.call("older"), box.call("newer"))) == ["1.16.0", "1.17.0"]
        assert all(most > 600 for most in box.held)
        assert any("six" in (told.message or "") for told in box.progress)


async def test_an_environment_is_made_once_for_all_callers_and_survives_a_restart(tmp_path: Path) -> None:
    package = slow_package(tmp_path, seconds=0.2)
    header = DEPENDS.format(requirement=f"slowpoke @ {package.as_uri()}")
    async with worker_box(tmp_path) as box:
        box.write("slow.py", worker_file(PID, header=header))
        await box.refresh()
        assert len(set(await asyncio.gather(*(box.call("pid") for _ in range(8))))) == 1
    assert (package / "builds").read_text() == "x"
    async with worker_box(tmp_path) as box:
        await box.refresh()
        await box.call("pid")
        assert box.progress == []
    assert (package / "builds").read_text() == "x"


async def test_a_failed_installation_is_told_with_uvs_own_words_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    header = DEPENDS.format(requirement="no-such-package-of-jackfield @ file:///nowhere/at/all")
    async with worker_box(tmp_path) as box:
        box.write("hopeless.py", worker_file(PID, header=header))
        await box.refresh()
        failure = await box.failure("pid")
        assert failure.code == "install_failed"
        assert failure.message.startswith("uv could not install what hopeless.py depends on: ")
        assert failure.message.endswith("error: Distribution not found at: file:///nowhere/at/all")
        assert str(tmp_path) not in failure.message
        assert box.worker_host.statuses()[0].error == failure.message
        assert (await box.failure("pid")).code == "install_failed"
        assert [line.text for line in box.worker_host.log("hopeless", limit=10)] == failure.message.splitlines()
    assert [record.getMessage() for record in caplog.records].count(failure.message) == 2


async def test_a_data_folder_that_cannot_be_written_is_told_without_its_path(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("tool.py", worker_file(PID))
        (tmp_path / ".jackfield").mkdir()
        (tmp_path / ".jackfield" / "workers").write_text("a file where a folder should be")
        await box.refresh()
        failure = await box.failure("pid")
        assert failure.code == "install_failed"
        assert failure.message.startswith("tool.py could not be made ready to run: ")
        assert str(tmp_path) not in failure.message
        (tmp_path / ".jackfield" / "workers").unlink()
        assert isinstance(await box.call("pid"), int)


async def test_a_gateway_without_uv_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there() -> str:
        raise FileNotFoundError("Could not find the uv binary")

    monkeypatch.setattr(uv, "find_uv_bin", not_there)
    async with worker_box(tmp_path) as box:
        box.write("tool.py", worker_file(PID))
        await box.refresh()
        failure = await box.failure("pid")
        assert (failure.code, failure.message.endswith("Install it there: pip install uv")) == ("install_failed", True)


async def test_an_environment_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        text = "import os, sys\n\ndef home() -> str:\n    return sys.prefix\n\ndef leave() -> None:\n    os._exit(0)\n"
        box.write("tool.py", worker_file(text))
        await box.refresh()
        environment = Path(await box.call("home"))
        assert (environment / "pyvenv.cfg").exists()
        shutil.rmtree(environment)
        assert (await box.failure("leave")).code == "worker_crashed"
        assert Path(await box.call("home")) == environment
        assert (environment / "pyvenv.cfg").exists()


async def test_two_files_of_the_same_text_are_installed_once_each(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        for name in ("one", "two"):
            box.write(f"{name}.py", worker_file(PID))
        await box.refresh()
        assert await box.call("pid") != await box.call("two_pid")
        assert box.progress != []
    async with worker_box(tmp_path) as box:
        await box.refresh()
        await box.call("pid")
        await box.call("two_pid")
        assert box.progress == []


async def test_an_installation_shows_as_the_files_state_and_its_failure_goes_with_the_text(tmp_path: Path) -> None:
    package = slow_package(tmp_path, seconds=60)
    header = DEPENDS.format(requirement=f"slowpoke @ {package.as_uri()}")
    async with worker_box(tmp_path, install_timeout=1.5) as box:
        box.write("slow.py", worker_file(PID, header=header))
        await box.refresh()
        call = asyncio.create_task(box.failure("pid"))
        await until(lambda: box.worker_host.statuses()[0].state == "installing")
        assert (await call).code == "install_failed"
        (status,) = box.worker_host.statuses()
        assert (status.state, status.error) == ("idle", (await call).message)
        box.write("slow.py", worker_file(PID))
        await box.refresh()
        assert box.worker_host.statuses()[0].error is None


async def test_an_installation_that_lasts_too_long_is_given_up(tmp_path: Path) -> None:
    package = slow_package(tmp_path, seconds=60)
    header = DEPENDS.format(requirement=f"slowpoke @ {package.as_uri()}")
    async with worker_box(tmp_path, install_timeout=1) as box:
        box.write("slow.py", worker_file(PID, header=header))
        await box.refresh()
        failure = await box.failure("pid")
        said = "What slow.py depends on was not installed within 1 s."
        assert (failure.code, failure.message.startswith(said)) == ("install_failed", True)


@requirement("CON-file-malformed")
@pytest.mark.parametrize("line", ["# dependencies = [", "# dependencies = 3 3", "# = 4"])
async def test_a_file_with_malformed_metadata_is_skipped_with_its_fault_shown(tmp_path: Path, line: str) -> None:
    async with worker_box(tmp_path) as box:
        box.write("bad.py", f"# /// script\n{line}\n# ///\n{PID}")
        box.write("good.py", "def fine() -> int:\n    return 1\n")
        listing = await box.refresh()
        assert [tool.name for tool in listing.tools] == ["fine"]
        (fault,) = listing.faults
        assert fault.startswith("tools/bad.py, line 1: its script metadata is malformed: ")
        assert box.worker_host.statuses() == []


def slow_package(folder: Path, *, seconds: float) -> Path:
    """A source package whose build takes its time and counts itself."""
    package = folder / "slowpoke"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[project]\nname = "slowpoke"\nversion = "1.0"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (package / "backend.py").write_text(BACKEND.format(seconds=seconds, counter=str(package / "builds")))
    return package


BACKEND = """
import time, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open({counter!r}, "a") as counter:
        counter.write("x")
    time.sleep({seconds})
    name = "slowpoke-1.0-py3-none-any.whl"
    info = "slowpoke-1.0.dist-info"
    with zipfile.ZipFile(f"{{folder}}/{{name}}", "w") as wheel:
        wheel.writestr("slowpoke.py", "")
        wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: slowpoke\\nVersion: 1.0\\n")
        facts = "Wheel-Version: 1.0\\nGenerator: us\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{{info}}/WHEEL", facts)
        files = ["slowpoke.py", f"{{info}}/METADATA", f"{{info}}/WHEEL", f"{{info}}/RECORD"]
        wheel.writestr(f"{{info}}/RECORD", "".join(f"{{file}},,\\n" for file in files))
    return name
"""
