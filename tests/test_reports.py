"""What a run of pytest with this project's plugins says, seen from outside: in small projects of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = "[pytest]\ntestpaths = tests\nmarkers = requirement(*ids)\naddopts = -p no:cacheprovider\n"
PLUGINS = 'pytest_plugins = ["tests.reports", "tests.shown"]\n'
DEMANDS = "".join(
    f'[[requirement]]\nid = "{name}"\nseed = "000"\nsays = "."\nhow = "unit"\nissue = "x"\nshown = true\n'
    for name in ("A-one", "A-two")
)
SHOWING = """
import pytest

@pytest.mark.requirement("A-one")
def test_one(): ...

@pytest.fixture
def browser():
    {does}

@pytest.mark.requirement("A-two")
def test_two(browser): ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose `tests` folder is not ours, so that our own is imported by name."""
    (tmp_path / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(PLUGINS, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/requirements.toml").write_text(DEMANDS, encoding="utf-8")
    return tmp_path


def run(project: Path, source: str, *args: str) -> "subprocess.CompletedProcess[str]":
    (project / "tests/test_it.py").write_text(source, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "xdist", *args],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "INTERNALERROR" not in ran.stdout + ran.stderr
    return ran


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_whole_run_fails_where_all_tests_of_a_ticked_demand_were_skipped(project: Path, workers: str) -> None:
    ran = run(project, SHOWING.format(does="pytest.skip('needs Chromium')"), "-n", workers)
    assert ran.returncode == 1
    said = "A-two is ticked, and no test of it ran and passed: Skipped: needs Chromium"
    assert [line for line in ran.stdout.splitlines() if line.startswith("A-")] == [said]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_whole_run_that_shows_everything_says_nothing(project: Path, workers: str) -> None:
    ran = run(project, SHOWING.format(does="pass"), "-n", workers)
    assert (ran.returncode, "did not show" in ran.stdout) == (0, False)


@pytest.mark.parametrize(
    "part", [("-k", "two"), ("tests/test_it.py",), ("--deselect", "tests/test_it.py::test_one"), ("-m", "not slow")]
)
def test_a_part_of_the_suite_is_not_measured(project: Path, part: tuple[str, ...]) -> None:
    ran = run(project, SHOWING.format(does="pytest.skip('needs Chromium')"), *part)
    assert (ran.returncode, "did not show" in ran.stdout) == (0, False)


COLLECTING = """
import ast, gc, pytest

def parse(phase, info):
    if phase == "start":
        ast.parse("1")

@pytest.fixture
def collecting():
    before = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(5)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(parse)

def test_it(collecting):
    assert {"the": "words"} == {"of": "the test"}
"""


def test_a_failure_is_reported_though_a_garbage_collection_parses_in_the_middle(project: Path) -> None:
    ran = run(project, COLLECTING)
    assert ran.returncode == 1
    assert "1 failed" in ran.stdout
    assert "could not report" not in ran.stdout
    assert "{'the': 'words'} == {'of': 'the test'}" in ran.stdout


UNREADABLE = """
import _pytest._code.source as source

def test_it(monkeypatch):
    def parse(*_): raise SystemError("AST constructor recursion depth mismatch")
    source.ast = type("Broken", (), {"parse": parse})
    assert {"the": "words"} == {"of": "the test"}

def test_the_next(): ...
"""


def test_a_failure_that_pytest_cannot_report_has_a_plain_traceback_and_the_run_goes_on(project: Path) -> None:
    ran = run(project, UNREADABLE)
    assert "1 failed, 1 passed" in ran.stdout
    assert "pytest could not report this as usual: SystemError: AST constructor recursion depth mismatch" in ran.stdout
    assert "{'the': 'words'} == {'of': 'the test'}" in ran.stdout
