"""Programs of others' packages, each run by uv with what its file names: single files of examples and tests."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import uv

from tests.harness.process import clean_environment

INSTALL_SECONDS = 240
RUN_SECONDS = 60
UNREACHABLE = ("error sending request", "dns error", "Failed to fetch", "Connection refused", "network")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jackfield" / "examples"


def run_script(file: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """What it prints. Its packages are installed first, which is quick if uv has them."""
    _installed("sync", "--quiet", "--script", str(file))
    said = _run("run", "--quiet", "--script", str(file), *arguments, seconds=RUN_SECONDS, env=env)
    assert said.returncode == 0, said.stderr
    return said.stdout


def packages(*names: str) -> Path:
    """A folder with these packages and what they need, for `PYTHONPATH`; kept between runs."""
    version = ".".join(map(str, sys.version_info[:2]))
    folder = CACHE / hashlib.sha256(" ".join((version, *names)).encode()).hexdigest()[:16]
    if not (folder / "complete").exists():
        _installed("pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder), *names)
        (folder / "complete").touch()
    return folder


def _installed(*arguments: str) -> None:
    said = _run(*arguments, seconds=INSTALL_SECONDS)
    if said.returncode and any(words in said.stderr for words in UNREACHABLE):
        pytest.skip(f"packages cannot be fetched: {said.stderr.strip().splitlines()[-1]}")
    assert said.returncode == 0, said.stderr


def _run(*arguments: str, seconds: float, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command: Sequence[str] = [uv.find_uv_bin(), *arguments]
    return subprocess.run(
        command, env=clean_environment(env), capture_output=True, text=True, timeout=seconds, check=False
    )
