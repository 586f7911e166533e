"""`jackfield init`, and a newcomer who pastes what it prints."""

import json
from pathlib import Path

import pytest

from jackfield.sdk import SyncClient
from tests.harness.process import run_cli, running_gateway
from tests.requirement import requirement


@requirement("CON-cli-init")
def test_the_project_serves_as_it_is(tmp_path: Path) -> None:
    done = run_cli("init", "demo", cwd=tmp_path)
    assert done.returncode == 0
    assert "cd demo && jackfield serve" in done.stdout
    with running_gateway(tmp_path / "demo") as gateway:
        assert run_cli("call", "greet", "name=Ada", cwd=gateway.folder).stdout == "Hello, Ada.\n"
        assert run_cli("call", "greet", "name=Ada", "excited=yes", cwd=gateway.folder).stdout == "Hello, Ada!\n"
        rolled = json.loads(run_cli("call", "roll", "sides=4", "times=3", cwd=gateway.folder).stdout)
        assert rolled["total"] == sum(rolled["rolls"])
        assert run_cli("call", "countdown", "seconds=0", cwd=gateway.folder).returncode == 0
        tools = json.loads(run_cli("call", "inventory", cwd=gateway.folder).stdout)
        assert tools == ["countdown", "greet", "inventory", "roll"]
        doctor = run_cli("doctor", cwd=gateway.folder)
        assert (doctor.returncode, "No faults." in doctor.stdout) == (0, True)


@requirement("CON-cli-init")
def test_the_readmes_python_works_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cli("init", cwd=tmp_path)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert 'print(client.tools.call("greet", name="Ada"))' in readme
    with running_gateway(tmp_path):
        monkeypatch.chdir(tmp_path)
        for name in ("JACKFIELD_URL", "JACKFIELD_KEY", "JACKFIELD_DATA", "JACKFIELD_ADMIN_KEY"):
            monkeypatch.delenv(name, raising=False)
        with SyncClient() as client:
            assert client.tools.call("greet", name="Ada") == "Hello, Ada."


@requirement("CON-cli-init")
def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    done = run_cli("init", cwd=tmp_path)
    assert done.returncode == 2
    assert "README.md already exists; nothing was written" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md"]
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_what_was_written_can_be_had_as_json(tmp_path: Path) -> None:
    said = json.loads(run_cli("init", "demo", "--json", cwd=tmp_path).stdout)
    assert said["folder"] == str(tmp_path / "demo")
    assert all((tmp_path / "demo" / name).is_file() for name in said["written"])
    assert "jackfield.toml" in said["written"]


@requirement("OPS-empty-folder")
def test_a_gateway_in_an_empty_folder_says_what_to_do_and_that_works(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        assert "is up at" in gateway.log
        (said,) = [line.strip() for line in gateway.log.splitlines() if "jackfield init" in line]
        assert "under Sources" in gateway.log
        assert said == "jackfield init && jackfield reload"
        for line in said.split(" && "):
            done = run_cli(*line.split()[1:], cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        assert run_cli("call", "greet", "name=Ada", cwd=tmp_path).stdout == "Hello, Ada.\n"


@requirement("OPS-empty-folder")
def test_each_file_is_explained_and_nothing_is_asked(tmp_path: Path) -> None:
    done = run_cli("init", cwd=tmp_path)
    wrote = [line.split(maxsplit=2) for line in done.stdout.splitlines() if line.startswith("  wrote ")]
    assert [name for _, name, _ in wrote] == ["jackfield.toml", "tools/hello.py", "README.md", ".gitignore"]
    assert all(purpose for _, _, purpose in wrote)
    assert "jackfield reload" in done.stdout


def test_a_config_without_sources_is_told_where_they_go(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "[scenario]\nname = 'bare'\n") as gateway:
        assert f"add a table [sources.NAME] to {tmp_path / 'jackfield.toml'}" in gateway.log
        assert "jackfield init" not in gateway.log
