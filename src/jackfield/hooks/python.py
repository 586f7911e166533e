"""Hooks in Python: functions of the operator's files and of installed packages, in worker processes.

A process of its own, because a hook that hangs or crashes must not take the gateway with it: it is cancelled, and one
that does not listen is killed with its process. The processes are those of tool files (`workers/`). A file with PEP 723
metadata has its own environment; others run with the gateway's interpreter and see what is installed there.
Above: `service.py`. Below: `workers/`, `sources/workerfile.py`.
"""

import ast
import itertools
import os
import sys
from contextlib import nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import ConfigError, Forbidden, JackfieldError
from jackfield.hooks.types import HookFailed
from jackfield.model.call import Done, Failed
from jackfield.model.text import nearest
from jackfield.settings.hooks import HookSettings
from jackfield.sources.pyfile.pep723 import find_header
from jackfield.sources.workerfile import SDK, worker_command, worker_environment
from jackfield.workers.environments import Environment, ToolScript
from jackfield.workers.host import WorkerHost
from jackfield.workers.pool import WorkerPool
from jackfield.workers.worker import FileSpec, WorkerCall, WorkerOptions

GROUP = "jackfield.hooks"
SOURCE = "hooks"
"""Whose workers they are, in lists of workers."""
THREADS = 64
NEVER = 10 * 365 * 86_400.0
"""A hook's process is not ended because nobody calls: the next call would wait for it."""
_SHIM = """from importlib.metadata import entry_points

_hook = entry_points(group={group!r}, name={name!r})[{name!r}].load()
def hook(event):
    return _hook(event)
"""

_encode = msgspec.json.Encoder().encode
_numbers = itertools.count(1)


class HookFile(Struct, frozen=True, kw_only=True):
    """The text that a hook's worker runs."""

    path: Path
    label: str
    text: str
    env: tuple[tuple[str, str], ...]


class _Request(Struct, frozen=True, kw_only=True):
    id: str
    function: str
    kwargs: dict[str, Raw]
    config: dict[str, Any] = {}
    secrets: dict[str, str] = {}


class PythonHook:
    """One function in a worker."""

    def __init__(self, file: HookFile, function: str, parameter: str, *, pool: WorkerPool) -> None:
        self.file = file
        self.pool = pool
        self._function = function
        self._parameter = parameter

    async def ask(self, event: bytes, *, timeout: float) -> bytes:  # noqa: ARG002 - whoever asks cancels
        number = f"hook_{next(_numbers)}"
        request = _Request(id=number, function=self._function, kwargs={self._parameter: Raw(event)})
        call = WorkerCall(
            id=number,
            request=_encode(request) + b"\n",
            report=lambda _: None,
            call_tool=_refuse_call,
            hold=lambda _: nullcontext(),
            on_install=lambda _: None,
        )
        outcome = await self.pool.run(call)
        if isinstance(outcome, Failed):
            raise HookFailed("it failed", detail=outcome.message)
        return bytes(outcome.result)


async def _refuse_call(name: str, _: dict[str, Any]) -> Done | Failed:
    raise Forbidden(f"A hook cannot call '{name}' as a tool does. Call it over HTTP with a key of its own.")


def hook_file(hook: HookSettings, *, folder: Path, where: str) -> tuple[HookFile, str, str]:
    """The file, the function and its parameter. Raises `ConfigError` with the file, the line and what is wrong."""
    env = tuple(sorted(hook.env.items()))
    if hook.use is not None:
        return _package_file(hook.use, env, data=folder, where=where), "hook", "event"
    named, _, function = (hook.python or "").rpartition(":")
    path = (folder / named).resolve()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{where}.python: {path} cannot be read: {fault}. Correct the path.") from None
    try:
        tree = ast.parse(text, filename=str(path))
    except SyntaxError as fault:
        raise ConfigError(f"{path}, line {fault.lineno}: {fault.msg}. Correct the hook's file.") from None
    except ValueError as fault:
        raise ConfigError(f"{path}: {fault}. Correct the hook's file.") from None
    return HookFile(path=path, label=named, text=text, env=env), function, _parameter(tree, function, path)


def _parameter(tree: ast.Module, function: str, path: Path) -> str:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    node = next((node for node in found if node.name == function), None)
    if node is None:
        close = nearest(function, [node.name for node in found])
        raise ConfigError(f"{path} has no function '{function}'.{close} Correct the name in [[hooks]] python.")
    if function.startswith("_"):
        raise ConfigError(f"{path}, line {node.lineno}: a hook's name does not begin with '_'. Rename '{function}'.")
    given = [*node.args.posonlyargs, *node.args.args]
    if len(given) != 1 or node.args.posonlyargs or node.args.kwonlyargs:
        raise ConfigError(f"{path}, line {node.lineno}: '{function}' must take one argument, the event. Correct it.")
    return given[0].arg


def _package_file(name: str, env: tuple[tuple[str, str], ...], *, data: Path, where: str) -> HookFile:
    """A file of two lines that calls what a package offers; it is loaded in the worker, never in the gateway."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = f" Known: {', '.join(sorted(points))}." if points else " No installed package has hooks."
        raise ConfigError(
            f"{where}.use is '{name}', which nothing installed offers.{nearest(name, list(points))}{known}"
        )
    text = _SHIM.format(group=GROUP, name=name)
    return HookFile(path=data / f"{name}.py", label=f"{name}.py", text=text, env=env)


def pool_of(file: HookFile, *, host: WorkerHost, data: Path) -> WorkerPool:
    """The processes for a file. None is started yet."""
    environment = None
    if find_header(file.text) is None:
        environment = Environment(python=sys.executable, file=str(_kept(file, data)))
    options = WorkerOptions(
        env=dict(file.env), threads=THREADS, idle_timeout=NEVER, start_timeout=30, install_timeout=600
    )
    folder = file.path.parent if file.path.parent.is_dir() else data
    spec = FileSpec(
        source=SOURCE,
        label=file.label,
        script=ToolScript(file.path.stem, file.text),
        sequential=False,
        command=lambda ready: worker_command(ready, mode="serve", folder=folder, options=options),
        env=worker_environment(os.environ, options.env),
        cwd=folder,
        options=options,
        readable=(SDK,),
        environment=environment,
    )
    return host.pool(spec)


def _kept(file: HookFile, data: Path) -> Path:
    """The text that was read, where the worker loads it: a file that is edited counts from the next reload on."""
    script = ToolScript(file.path.stem, file.text)
    kept = data / "hooks" / script.digest / f"{script.name}.py"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(file.text, encoding="utf-8")
        fresh.replace(kept)
    return kept


async def start_pool(pool: WorkerPool, file: HookFile) -> None:
    """Load the file now. Raises `ConfigError` with its line if that fails."""
    try:
        await pool.start_first()
    except JackfieldError as fault:
        raise ConfigError(f"{file.path}: {fault.message}") from None
