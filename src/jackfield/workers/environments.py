"""Environments of tool files: each version of a file has its own path and its dependencies, installed by uv.

uv keys a script's environment by the script's path, so the environment of a running worker never changes. For a
sandboxed file uv gets names of packages instead, takes wheels only and never starts the environment's Python once
something is installed: a package's `.pth` file would run outside the sandbox.
Above: `pool.py`. Below: the supervisor runs uv.
"""

import asyncio
import contextlib
import fcntl
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
LOOK_AGAIN_SECONDS = 0.1
"""How many of uv's last lines an error message has."""
UNUSED_DAYS = 30
_MARK = "ready.json"
"""Suffix of the file that marks an environment as ready. Two files may have the same text, and one folder."""
MAX_LINE = 1_048_576
"""Bytes; a failing build may write long ones."""
_PATHS = re.compile(r"(Creating|Using|Updating) (script|virtual) environment at:|(Activate with|Using Python)\b.*/")
_INHERITED_PREFIXES = ("UV_", "SSL_CERT_", "XDG_", "LC_")
_INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "TMPDIR", "NETRC", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
)

_NO_WHEELS = frozenset(
    {"UV_COMPILE_BYTECODE", "UV_NO_BINARY", "UV_NO_BUILD", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_VENV_SEED"}
)
"""Settings that contradict how wheels are installed for a sandbox."""

OnLine = Callable[[str], None]
"""Gets each line of the installation's output."""


class InstallFailed(JackfieldError):
    """uv could not create the environment; the message ends with uv's last lines."""

    code = "install_failed"


class Wheels(Struct, frozen=True, kw_only=True):
    """What may be installed for a sandboxed file: wheels from the package index."""

    python: str
    """A range of versions."""
    packages: tuple[str, ...]


class ToolScript(Struct, frozen=True):
    """One version of a tool file."""

    name: str
    """The file's name without its ending."""
    text: str
    wheels: Wheels | None = None
    """None: uv reads the file's metadata and may build packages."""

    @property
    def digest(self) -> str:
        kind = "" if self.wheels is None else "wheels only\n"
        return hashlib.sha256(f"{kind}{self.text}".encode()).hexdigest()[:16]


class Environment(Struct, frozen=True):
    """Where one version of a file runs."""

    python: str
    file: str


class Environments:
    """Creates each environment once, also across restarts."""

    def __init__(self, folder: Path, *, supervisor: Supervisor) -> None:
        self._folder = folder
        self._supervisor = supervisor
        self._installations: dict[tuple[str, str], _Installation] = {}

    async def ready(self, script: ToolScript, *, within: float, on_line: OnLine) -> Environment:
        """The environment of this version, created now if there is none. Concurrent calls wait for the same one."""
        key = (script.digest, script.name)
        installation = self._installations.get(key)
        if installation is None or installation.has_failed or installation.is_lost:
            installation = self._installations[key] = _Installation(self, script, within=within)
        return await installation.wait(on_line)

    async def close(self) -> None:
        for installation in self._installations.values():
            installation.task.cancel()
        await asyncio.gather(
            *(installation.task for installation in self._installations.values()), return_exceptions=True
        )

    async def make(self, script: ToolScript, *, within: float, on_line: OnLine) -> Environment:
        """Raises `InstallFailed`, or `CouldNotStart` if uv cannot be started."""
        try:
            return await self._make(script, within=within, on_line=on_line)
        except OSError as error:
            said = f"{script.name}.py could not be made ready to run: {error.strerror}."
            fault = InstallFailed(f"{said} See that the gateway may write to its data folder and has room there.")
            logger.warning("%s", fault)
            raise fault from error
        except JackfieldError as fault:
            logger.warning("%s", fault)
            raise

    async def _make(self, script: ToolScript, *, within: float, on_line: OnLine) -> Environment:
        folder = self._folder / script.digest
        found = await asyncio.to_thread(_existing, folder, script)
        if found is not None:
            return found
        folder.mkdir(parents=True, exist_ok=True)
        async with _alone(folder / f"{script.name}.lock"):
            found = await asyncio.to_thread(_existing, folder, script)
            return found or await self._install(folder, script, within=within, on_line=on_line)

    async def _install(self, folder: Path, script: ToolScript, *, within: float, on_line: OnLine) -> Environment:
        file = await asyncio.to_thread(_written, folder, script)
        logger.info("installing what %s depends on", script.name)
        began = time.monotonic()
        try:
            async with asyncio.timeout(within):
                if script.wheels is None:
                    await self._uv("sync", "--script", file, on_line=on_line)
                    python = (await self._uv("python", "find", "--script", file, on_line=lambda _: None))[-1]
                else:
                    python = await self._install_wheels(script.wheels, folder / f"{script.name}.venv", on_line=on_line)
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

    async def _install_wheels(self, wheels: Wheels, environment: Path, *, on_line: OnLine) -> str:
        """Runs in `/`, so that no uv.toml, pyproject.toml or .python-version near the file applies."""
        await asyncio.to_thread(shutil.rmtree, environment, ignore_errors=True)  # perhaps incomplete
        anywhere = Path("/")
        made = ("venv", "--no-project", "--python", wheels.python, str(environment))
        await self._uv(*made, on_line=on_line, cwd=anywhere, without=_NO_WHEELS)
        python = str(environment / "bin" / "python")
        if wheels.packages:
            options = ("--only-binary", ":all:", "--no-compile-bytecode", "--python", python)
            await self._uv(
                "pip",
                "install",
                *options,
                "--",
                *wheels.packages,
                on_line=on_line,
                cwd=anywhere,
                without=_NO_WHEELS,
            )
        return python

    async def _uv(
        self, *arguments: str, on_line: OnLine, cwd: Path | None = None, without: frozenset[str] = frozenset()
    ) -> list[str]:
        """Run uv and return its last lines. It gets the operator's settings for uv, which tools never see."""
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
                if not _PATHS.match(line):
                    # Callers do not see paths of the gateway's disk.
                    lines.append(line.replace(f"{self._folder}{os.sep}", ""))
                    on_line(lines[-1])
            code = await child.wait()
        finally:
            child.kill()
        if code != 0:
            raise _Unsuccessful("\n".join(lines))
        return list(lines)

    def sweep(self, *, in_use: set[str]) -> None:
        """Remove what no version has used for `UNUSED_DAYS`. Runs in a thread."""
        oldest = time.time() - UNUSED_DAYS * 86_400
        for folder in self._folder.glob("*/"):
            marks = list(folder.glob(f"*{_MARK}"))
            with contextlib.suppress(FileNotFoundError):  # another gateway may sweep, too
                used = max(path.stat().st_mtime for path in marks or [folder])
                if folder.name not in in_use and used < oldest:
                    for mark in marks:
                        _remove_environment(mark)
                    shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _alone(file: Path) -> AsyncIterator[None]:
    """Other processes that share the data folder, such as those of `serve --workers`, wait until this is over."""
    locked = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _is_locked(locked):  # noqa: ASYNC110 - another process lets go of it
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        yield
    finally:
        os.close(locked)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Unsuccessful(Exception):
    """uv failed; the message is its last lines."""


class _Installation:
    """One installation, running or done, and the calls that follow its output."""

    def __init__(self, environments: Environments, script: ToolScript, *, within: float) -> None:
        self._followers: list[OnLine] = []
        self.task = asyncio.create_task(environments.make(script, within=within, on_line=self._on_line))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be waiting any more

    @property
    def has_failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)

    @property
    def is_lost(self) -> bool:
        """It was created and has been removed since, for example with `uv cache clean`."""
        return self.task.done() and not self.has_failed and not Path(self.task.result().python).exists()

    async def wait(self, on_line: OnLine) -> Environment:
        self._followers.append(on_line)
        try:
            return await asyncio.shield(self.task)
        finally:
            self._followers.remove(on_line)

    def _on_line(self, line: str) -> None:
        for on_line in self._followers:
            on_line(line)


def installer_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What uv needs to reach an index: proxies, certificates, its own settings. Builds see it, so no more."""
    return {
        name: value
        for name, value in environment.items()
        if name.upper() in _INHERITED or name.startswith(_INHERITED_PREFIXES)
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
    file = folder / f"{script.name}.py"
    aside = folder / f".{script.name}.{os.getpid()}"
    aside.write_text(script.text)
    aside.replace(file)
    return str(file)


async def _lines(sock: socket.socket) -> AsyncIterator[str]:
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=MAX_LINE)
    try:
        while line := await reader.readline():
            if text := line.decode(errors="replace").strip():
                yield text
    finally:
        writer.close()
