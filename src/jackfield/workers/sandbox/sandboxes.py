"""Chooses a sandbox that works on this machine and plans how a program is started in it.

A setting is kept or refused: no sandbox is ever weaker than the config says.
Above: the pool of workers, the sessions, `jackfield doctor`. Below: `kinds.py`, `view.py`.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from jackfield.errors import CouldNotStart
from jackfield.settings.types import SandboxSettings
from jackfield.workers.sandbox import kinds
from jackfield.workers.sandbox.kinds import Kind, LaunchPlan, SandboxUnavailable
from jackfield.workers.sandbox.view import (
    TEMPORARY,
    ViewSpec,
    build_view,
    jackfield_files,
    private_home,
    program_files,
)
from jackfield.workers.supervision.namespaces import USER_FOR_ROOT
from jackfield.workers.supervisor import Supervisor

AUTOMATIC: tuple[Kind, ...] = ("bubblewrap", "namespaces")
"""In order of preference: bubblewrap where it is installed, our own where it is not."""
TRY_SECONDS = 10.0
SOCKETS = "/run/jackfield"
PROC_SYS = Path("/proc/sys")
SHOWS_ALL = "A sandbox that shows '/' hides nothing. Name the folders that are needed."


class SandboxRequest(Struct, frozen=True, kw_only=True):
    """What to run, as the caller asked for it."""

    command: tuple[str, ...]
    env: dict[str, str]
    folder: Path | None = None
    readable: tuple[Path, ...] = ()
    sockets: dict[str, Path] = {}
    """By the environment variable that holds the socket's path inside."""
    name: str = "jackfield"


