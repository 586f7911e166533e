"""The programs from npm and PyPI, each set in a folder of its own under `.conformance/clients`, which git ignores.

Above: the cases. Nothing of an npm package runs while it is installed. A set is installed again when its list changes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from conformance.suite import HOME, SuiteError, installed

CLIENTS = HOME / "clients"
INSTALL_SECONDS = 600


class NpmSet(Struct, frozen=True, kw_only=True):
    """Packages of npm that are installed together."""

    name: str
    packages: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return CLIENTS / self.name

    def install(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise SuiteError(f"npm is needed for {self.name} and was not found. Install Node.js with npm.")
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--no-save")
        _install(self.folder, self.packages, [npm, "install", *quiet, *self.packages])

    def program(self, name: str) -> Path:
        return self.folder / "node_modules" / ".bin" / name


class PythonSet(Struct, frozen=True, kw_only=True):
    """Packages of PyPI in an environment of their own, made with uv."""

    name: str
    packages: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return CLIENTS / self.name

    @property
    def python(self) -> Path:
        return self.folder / ".venv" / "bin" / "python"

    def install(self) -> None:
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        if uv is None:
            raise SuiteError(f"uv is needed for {self.name} and was not found. Run `make check` once, or install uv.")
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.folder / ".venv")]
        add = [uv, "pip", "install", "--quiet", "--python", str(self.python), *self.packages]
        _install(self.folder, self.packages, make, add)


class SuiteSet(Struct, frozen=True, kw_only=True):
    """What is installed together with the suite."""

    packages: tuple[str, ...]

    def install(self) -> None:
        installed()


def _install(folder: Path, packages: tuple[str, ...], *commands: list[str]) -> None:
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8").split() == list(packages):
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    for command in commands:
        try:
            said = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise SuiteError(f"{', '.join(packages)} took longer than {INSTALL_SECONDS} s to install.") from None
        if said.returncode:
            raise SuiteError(f"{', '.join(packages)} could not be installed. It said: {said.stderr[-2000:]}")
    stamp.write_text("\n".join(packages), encoding="utf-8")
