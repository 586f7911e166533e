"""`make test` installs the programs that stories need, or stops and says how to get them; `make check` covers all."""

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


def bring(machine: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ROOT / "make" / command[0], *command[1:]],
        env={"PATH": str(machine), "HOME": str(machine)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def bring_programs(machine: Path) -> str:
    done = bring(machine, "programs")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("there", "installed"),
    [
        ([], "chromium zsh bubblewrap nginx-light"),
        (["zsh", "bwrap"], "chromium nginx-light"),
        (["chromium", "nginx"], "zsh bubblewrap"),
    ],
    ids=str,
)
def test_root_on_debian_gets_what_is_missing_without_being_asked(
    machine: Path, there: list[str], installed: str
) -> None:
    for name in there:
        add(machine, name, "true")
    assert f"from Debian: {installed}\n" in bring_programs(machine)
    asked = (machine.parent / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == ["-qq update", f"-qq install --yes --no-install-recommends {installed}"]


def test_a_package_that_debian_lacks_does_not_keep_the_others_away(machine: Path) -> None:
    add(machine, "apt-get", f'echo "$@" >> {machine.parent}/asked\ncase "$*" in *nginx*) exit 100 ;; esac')
    done = bring(machine, "programs")
    assert done.returncode == 0
    assert done.stderr == (
        "jackfield: nginx not found, so the gateway is not tested behind it. Install nginx to test that.\n"
    )
    asked = (machine.parent / "asked").read_text(encoding="utf-8").splitlines()
    assert [line.rpartition(" ")[2] for line in asked[2:]] == ["chromium", "zsh", "bubblewrap", "nginx-light"]


def test_whoever_may_not_install_chromium_gets_the_one_of_playwright(machine: Path) -> None:
    add(machine, "id", "echo 1000")
    add(machine, "playwright", f'echo "playwright $@" >> {machine.parent}/asked')
    assert "downloading Playwright's Chromium" in bring_programs(machine)
    assert (machine.parent / "asked").read_text(encoding="utf-8") == "playwright install chromium\n"


def test_whoever_cannot_install_chromium_is_stopped_and_told_how_to_get_it(machine: Path) -> None:
    add(machine, "id", "echo 1000")
    add(machine, "playwright", "exit 1")
    stopped = bring(machine, "programs")
    assert stopped.returncode == 1
    assert "apt-get install chromium, or .venv/bin/playwright install chromium" in stopped.stderr
    assert not (machine.parent / "asked").exists()


def test_whoever_may_not_install_the_others_is_told_what_is_not_tested(machine: Path) -> None:
    add(machine, "id", "echo 1000")
    add(machine, "chromium", "true")
    done = bring(machine, "programs")
    assert (done.returncode, done.stdout) == (0, "")
    for said in ("the tour is only tested in bash", "sandboxes are not tested", "not tested behind it"):
        assert said in done.stderr


def test_a_whole_run_is_stopped_where_the_console_cannot_be_built(tmp_path: Path, machine: Path) -> None:
    for folder in ("make", "console", "src/jackfield/console/dist"):
        (tmp_path / "clone" / folder).mkdir(parents=True)
    shutil.copy(ROOT / "make/console", tmp_path / "clone/make/console")
    add(machine, "dirname", 'echo "${1%/*}"')
    stopped = bring(machine, str(tmp_path / "clone/make/console"), "needed")
    assert stopped.returncode == 1
    assert "Install Node.js 20 or newer, then run make test again" in stopped.stderr
    assert bring(machine, str(tmp_path / "clone/make/console")).returncode == 0


def test_programs_that_are_there_are_taken(machine: Path) -> None:
    for name in ("chromium", "zsh", "bwrap", "nginx"):
        add(machine, name, "true")
    assert bring_programs(machine) == ""
    assert not (machine.parent / "asked").exists()


def told(*words: str) -> str:
    return subprocess.run(
        ["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout


@requirement("CON-make-test-check")
def test_make_test_brings_its_own_postgres_and_browser_and_make_check_covers_all() -> None:
    check = told("check")
    for part in ("ruff format --check", "ruff check", "mypy", "lint-imports", "make/console check"):
        assert part in check
    whole = told("test")
    for part in ("make/prepare dev", "make/console needed", "make/npm-programs", "make/programs"):
        assert part in whole
    assert "make/programs" not in told("test", "ARGS=tests/model")
    server = PostgresServer()
    assert server.folder.is_dir(), "the programs are found, and they get a folder of their own"
    shutil.rmtree(server.folder)
