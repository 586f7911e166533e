"""A newcomer's commands, on a copy of this folder that has never been set up. Needs what they need: a package index."""

import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import msgspec
import pytest

from jackfield.settings import load_settings
from tests.harness.process import clean_environment, free_port
from tests.requirement import requirement
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
NOT_CLONED = shutil.ignore_patterns(
    ".venv", ".git", ".jackfield", ".*_cache", ".hypothesis", "__pycache__", "node_modules"
)
SET_UP_WITHIN = 300.0

SHELL_WORDS = ("awk", "cat", "cksum", "dirname", "env", "grep", "head", "make", "rm", "sh")


def copy_of_the_folder(target: Path) -> Path:
    shutil.copytree(ROOT, target, ignore=NOT_CLONED)
    return target


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_folder(tmp_path_factory.mktemp("newcomer") / "jackfield")


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A folder for PATH with a shell's words in it and no Python."""
    path = tmp_path / "bin"
    path.mkdir()
    for word in SHELL_WORDS:
        found = shutil.which(word)
        assert found, word
        (path / word).symlink_to(found)
    return path


def add_python(machine: Path, *, new_enough: bool, without: str = "") -> None:
    """A `python3` that answers make/prepare's questions as such an interpreter would."""
    script = f"""\
#!/bin/sh
case "$2" in
*"version_info <"*) exit {0 if new_enough else 1} ;;
*import*{without or "nothing"}*) exit 1 ;;
*version_info*) echo 3.12 ;;
esac
"""
    (machine / "python3").write_text(script, encoding="utf-8")
    (machine / "python3").chmod(0o755)


def prepare(folder: Path, machine: Path, **extra: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": str(machine), **extra}
    return subprocess.run(
        ["make/prepare", "run"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def make_serve(folder: Path, port: int) -> Iterator[Path]:
    """`make serve` once it is ready, as the file with all it printed. Its process group is stopped at the end."""
    output = folder / "serve.out"
    with output.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            ["make", "serve"],
            cwd=folder,
            env=clean_environment({"JACKFIELD_PORT": str(port), "PYTHONUNBUFFERED": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ready() -> bool:
        assert process.poll() is None, output.read_text(encoding="utf-8")
        try:
            return httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    try:
        eventually(ready, within=SET_UP_WITHIN)
        yield output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.mark.timeout(400)
@requirement("CON-make-serve", "DISC-reference-tools")
def test_make_serve_sets_itself_up_and_serves_the_demo(clone: Path) -> None:
    port = free_port()
    with make_serve(clone, port) as output:
        key_file = clone / "examples/demo/.jackfield/admin.key"
        answer = httpx2.get(
            f"http://127.0.0.1:{port}/api/v1/tools",
            headers={"Authorization": f"Bearer {key_file.read_text(encoding='utf-8').strip()}"},
        )
        said = output.read_text(encoding="utf-8")
    manifest = msgspec.json.decode(answer.content)

    assert "creating .venv with" in said
    assert f"http://127.0.0.1:{port}/" in said
    assert "admin.key" in said
    assert "curl " in said
    assert manifest["scenario"]["name"] == "jackfield-demo"
    assert {"roll_dice", "hotel_search", "gateway_health", "displayChart"} <= {t["name"] for t in manifest["tools"]}
    assert len(manifest["tools"]) >= 12
    assert (clone / "examples/demo/.jackfield/jackfield.db").is_file()

    with make_serve(clone, free_port()) as output:
        again = output.read_text(encoding="utf-8")
    assert "installing" not in again, "nothing had changed, so nothing should have been installed"


def test_the_demo_is_served_on_sqlite_at_the_port_that_everyone_is_told() -> None:
    settings = load_settings(ROOT / "examples/demo", environment={})
    assert settings.url == "http://127.0.0.1:8420"
    assert settings.store_url.startswith("sqlite:")
    assert settings.keys == {}


def test_a_machine_without_python_is_told_what_to_install(tmp_path: Path, bare_machine: Path) -> None:
    answer = prepare(copy_of_the_folder(tmp_path / "clone"), bare_machine)
    assert answer.returncode == 1
    assert "Python 3.11 or newer is needed and was not found." in answer.stderr
    assert "apt-get install python3 python3-venv" in answer.stderr


def test_a_python_that_is_too_old_counts_as_none(tmp_path: Path, bare_machine: Path) -> None:
    add_python(bare_machine, new_enough=False)
    answer = prepare(copy_of_the_folder(tmp_path / "clone"), bare_machine)
    assert answer.returncode == 1
    assert "Python 3.11 or newer is needed and was not found." in answer.stderr


def test_a_python_without_venv_is_told_the_package_that_has_it(tmp_path: Path, bare_machine: Path) -> None:
    add_python(bare_machine, new_enough=True, without="ensurepip")
    answer = prepare(copy_of_the_folder(tmp_path / "clone"), bare_machine)
    assert answer.returncode == 1
    assert "python3 cannot create virtual environments." in answer.stderr
    assert "apt-get install python3-venv" in answer.stderr
    assert "python3.12-venv" in answer.stderr


def test_a_python_without_sqlite_is_refused_by_name(tmp_path: Path, bare_machine: Path) -> None:
    add_python(bare_machine, new_enough=True, without="sqlite3")
    answer = prepare(copy_of_the_folder(tmp_path / "clone"), bare_machine)
    assert answer.returncode == 1
    assert "python3 was built without sqlite3 or ssl." in answer.stderr


def test_a_named_python_is_the_only_one_that_is_tried(tmp_path: Path, bare_machine: Path) -> None:
    add_python(bare_machine, new_enough=True)
    answer = prepare(copy_of_the_folder(tmp_path / "clone"), bare_machine, PYTHON="/nowhere/python3")
    assert answer.returncode == 1
    assert "/nowhere/python3 is not Python 3.11 or newer." in answer.stderr


@pytest.mark.parametrize("command", ["ruff format --check", "ruff check", "mypy", "lint-imports"])
def test_make_check_looks_at_format_lint_types_and_layers(command: str) -> None:
    planned = subprocess.run(
        ["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert f".venv/bin/{command}" in planned


def test_continuous_integration_runs_check_and_test_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text("check:\n\t@echo checked\ntest:\n\t@echo tested; exit 7\n", encoding="utf-8")
    answer = subprocess.run([tmp_path / ".ci/run"], capture_output=True, text=True, check=False)
    assert answer.stdout.split("\n")[:4] == ["== make check", "checked", "== make test", "tested"]
    assert answer.returncode != 0


def test_make_alone_lists_the_commands() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("serve", "test", "check", "bench", "requirements"):
        assert f"make {target} " in said


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_the_locks_pin_with_hashes_and_name_no_host(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    blocks = [block for block in text.replace("\\\n", " ").splitlines() if block and not block.strip().startswith("#")]
    assert len(blocks) > 10
    for block in blocks:
        assert "==" in block, block
        assert "--hash=sha256:" in block, block


def test_the_locks_pin_everything_that_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    serving = project["project"]["dependencies"] + project["build-system"]["requires"]
    developing = serving + project["dependency-groups"]["dev"] + project["project"]["optional-dependencies"]["otel"]
    for name, wanted in (("requirements.lock", serving), ("requirements-dev.lock", developing)):
        pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        missing = {re.split(r"[<>=;\[ ]", demand)[0] for demand in wanted} - pinned
        assert missing == set(), f"{name} is behind pyproject.toml. Run 'make lock'."
