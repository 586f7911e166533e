"""The console's own unit tests and its types, where npm has fetched what they need."""

import shutil
import subprocess
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "console"

needs_npm = pytest.mark.skipif(
    shutil.which("npx") is None or not (CONSOLE / "node_modules/.package-lock.json").is_file(),
    reason="needs Node.js 20 or newer and console/node_modules: make console",
)


def run(*command: str) -> None:
    done = subprocess.run(
        ["npx", "--no-install", *command], cwd=CONSOLE, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_npm
def test_the_console_s_unit_tests_pass() -> None:
    run("vitest", "run")


@needs_npm
def test_the_console_s_types_hold() -> None:
    run("tsc", "--noEmit")
