"""What has to be seen for a program to run."""

import os
import sys
from pathlib import Path

import pytest

import jackfield
from jackfield.workers.sandbox.view import jackfield_files, program_files, resolve_links

BASE = Path(sys.base_prefix).resolve()


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_way_to_a_file_is_followed_over_every_link(tmp_path: Path) -> None:
    real = tmp_path / "versions" / "1.2" / "bin" / "tool"
    executable(real, "")
    (tmp_path / "current").symlink_to("versions/1.2")
    (tmp_path / "tool").symlink_to(tmp_path / "current" / "bin" / ".." / "bin" / "tool")
    links, found = resolve_links(tmp_path / "tool")
    assert found == real
    assert links == {
        str(tmp_path / "tool"): str(tmp_path / "current/bin/../bin/tool"),
        str(tmp_path / "current"): "versions/1.2",
    }


def test_a_way_that_leads_in_circles_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        resolve_links(tmp_path / "a")


def test_a_program_of_an_environment_needs_the_environment_and_its_python(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    script = executable(environment / "bin" / "agent", "#!/nowhere/python\n")
    (environment / "pyvenv.cfg").write_text("")
    (environment / "bin" / "python").symlink_to(BASE / "bin" / f"python3.{sys.version_info.minor}")
    needs = program_files(str(script), env={})
    assert needs[0] == environment
    assert BASE in needs
    assert program_files("agent", env={"PATH": str(script.parent)}) == needs


def test_a_script_needs_its_interpreter(tmp_path: Path) -> None:
    shell = executable(tmp_path / "one" / "shell", "")
    by_name = executable(tmp_path / "two" / "by_name", "#!/usr/bin/env -S X=1 shell\n")
    by_path = executable(tmp_path / "two" / "by_path", f"#!{shell}\n")
    env = {"PATH": f"{shell.parent}{os.pathsep}{by_name.parent}"}
    assert program_files("by_name", env=env) == (by_name, shell)
    assert program_files("by_path", env=env) == (by_path, shell)
    assert program_files("./by_path", env={}, folder=by_path.parent) == (by_path, shell)


def test_a_script_that_names_itself_is_no_riddle(tmp_path: Path) -> None:
    path = tmp_path / "self"
    executable(path, f"#!{path}\n")
    assert program_files(str(path), env={}) == (path,)


def test_a_program_alone_does_not_bring_its_folder_along(tmp_path: Path) -> None:
    """`~/bin/tool` must not show all of a home."""
    tool = executable(tmp_path / "bin" / "tool", "\x7fELF")
    python = executable(tmp_path / "bin" / "python3", "")
    assert program_files(str(tool), env={}) == (tool,)
    assert tmp_path not in program_files(str(python), env={})


def test_a_program_that_is_not_there_needs_nothing() -> None:
    assert program_files("no-such-program", env={"PATH": "/nowhere"}) == ()


def test_this_gateway_needs_its_python_and_its_own_code() -> None:
    needs = jackfield_files()
    assert Path(jackfield.__file__).parent in needs
    assert BASE in needs
