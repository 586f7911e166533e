"""The README's five minutes, pasted into a shell: every block runs, and prints what the README says it prints.

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

from tests.stories.gateway import RunningGateway, clean_environment, running_gateway

ROOT = Path(__file__).parents[2]
DEMO = "examples/demo"
FIRST_TERMINAL = "make serve\n"
MARK = "=== end of block"

_BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n(?:```text\n(?P<output>.*?)```\n)?", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Commands to paste, and what the README says they print (nothing said: anything)."""

    commands: str
    output: str | None

    @property
    def pattern(self) -> str:
        """The output as a regular expression."""
        lines = (self.output or "…\n").rstrip("\n").split("\n")
        return "\n".join(r"(?s:.*?)" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) for line in lines)


def tour() -> list[Block]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## Five minutes\n")[1].split("\n## ")[0]
    return [Block(found["commands"], found["output"]) for found in _BLOCK.finditer(section)]


@pytest.fixture
def served_demo(tmp_path: Path) -> Iterator[RunningGateway]:
    """What a newcomer's folder looks like once `make serve` runs in the first terminal."""
    shutil.copytree(ROOT / DEMO, tmp_path / DEMO, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with running_gateway(tmp_path / DEMO) as gateway:
        yield gateway


def paste(blocks: list[Block], gateway: RunningGateway) -> list[str]:
    """All blocks into one shell, as a person would; gives what each one printed."""
    script = "".join(f"{block.commands}\necho '{MARK}'\n" for block in blocks)
    shell = subprocess.run(
        ["bash"],
        input=script.replace("127.0.0.1:8420", f"127.0.0.1:{gateway.port}"),
        cwd=gateway.folder.parents[1],
        env=clean_environment({"TMPDIR": str(gateway.folder.parents[1])}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )
    printed = shell.stdout.split(f"{MARK}\n")
    assert len(printed) == len(blocks) + 1, shell.stdout
    return printed[:-1]


def test_the_tour_works_when_pasted(served_demo: RunningGateway) -> None:
    first, *blocks = tour()
    assert first.commands == FIRST_TERMINAL
    assert sum(block.output is not None for block in blocks) >= 10

    for block, printed in zip(blocks, paste(blocks, served_demo), strict=True):
        assert re.fullmatch(block.pattern, printed.strip("\n")), f"{block.commands}\nprinted:\n{printed}"
