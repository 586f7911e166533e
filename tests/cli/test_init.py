import tomllib
from pathlib import Path

import pytest

from jackfield.cli.init import FILES, write_project
from jackfield.cli.main import main
from jackfield.cli.options import UsageError


def test_the_project_is_written_with_its_folders(tmp_path: Path) -> None:
    assert write_project(tmp_path / "deep" / "down") == list(FILES)
    assert (tmp_path / "deep" / "down" / "tools" / "hello.py").read_text(encoding="utf-8") == FILES["tools/hello.py"]


@pytest.mark.parametrize("name", list(FILES))
def test_nothing_is_written_when_one_of_the_files_exists(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"already exists; nothing was written"):
        write_project(tmp_path)
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        write_project(tmp_path / "taken")


def test_the_next_two_commands_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "my project")]) == 0
    said = capsys.readouterr().out
    assert f"cd '{tmp_path / 'my project'}' && jackfield serve" in said
    assert "jackfield call greet name=Ada" in said


def test_the_texts_are_valid() -> None:
    tomllib.loads(FILES["jackfield.toml"])
    commented = "\n".join(line.removeprefix("# ") for line in FILES["jackfield.toml"].splitlines()[18:])
    assert tomllib.loads(commented)["tools"][0]["name"] == "zen"
    compile(FILES["tools/hello.py"], "hello.py", "exec")
