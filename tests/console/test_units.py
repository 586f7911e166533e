"""The console's own unit tests, where npm has fetched what they need. Its types are part of `make check`."""

import shutil
import subprocess
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "console"


@pytest.mark.skipif(
    shutil.which("npx") is None or not (CONSOLE / "node_modules/.package-lock.json").is_file(),
    reason="needs Node.js 20 or newer and console/node_modules: make console",
)
def test_the_console_s_unit_tests_pass() -> None:
    command = ["npx", "--no-install", "vitest", "run"]
    done = subprocess.run(command, cwd=CONSOLE, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
