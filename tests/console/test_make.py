"""`make test` brings the browser that these stories need, or says how to get one; `make check` covers everything."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.requirement import requirement

ROOT = Path(__file__).parents[2]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder for PATH: a shell, root's `id`, and an `apt-get` that only writes down what is asked of it."""
    path = tmp_path / "bin"
    path.mkdir()
    found = shutil.which("sh")
    assert found
    (path / "sh").symlink_to(found)
    add(path, "id", "echo 0")
    add(path, "apt-get", f'echo "$@" >> {tmp_path}/asked')
    return path


def add(machine: Path, name: str, does: str) -> None:
    (machine / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    (machine / name).chmod(0o755)


def bring_browser(machine: Path) -> str:
    done = subprocess.run(
        [ROOT / "make/browser"],
        env={"PATH": str(machine), "HOME": str(machine)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def test_root_on_debian_gets_chromium_without_being_asked(machine: Path) -> None:
    assert "installing Debian's chromium" in bring_browser(machine)
    asked = (machine.parent / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == ["-qq update", "-qq install --yes --no-install-recommends chromium"]


def test_whoever_cannot_install_it_is_told_how_to_get_it(machine: Path) -> None:
    add(machine, "id", "echo 1000")
    assert "apt-get install chromium, or .venv/bin/playwright install chromium" in bring_browser(machine)
    assert not (machine.parent / "asked").exists()


def test_a_chromium_that_is_there_is_taken(machine: Path) -> None:
    add(machine, "chromium", "true")
    assert bring_browser(machine) == ""
    assert not (machine.parent / "asked").exists()


def told(target: str) -> str:
    return subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout


@requirement("CON-make-test-check")
def test_make_test_brings_its_own_postgres_and_browser_and_make_check_covers_all() -> None:
    check = told("check")
    for part in ("ruff format --check", "ruff check", "mypy", "lint-imports", "make/console check"):
        assert part in check
    assert "make/prepare dev" in told("test")
    assert "make/browser" in (ROOT / "make/prepare").read_text(encoding="utf-8")
    server = PostgresServer()
    assert server.folder.is_dir(), "the programs are found, and they get a folder of their own"
    shutil.rmtree(server.folder)
