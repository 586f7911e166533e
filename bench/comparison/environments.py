"""The peers' environments: one for each under `~/.cache/jackfield/bench`, made by uv from its list of exact versions.

What an environment was made of stands in it, so it is made anew when the list changes. uv asks the index that the
machine is set to.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import uv

from bench.processes import BenchError

LISTS = Path(__file__).parent / "requirements"
HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jackfield" / "bench"
INSTALL_SECONDS = 900


class PeerMissing(BenchError):
    """A peer that cannot be installed or started here, and why."""


@cache
def environment(name: str) -> Path:
    """The `bin` folder of this peer's environment; made if it is missing or of other versions."""
    wanted = LISTS / f"{name}.txt"
    folder = HOME / name
    stamp, python = folder / "made-of.txt", folder / "bin" / "python"
    if not python.exists() or not stamp.exists() or stamp.read_bytes() != wanted.read_bytes():
        sys.stderr.write(f"       installing {name} and what it needs into {folder}\n")
        _run("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        _run("pip", "install", "--quiet", "--no-deps", "--python", str(python), "--requirements", str(wanted))
        stamp.write_bytes(wanted.read_bytes())
    return folder / "bin"


def version_in_list(name: str, package: str) -> str:
    """What the list pins."""
    lines = (LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


def _run(*command: str) -> None:
    try:
        subprocess.run(
            [uv.find_uv_bin(), *command], capture_output=True, text=True, timeout=INSTALL_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as fault:
        why = str(getattr(fault, "stderr", None) or fault).strip()
        raise PeerMissing(f"could not be installed: {why.splitlines()[-1] if why else command[0]}") from None
