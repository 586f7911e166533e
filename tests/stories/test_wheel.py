"""The wheel in a fresh environment: no Node, no repository, only what `make wheel` has put into it."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from jackfield import __version__
from tests.harness.process import free_port
from tests.requirement import requirement
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
BUILT = ROOT / "src/jackfield/console/dist/index.html"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release` makes, elsewhere, so that `dist/` stays as it is."""
    if not BUILT.is_file():
        pytest.skip("needs a built console: make console, where npm is there")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, ROOT / "make/release.py", "--out", out)
    return out / f"jackfield-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`jackfield` in an environment that has nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    constraints = ROOT / "requirements.lock"  # what is installed already is in uv's cache
    run(UV, "venv", "--python", sys.executable, folder)
    run(UV, "pip", "install", "--python", folder, "--constraint", constraints, wheel)
    return folder / "bin/jackfield"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(jackfield: Path, folder: Path) -> Iterator[str]:
    """The url of `jackfield serve` in this folder, with no program in PATH and none of our variables."""
    folder.mkdir()
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = folder.with_suffix(".log")
    with log.open("wb") as said:
        process = subprocess.Popen(
            [jackfield, "serve", "--port", str(port)],
            cwd=folder,
            env={"PATH": os.devnull, "HOME": str(folder)},
            stdout=said,
            stderr=said,
        )

    def ready() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            return httpx2.get(f"{url}/readyz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    try:
        eventually(ready, within=180)  # a fresh environment has no compiled modules yet
        yield url
    finally:
        process.terminate()
        process.wait(30)


@requirement("OPS-wheel")
def test_the_wheel_serves_with_the_console_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    with serving(installed, tmp_path / "empty") as url:
        page = httpx2.get(url).text
        assert page == BUILT.read_text(encoding="utf-8")
        assets = [part.split('"')[0] for part in page.split('="/')[1:] if part.startswith("assets/")]
        assert assets
        assert {httpx2.get(f"{url}/{asset}").status_code for asset in assets} == {200}
        assert run(installed, "--version") == f"jackfield {__version__}\n"


@requirement("OPS-wheel")
def test_the_sdist_has_what_a_build_needs_and_no_tests(wheel: Path) -> None:
    sdist = wheel.with_name(f"jackfield-{__version__}.tar.gz")
    with tarfile.open(sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames()}
        assert "src" in top
    assert top.isdisjoint({"tests", "bench", "console", "examples", ".github"})
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "jackfield",
            f"jackfield-{__version__}.dist-info",
        }


@requirement("OPS-release")
def test_a_release_has_packages_for_npm_what_an_image_needs_and_checksums(wheel: Path) -> None:
    lines = (wheel.parent / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}
    made = {path.name: path for path in wheel.parent.iterdir() if path.name != "SHA256SUMS"}
    assert (
        set(listed)
        == set(made)
        == {
            f"jackfield-{__version__}-py3-none-any.whl",
            f"jackfield-{__version__}.tar.gz",
            f"jackfield-{__version__}-image.tar.gz",
            f"jackfield-client-{__version__}.tgz",
            f"jackfield-react-{__version__}.tgz",
        }
    )
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in made.items()} == listed
    with tarfile.open(made[f"jackfield-client-{__version__}.tgz"]) as archive:
        assert {"package/dist/index.js", "package/dist/index.d.ts", "package/README.md"} <= set(archive.getnames())


def test_without_a_console_no_wheel_is_built(tmp_path: Path) -> None:
    (tmp_path / "make").mkdir()
    script = tmp_path / "make/wheel.py"
    script.write_bytes((ROOT / "make/wheel.py").read_bytes())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "The console is not built. Install Node.js 20 or newer" in done.stderr
    assert not (tmp_path / "dist").exists()
