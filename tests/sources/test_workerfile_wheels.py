"""A sandbox covers the installation too: whatever a tool file or a package brings along, nothing of it runs outside."""

import asyncio
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.requirement import requirement
from tests.sources.test_workerfile_environments import DEPENDS, slow_package
from tests.sources.test_workerfile_sandbox import sandboxed
from tests.sources.workers import worker_file

NEEDY = "import {name}\n\ndef needy() -> str:\n    return {name}.__name__\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is the package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def put_wheel(index: Path, name: str, *, requires: str = "", **files: str) -> None:
    info = f"{name}-1.0.dist-info"
    required = f"Requires-Dist: {requires}\n" if requires else ""
    texts = {f"{name}.py": ""} | {file.replace("__", "."): text for file, text in files.items()}
    texts[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{required}"
    texts[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*texts, f"{info}/RECORD"])
    with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for file, text in texts.items():
            wheel.writestr(file, text)


def put_source(index: Path, folder: Path) -> Path:
    """A package that has to be built, in the index; gives the file that tells that it was."""
    package = slow_package(folder, seconds=0)
    (package / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: slowpoke\nVersion: 1.0\n")
    with tarfile.open(index / "slowpoke-1.0.tar.gz", "w:gz") as archive:
        archive.add(package, "slowpoke-1.0")
    return package / "builds"


@requirement("SAFE-sandbox-installation")
async def test_what_a_package_runs_when_python_starts_is_run_inside_only(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv itself starts an environment's Python: to look at it, and to compile what was installed."""
    monkeypatch.setenv("UV_COMPILE_BYTECODE", "1")
    escaped = tmp_path / "escaped"
    line = f"import os; os.path.isdir({str(index)!r}) and open({str(escaped)!r}, 'a').write('x')\n"
    put_wheel(index, "creeper", creeper__pth=line, sitecustomize__py=line)
    async with sandboxed(tmp_path) as box:
        header = DEPENDS.format(requirement="creeper==1.0")
        box.write("needy.py", worker_file(NEEDY.format(name="creeper"), header=header))
        await box.refresh()
        assert await box.call("needy") == "creeper"
        box.write("needy.py", worker_file(NEEDY.format(name="creeper") + "# again\n", header=header))
        await box.refresh()
        assert await box.call("needy") == "creeper"
        assert not escaped.exists()


@requirement("SAFE-sandbox-installation")
async def test_a_package_that_would_have_to_be_built_is_not_installed(tmp_path: Path, index: Path) -> None:
    built = put_source(index, tmp_path)
    async with sandboxed(tmp_path) as box:
        box.write("needy.py", worker_file(NEEDY.format(name="x"), header=DEPENDS.format(requirement="slowpoke")))
        await box.refresh()
        failure = await box.failure("needy")
        assert failure.code == "install_failed"
        said = "uv could not install what needy.py depends on, as wheels only because its source has a sandbox: "
        assert failure.message.startswith(said)
        assert str(tmp_path / ".jackfield") not in failure.message
        assert not built.exists()


@requirement("SAFE-sandbox-installation")
async def test_an_address_among_the_needs_of_a_package_is_not_followed(tmp_path: Path, index: Path) -> None:
    package = slow_package(tmp_path, seconds=0)
    put_wheel(index, "creeper", requires=f"slowpoke @ {package.as_uri()}")
    async with sandboxed(tmp_path) as box:
        box.write("needy.py", worker_file(NEEDY.format(name="x"), header=DEPENDS.format(requirement="creeper")))
        await box.refresh()
        assert (await box.failure("needy")).code == "install_failed"
        assert not (package / "builds").exists()


@requirement("SAFE-sandbox-installation")
@pytest.mark.parametrize(
    "wanted",
    [
        "slowpoke @ file:///tmp/slowpoke",
        "slowpoke@https://example.org/slowpoke-1.0-py3-none-any.whl",
        "slowpoke @ git+https://example.org/slowpoke",
        "git+https://example.org/slowpoke",
        "./slowpoke",
        "/tmp/slowpoke",
        "slowpoke --index-url=https://example.org",
        "-r requirements.txt",
        "--no-config",
        "slowpoke\\n./other",
        "",
    ],
)
async def test_a_file_that_wants_more_than_packages_of_the_index_is_not_offered(tmp_path: Path, wanted: str) -> None:
    async with sandboxed(tmp_path) as box:
        box.write("needy.py", worker_file(NEEDY.format(name="x"), header=DEPENDS.format(requirement=wanted)))
        listing = await box.refresh()
        assert "needy" not in box.tools
        (fault,) = listing.faults
        assert fault.startswith("tools/needy.py, line 1: it depends on ")
        assert "only wheels of the package index are installed" in fault


@requirement("SAFE-sandbox-installation")
@pytest.mark.parametrize(
    "more",
    ["# [tool.uv]\n# no-build = false\n", "# [[tool.uv.index]]\n# url = 'https://example.org'\n"],
)
async def test_a_file_with_settings_for_uv_is_not_offered(tmp_path: Path, more: str) -> None:
    async with sandboxed(tmp_path) as box:
        box.write("needy.py", f"# /// script\n# dependencies = []\n{more}# ///\n{NEEDY.format(name='os')}")
        (fault,) = (await box.refresh()).faults
        assert fault.startswith("tools/needy.py, line 1: it has [tool.uv] settings")
        assert "needy" not in box.tools


@requirement("SAFE-sandbox-installation")
async def test_uv_never_reads_the_file_or_what_lies_beside_it(tmp_path: Path, index: Path) -> None:
    """A block in a string is none to Python, and one to a reader that looks for lines."""
    package = slow_package(tmp_path, seconds=0)
    put_wheel(index, "honest")
    block = f'# /// script\n# dependencies = ["slowpoke @ {package.as_uri()}"]\n# ///\n'
    hostile = f'[pip]\nfind-links = ["{tmp_path / "nowhere"}"]\nonly-binary = []\n'
    async with sandboxed(tmp_path) as box:
        for folder in (tmp_path, tmp_path / "tools", tmp_path / ".jackfield"):
            folder.mkdir(exist_ok=True)
            (folder / "uv.toml").write_text("this is no toml")
            (folder / ".python-version").write_text(f"{tmp_path}/python-of-somebody")
        (tmp_path / "pyproject.toml").write_text(hostile)
        text = f'"""Docs.\n\n{block}"""\n{DEPENDS.format(requirement="honest")}{NEEDY.format(name="honest")}'
        box.write("needy.py", text)
        assert (await box.refresh()).faults == ()
        assert await box.call("needy") == "honest"
        assert not (package / "builds").exists()


async def test_the_same_text_in_a_sandbox_and_outside_of_it_has_two_environments(tmp_path: Path, index: Path) -> None:
    put_wheel(index, "honest")
    text = worker_file(
        "import sys, honest\n\ndef place() -> str:\n    return sys.prefix\n",
        header=DEPENDS.format(requirement="honest"),
    )
    places: list[str] = []
    for options in ({}, {"sandbox": {"kind": "none"}}):
        async with sandboxed(tmp_path, **options) as box:
            box.write("needy.py", text)
            await box.refresh()
            places += await asyncio.gather(box.call("place"))
    inside, outside = places
    assert inside.startswith(str(tmp_path / ".jackfield" / "workers"))
    assert not outside.startswith(str(tmp_path / ".jackfield"))
