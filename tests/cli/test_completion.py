"""The completion scripts, loaded by the shells they are for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from jackfield.cli.completion import all_words, bash_script, fish_script, zsh_script
from jackfield.cli.main import COMMANDS

BASH = """
{script}
COMP_WORDS=({words}); COMP_CWORD={index}; _jackfield; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    script = BASH.format(script=bash_script(all_words()), words=line, index=len(words) - 1)
    shell = subprocess.run(["bash", "--norc"], input=script, text=True, capture_output=True, check=True)
    assert shell.stderr == ""
    return shell.stdout.split()


def test_bash_completes_commands() -> None:
    assert completed("jackfield", "ke") == ["keys"]
    assert set(COMMANDS) < set(completed("jackfield", ""))


def test_bash_completes_options_and_choices_of_a_command() -> None:
    assert completed("jackfield", "keys", "rot") == ["rotate"]
    assert completed("jackfield", "keys", "create", "ci", "--exp") == ["--expires"]
    assert completed("jackfield", "completion", "z") == ["zsh"]
    assert completed("jackfield", "calls", "--kind", "re") == ["resource"]


def test_bash_completes_files_where_a_value_is_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").touch()
    assert completed("jackfield", "serve", "--config", f"{tmp_path}/mi") == [f"{tmp_path}/mine.toml"]


def test_every_command_is_in_every_script() -> None:
    words = all_words()
    for script in (bash_script(words), zsh_script(words), fish_script(words)):
        assert [name for name in COMMANDS if name not in script] == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_loads_its_script() -> None:
    loaded = subprocess.run(
        ["zsh", "-f"],
        input=f"autoload -U compinit; compinit -D\n{zsh_script(all_words())}\nprint ${{_comps[jackfield]}}",
        text=True,
        capture_output=True,
        check=True,
    )
    assert (loaded.stdout.strip(), loaded.stderr) == ("_jackfield", "")
