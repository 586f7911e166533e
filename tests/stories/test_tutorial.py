"""README.md and docs/tutorial/, pasted into a shell: every block runs and prints what the page says it prints.

In the outputs shown there, `…` stands for anything within a line, and a line that is only `…` for any lines.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jackfield import __version__
from tests.harness.process import RunningGateway, clean_environment, running_gateway

ROOT = Path(__file__).parents[2]
DEMO = "examples/demo"
TUTORIAL = sorted(f"docs/tutorial/{path.name}" for path in (ROOT / "docs/tutorial").glob("[1-9]-*.md"))
SERVE = "make serve\n"
INSTALL = f"make wheel\nuvx --from ./dist/jackfield-{__version__}-py3-none-any.whl jackfield serve\n"
"""`test_wheel.py` does the same elsewhere."""
TEST = "make test\n"
MARK = "=== end of block"
SHELLS = {
    "bash": ["bash", "--norc"],
    # Interactive, because only then zsh takes `#` as a word and `!` as a reference to the history.
    "zsh": ["zsh", "-f", "-i", "-o", "no_prompt_sp"],
}

_BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n(?:```text\n(?P<output>.*?)```\n)?", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Commands to paste, and what the page says they print (nothing said: anything)."""

    commands: str
    output: str | None

    @property
    def pattern(self) -> str:
        """The output as a regular expression."""
        lines = (self.output or "…\n").rstrip("\n").split("\n")
        return "\n".join(r"(?s:.*?)" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) for line in lines)


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(found["commands"], found["output"]) for found in _BLOCK.finditer(text)]


@pytest.fixture
def served_demo(tmp_path: Path) -> Iterator[RunningGateway]:
    """What a newcomer's folder looks like once `make serve` runs in the first terminal."""
    shutil.copytree(ROOT / DEMO, tmp_path / DEMO, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with running_gateway(tmp_path / DEMO) as gateway:
        yield gateway


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    command = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def paste(blocks: list[Block], gateway: RunningGateway, shell: list[str]) -> list[str]:
    """Paste all blocks into one shell, as a person would; returns what each one printed."""
    script = "".join(f"{block.commands}\necho '{MARK}'\n" for block in blocks)
    ran = subprocess.run(
        shell,
        input=script.replace("127.0.0.1:8420", f"127.0.0.1:{gateway.port}"),
        cwd=gateway.folder.parents[1],
        env=clean_environment({"TMPDIR": str(gateway.folder.parents[1]), "PS1": "", "PS2": ""}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    printed = ran.stdout.split(f"{MARK}\n")
    assert len(printed) == len(blocks) + 1, ran.stdout
    return printed[:-1]


def assert_prints(blocks: list[Block], printed: list[str]) -> None:
    for block, output in zip(blocks, printed, strict=True):
        assert re.fullmatch(block.pattern, output.strip("\n")), f"{block.commands}\nprinted:\n{output}"


def test_the_readme_and_the_tutorial_work_when_pasted(served_demo: RunningGateway, shell: list[str]) -> None:
    serve, *quick_start, install, test = blocks_of("README.md")
    assert (serve.commands, install.commands, test.commands) == (SERVE, INSTALL, TEST)
    first, *tour = [block for page in TUTORIAL for block in blocks_of(page)]
    assert first.commands == SERVE
    blocks = [*quick_start, *tour]
    assert sum(block.output is not None for block in blocks) >= 10
    if shell == SHELLS["zsh"]:
        blocks = quick_start  # that zsh can read the others, `test_docs.py` shows

    assert_prints(blocks, paste(blocks, served_demo, shell))
