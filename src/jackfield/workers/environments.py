"""Environments of tool files: each version of a file at a path of its own, with what it depends on, made by uv.

uv keys a script's environment by the script's path, so a version that never changes its path never has its
environment changed under a running worker. For a sandboxed file uv is given names of packages instead, takes wheels
only and never starts the environment's Python once something is in it: a `.pth` file of a package would run outside.
Above: `pool.py`. Below: the supervisor runs uv, which installs.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import uv
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.workers.supervisor import Supervisor

logger = logging.getLogger("jackfield.workers")

KEPT_LINES = 12
"""How many of uv's last lines a failure is told with."""
UNUSED_DAYS = 30
_MARK = "ready.json"
"""The end of a mark's name. Two files may have the same text, so a version's folder may hold two marks."""
LONGEST_LINE = 1_048_576
"""Bytes; a build that fails may say a lot on one."""
_WHERE = re.compile(r"(Creating|Using|Updating) (script|virtual) environment at:|(Activate with|Using Python)\b.*/")
_PASSED_ON = ("UV_", "SSL_CERT_", "XDG_", "LC_")
_PASSED_ON_NAMES = frozenset(
    {"PATH", "HOME", "LANG", "TMPDIR", "NETRC", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
)

_OTHERWISE = frozenset(
    {"UV_COMPILE_BYTECODE", "UV_NO_BINARY", "UV_NO_BUILD", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_VENV_SEED"}
)
"""Settings that contradict how wheels are installed for a sandbox."""

Tell = Callable[[str], None]
"""Told each line that says how far the installation is."""


class InstallFailed(JackfieldError):
    """uv could not make the environment; the message ends with what uv said last."""

    code = "install_failed"


class Wheels(Struct, frozen=True, kw_only=True):
    """All that may be installed for a sandboxed file: packages of the index, none of which is built."""

    python: str
    """A range of versions."""
    packages: tuple[str, ...]


class ToolScript(Struct, frozen=True):
    """One version of a file that wants an environment."""

    name: str
    """The file's name without its ending."""
    text: str
    wheels: Wheels | None = None
    """None: whatever its metadata asks of uv, which may build it."""

    @property
    def digest(self) -> str:
        kind = "" if self.wheels is None else "wheels only\n"
        return hashlib.sha256(f"{kind}{self.text}".encode()).hexdigest()[:16]


class Environment(Struct, frozen=True):
    """Where one version of a file can run."""

    python: str
    file: str


class Environments:
    """Makes each environment once, also across restarts."""

    def __init__(self, folder: Path, *, supervisor: Supervisor) -> None:
        self._folder = folder
        self._supervisor = supervisor
        self._making: dict[tuple[str, str], _Making] = {}

    async def ready(self, script: ToolScript, *, within: float, tell: Tell) -> Environment:
        """The environment of this version, made now if there is none. Whoever comes meanwhile waits with the first."""
        key = (script.digest, script.name)
        making = self._making.get(key)
        if making is None or making.has_failed or making.is_lost:
            making = self._making[key] = _Making(self, script, within=within)
        return await making.seen_by(tell)

    async def close(self) -> None:
        for making in self._making.values():
            making.task.cancel()
        await asyncio.gather(*(making.task for making in self._making.values()), return_exceptions=True)

    async def make(self, script: ToolScript, *, within: float, tell: Tell) -> Environment:
        """Raises `InstallFailed`, or `CouldNotStart` when there can be no process."""
        try:
            return await self._make(script, within=within, tell=tell)
        except OSError as error:
            said = f"{script.name}.py could not be made ready to run: {error.strerror}."
            fault = InstallFailed(f"{said} See that the gateway may write to its data folder and has room there.")
            logger.warning("%s", fault)
            raise fault from error
        except JackfieldError as fault:
            logger.warning("%s", fault)
            raise

    async def _make(self, script: ToolScript, *, within: float, tell: Tell) -> Environment:
        folder = self._folder / script.digest
        found = await asyncio.to_thread(_existing, folder, script)
        if found is not None:
            return found
        file = await asyncio.to_thread(_written, folder, script)
        logger.info("installing what %s depends on", script.name)
        began = time.monotonic()
        try:
            async with asyncio.timeout(within):
                if script.wheels is None:
                    await self._uv("sync", "--script", file, tell=tell)
                    python = (await self._uv("python", "find", "--script", file, tell=_say_nothing))[-1]
                else:
                    python = await self._install_wheels(script.wheels, folder / f"{script.name}.venv", tell=tell)
        except TimeoutError:
            said = f"What {script.name}.py depends on was not installed within {within:g} s. Is the package index slow?"
            raise InstallFailed(f"{said} Raise install_timeout of its source if it needs longer.") from None
        except _Unsuccessful as failure:
            how = "" if script.wheels is None else ", as wheels only because its source has a sandbox"
            raise InstallFailed(f"uv could not install what {script.name}.py depends on{how}: {failure}") from None
        environment = Environment(python=python, file=file)
        _mark(folder, script).write_text(json.dumps({"python": python}))
        logger.info("%s is ready to run after %.1f s", script.name, time.monotonic() - began)
        return environment

    async def _install_wheels(self, wheels: Wheels, environment: Path, *, tell: Tell) -> str:
        """Runs in `/`, so that no uv.toml, pyproject.toml or .python-version near the file counts."""
        await asyncio.to_thread(shutil.rmtree, environment, ignore_errors=True)  # half of one, perhaps
        anywhere = Path("/")
        made = ("venv", "--no-project", "--python", wheels.python, str(environment))
        await self._uv(*made, tell=tell, cwd=anywhere, without=_OTHERWISE)
        python = str(environment / "bin" / "python")
        if wheels.packages:
            options = ("--only-binary", ":all:", "--no-compile-bytecode", "--python", python)
            await self._uv(
                "pip", "install", *options, "--", *wheels.packages, tell=tell, cwd=anywhere, without=_OTHERWISE
            )
        return python

    async def _uv(
        self, *arguments: str, tell: Tell, cwd: Path | None = None, without: frozenset[str] = frozenset()
    ) -> list[str]:
        """Run uv and give its last lines. It runs with the operator's settings for it, which no tool gets to see."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                child = await self._supervisor.spawn(
                    [_uv_program(), "--no-progress", "--color=never", *arguments],
                    env=installer_environment({name: os.environ[name] for name in os.environ if name not in without}),
                    cwd=cwd or self._folder,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=theirs.fileno(),
                )
            except BaseException:
                ours.close()
                raise
        lines: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            async for line in _lines(ours):
                logger.debug("uv: %s", line)
                if not _WHERE.match(line):
                    # Where things are on the gateway's disk is not for whoever called.
                    lines.append(line.replace(f"{self._folder}{os.sep}", ""))
                    tell(lines[-1])
            code = await child.wait()
        finally:
            child.kill()
        if code != 0:
            raise _Unsuccessful("\n".join(lines))
        return list(lines)

    def sweep(self, *, in_use: set[str]) -> None:
        """Remove what no version has used for long. Runs in a thread."""
        oldest = time.time() - UNUSED_DAYS * 86_400
        for folder in self._folder.glob("*/"):
            marks = list(folder.glob(f"*{_MARK}"))
            with contextlib.suppress(FileNotFoundError):  # another gateway sweeps, too
                used = max(path.stat().st_mtime for path in marks or [folder])
                if folder.name not in in_use and used < oldest:
                    for mark in marks:
                        _remove_environment(mark)
                    shutil.rmtree(folder, ignore_errors=True)


class _Unsuccessful(Exception):
    """uv said that it failed; the message is its last lines."""


class _Making:
    """One installation under way or done, and those who watch it."""

    def __init__(self, environments: Environments, script: ToolScript, *, within: float) -> None:
        self._watching: list[Tell] = []
        self.task = asyncio.create_task(environments.make(script, within=within, tell=self._tell))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be left to see it

    @property
    def has_failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)

    @property
    def is_lost(self) -> bool:
        """It was made, and somebody has removed it since: uv's cache is anybody's to clean."""
        return self.task.done() and not self.has_failed and not Path(self.task.result().python).exists()

    async def seen_by(self, tell: Tell) -> Environment:
        self._watching.append(tell)
        try:
            return await asyncio.shield(self.task)
        finally:
            self._watching.remove(tell)

    def _tell(self, line: str) -> None:
        for tell in self._watching:
            tell(line)


def installer_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What uv needs to reach an index: proxies, certificates, its own settings. Builds run with it, so no more."""
    return {
        name: value
        for name, value in environment.items()
        if name.upper() in _PASSED_ON_NAMES or name.startswith(_PASSED_ON)
    }


def _uv_program() -> str:
    try:
        return uv.find_uv_bin()
    except FileNotFoundError:
        said = "The program uv, which installs what tool files depend on, is not beside this gateway's Python."
        raise InstallFailed(f"{said} Install it there: pip install uv") from None


def _mark(folder: Path, script: ToolScript) -> Path:
    return folder / f"{script.name}.{_MARK}"


def _remove_environment(mark: Path) -> None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        environment = Path(json.loads(mark.read_text())["python"]).parent.parent
        if (environment / "pyvenv.cfg").exists():
            shutil.rmtree(environment)


def _existing(folder: Path, script: ToolScript) -> Environment | None:
    mark = _mark(folder, script)
    try:
        kept = json.loads(mark.read_text())
        file = folder / f"{script.name}.py"
        if file.read_text() != script.text or not Path(kept["python"]).exists():
            return None
        os.utime(mark)
    except (OSError, ValueError, KeyError):
        return None
    return Environment(python=kept["python"], file=str(file))


def _written(folder: Path, script: ToolScript) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{script.name}.py"
    aside = folder / f".{script.name}.{os.getpid()}"
    aside.write_text(script.text)
    aside.replace(file)
    return str(file)


async def _lines(sock: socket.socket) -> AsyncIterator[str]:
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=LONGEST_LINE)
    try:
        while line := await reader.readline():
            if text := line.decode(errors="replace").strip():
                yield text
    finally:
        writer.close()


def _say_nothing(_: str) -> None:
    return