class Sandboxes:
    """`base`: what relative folders of the config are relative to; `hidden`: what no sandboxed program sees."""

    def __init__(self, supervisor: Supervisor, *, base: Path, hidden: Sequence[Path]) -> None:
        self._supervisor = supervisor
        self._base = base
        self._hidden = tuple(hidden)
        self._proven: set[Kind] = set()
        self._trying = asyncio.Lock()

    async def plan(
        self,
        settings: SandboxSettings,
        *,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path | None = None,
        readable: Sequence[Path] = (),
        sockets: Mapping[str, Path] | None = None,
        name: str = "jackfield",
        with_jackfield: bool = False,
    ) -> LaunchPlan:
        """How to start this command in the configured sandbox. Raises `SandboxUnavailable`."""
        kind = await self.choose(settings)
        request = SandboxRequest(
            command=tuple(command),
            env=_with_jackfield(env) if with_jackfield else dict(env),
            folder=folder,
            readable=(*readable, *(jackfield_files() if with_jackfield else ())),
            sockets=dict(sockets or {}),
            name=name,
        )
        try:
            return await asyncio.to_thread(self._plan, kind, settings, request)
        except OSError as error:
            said = f"The sandbox's folders cannot be read: {error.strerror}."
            raise SandboxUnavailable(f"{said} Give the gateway permission to read them.") from error

    def hidden_now(self) -> tuple[Path, ...]:
        """What is there of all that no sandbox shows. A plan that was made with something else is out of date."""
        return tuple(path for path in self._hidden if path.exists())

    async def choose(self, settings: SandboxSettings) -> Kind:
        """The kind to use. Raises `SandboxUnavailable`."""
        kind = await self._choose(settings)
        self._check_folders(settings)
        if settings.processes and not _counts_processes(kind):
            whose = "root's" if os.geteuid() == 0 else "the whole user's"
            said = f"With a sandbox of kind '{kind}' the kernel would not count this program's processes but {whose}."
            cure = "Run the gateway as an ordinary user and with namespaces, or leave processes out."
            raise SandboxUnavailable(f"{said} {cure}")
        return kind

    async def _choose(self, settings: SandboxSettings) -> Kind:
        if settings.kind == "none":
            return "none"
        if settings.kind == "container":
            if not settings.container:
                raise SandboxUnavailable(
                    'A sandbox of kind "container" needs the command that runs one: container = […].'
                )
            return "container"
        if settings.kind != "auto":
            fault = await self.try_out(settings.kind)
            if fault is not None:
                raise SandboxUnavailable(f"This machine has no sandbox of kind '{settings.kind}': {fault}")
            return settings.kind
        faults = []
        able = [kind for kind in AUTOMATIC if not settings.processes or _counts_processes(kind)]
        for kind in able or AUTOMATIC:
            fault = await self.try_out(kind)
            if fault is None:
                return kind
            faults.append(f"{kind}: {fault}")
        if settings.container:
            return "container"
        anyway = 'To run without one, say so: sandbox = { kind = "none" }.'
        raise SandboxUnavailable(f"This machine has no sandbox. {' '.join(faults)} {anyway}")

    def _check_folders(self, settings: SandboxSettings) -> None:
        for word in (*settings.readable, *settings.writable):
            if self._at(word) == Path("/"):
                raise SandboxUnavailable(SHOWS_ALL)
            if not self._at(word).exists():
                raise SandboxUnavailable(
                    f"The sandbox is to show '{word}', which is not there. Make it or leave it out."
                )

    async def fault(self, settings: SandboxSettings) -> str | None:
        """Why the settings do not work here; None if they do."""
        try:
            await self.choose(settings)
        except SandboxUnavailable as fault:
            return fault.message
        return None

    async def try_out(self, kind: Kind) -> str | None:
        """Why this kind does not work here; None if a program ran in it, which is then not tried again."""
        async with self._trying:
            if kind not in self._proven:
                fault = await self._try_out(kind)
                if fault is not None:
                    return fault
                self._proven.add(kind)
        return None

    async def _try_out(self, kind: Kind) -> str | None:
        trial = SandboxRequest(
            command=(sys.executable, "-I", "-S", "-c", "pass"), env={"PATH": os.defpath}, readable=jackfield_files()
        )
        null = os.open(os.devnull, os.O_RDWR)
        reading, writing = os.pipe()
        try:
            plan = await asyncio.to_thread(self._plan, kind, SandboxSettings(kind=kind), trial)
            child = await plan.start(self._supervisor, stdin=null, stdout=null, stderr=writing)
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    code = await child.wait()
            finally:
                child.kill()
            os.set_blocking(writing, False)
            os.write(writing, b"\n")
            said = os.read(reading, 4096).decode(errors="replace").strip()
        except TimeoutError:
            return f"a trial did not end within {TRY_SECONDS:g} s."
        except CouldNotStart as fault:
            return f"{fault} {cure_for(kind, PROC_SYS)}".strip()
        finally:
            for descriptor in (null, reading, writing):
                os.close(descriptor)
        return f"{said or plan.describe_exit(code)}. {cure_for(kind, PROC_SYS)}".strip() if code else None

    def _plan(self, kind: Kind, settings: SandboxSettings, request: SandboxRequest) -> LaunchPlan:
        """Reads the file system, so it runs in a thread."""
        cwd = Path(TEMPORARY) if request.folder is None else request.folder.absolute()
        if kind in ("none", "container"):
            env = request.env | {variable: str(path) for variable, path in request.sockets.items()}
            plan = kinds.plain(request.command, env=env, cwd=cwd)
            if kind == "none":
                return kinds.limited(plan, settings)
            socket = next(iter(request.sockets.values()), None)
            return kinds.in_container(plan, settings, name=request.name, socket=socket, ours=os.environ)
        inside = {variable: f"{SOCKETS}/{variable.lower()}" for variable in request.sockets}
        home = private_home(request.env)
        cwd = Path(home) if request.folder is None else cwd
        plan = kinds.plain(request.command, env=request.env | inside | {"HOME": home}, cwd=cwd)
        view = build_view(self._view_spec(settings, request, home=home, inside=inside))
        if kind == "namespaces":
            return kinds.in_namespaces(plan, settings, view=view)
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise SandboxUnavailable("The program bwrap is not installed.")
        return kinds.in_bubblewrap(plan, settings, view=view, bwrap=bwrap)

    def _view_spec(
        self, settings: SandboxSettings, request: SandboxRequest, *, home: str, inside: Mapping[str, str]
    ) -> ViewSpec:
        if Path("/") in (request.folder, *request.readable):
            raise SandboxUnavailable(SHOWS_ALL)
        needs = program_files(request.command[0], env=request.env, folder=request.folder)
        folders = () if request.folder is None else (request.folder.absolute(),)
        return ViewSpec(
            readable=(*needs, *map(self._at, settings.readable), *request.readable, *folders),
            writable=tuple(map(self._at, settings.writable)),
            hidden=self._hidden,
            sockets={inside[variable]: path for variable, path in request.sockets.items()},
            home=home,
            user=os.geteuid() or USER_FOR_ROOT,
            group=os.getegid() or USER_FOR_ROOT,
        )

    def _at(self, word: str) -> Path:
        return Path(os.path.normpath(self._base / Path(word).expanduser()))


def _counts_processes(kind: Kind) -> bool:
    """Whether the kernel counts the processes of one program for the limit, not those of a whole user."""
    return kind == "container" or (kind == "namespaces" and os.geteuid() != 0)


def _with_jackfield(env: Mapping[str, str]) -> dict[str, str]:
    ours = str(Path(sys.executable).parent)
    return dict(env) | {"PATH": os.pathsep.join((env.get("PATH", os.defpath), ours))}


def cure_for(kind: Kind, proc_sys: Path) -> str:
    """What an operator can do about it, from the kernel's own settings."""
    if kind == "bubblewrap":
        return "Install bubblewrap, 0.8 or newer."
    if sys.platform != "linux":
        return "Namespaces are Linux's."
    for name, refusing in (
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        with suppress(OSError):
            if (proc_sys / name).read_text(encoding="ascii").strip() == refusing:
                return f"User namespaces are forbidden here: the kernel's {name.replace('/', '.')} is {refusing}."
    return "User namespaces may be forbidden here, as in most containers."
