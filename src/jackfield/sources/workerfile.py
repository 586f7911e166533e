"""Tool files with PEP 723 metadata: each version has its own environment and runs in worker processes.

Above: `files.py`. Below: `workers/` runs the processes, each of them `tool/jackfield_tool`.
"""

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield import tool as tool_package
from jackfield.model.call import Done, Failed, Outcome, Pending
from jackfield.sources.base import Invocation, Progress
from jackfield.sources.context import Lent
from jackfield.workers.channel import ProgressPart
from jackfield.workers.environments import Environment, ToolScript, Wheels
from jackfield.workers.pool import WorkerPool
from jackfield.workers.worker import FileSpec, WorkerCall, WorkerOptions

SDK = Path(tool_package.__file__).parent
"""The folder that workers run."""
INHERITED = ("PATH", "HOME")
"""The only environment variables that a worker inherits from the gateway."""

_encode = msgspec.json.Encoder().encode


class WorkerFile:
    """One version of a file, run in workers. Calls that run when it is dropped finish on it."""

    def __init__(
        self,
        path: Path,
        *,
        label: str,
        text: str,
        sequential: bool,
        options: WorkerOptions,
        lent: Lent,
        wheels: Wheels | None = None,
    ) -> None:
        self._lent = lent
        self._worker_host = lent.source_context.worker_host
        self._config = Raw(_encode(lent.config))
        spec = FileSpec(
            source=lent.source,
            label=label,
            script=ToolScript(path.stem, text, wheels),
            sequential=sequential,
            command=partial(
                worker_command, mode="script" if sequential else "serve", folder=path.parent, options=options
            ),
            env=worker_environment(os.environ, options.env),
            cwd=path.parent,
            options=options,
            readable=(SDK,),
        )
        self._pool = self._worker_host.pool(spec)

    def tool(self, function: str) -> "WorkerTool":
        return WorkerTool(function, pool=self._pool, config=self._config, lent=self._lent)

    async def warm(self) -> None:
        await self._pool.warm()

    @property
    def load_fault(self) -> str | None:
        """Why the last attempt to start a worker failed, if it did."""
        return self._pool.start_fault

    @property
    def load_trace(self) -> str | None:
        """What that worker said on stderr."""
        return None if self._pool.start_fault is None else self._pool.record.log.end

    def drop(self) -> None:
        """The file has changed or is gone."""
        self._pool.drop()
        self._worker_host.forget(self._pool)

    @property
    def has_ended(self) -> bool:
        """Whether none of its processes is left."""
        return not self._pool.workers

    async def close(self) -> None:
        await self._pool.close()


class WorkerTool:
    """One function of a worker file."""

    def __init__(self, function: str, *, pool: WorkerPool, config: Raw, lent: Lent) -> None:
        self._function = function
        self._pool = pool
        self._config = config
        self._lent = lent

    async def run(self, invocation: Invocation) -> Outcome:
        request = _Request(
            id=invocation.call_id,
            function=self._function,
            kwargs=invocation.arguments,
            config=self._config,
            secrets=self._secrets() if self._lent.secrets else {},
        )
        call = WorkerCall(
            id=invocation.call_id,
            request=_encode(request) + b"\n",
            report=partial(_report, invocation),
            call_tool=partial(self._call_tool, invocation),
            trace=invocation.trace,
            hold=invocation.hold,
            on_install=partial(_report_install, invocation),
        )
        return await self._pool.run(call)

    def _secrets(self) -> dict[str, str]:
        """Looked up for each call, sent with it, stored nowhere."""
        found = ((name, self._lent.source_context.secret(name)) for name in sorted(self._lent.secrets))
        return {name: value for name, value in found if value is not None}

    async def _call_tool(self, parent: Invocation, name: str, arguments: dict[str, Any]) -> Done | Failed:
        outcome = await self._lent.source_context.call_tool(name, arguments, parent=parent, within=self._lent.calls)
        if isinstance(outcome, Pending):
            said = f"Tool '{name}' is answered later ({outcome.status.value}), and a tool cannot wait for that."
            return Failed(outcome.status.value, f"{said} Call it yourself.")
        return outcome


class _Request(Struct, frozen=True, kw_only=True):
    id: str
    function: str
    kwargs: dict[str, Any]
    config: Raw
    secrets: dict[str, str]


def worker_environment(ours: Mapping[str, str], named: Mapping[str, str]) -> dict[str, str]:
    """PATH, HOME and what the config names; nothing else of the gateway's environment."""
    return {name: ours[name] for name in INHERITED if name in ours} | dict(named)


def worker_command(environment: Environment, *, mode: str, folder: Path, options: WorkerOptions) -> list[str]:
    """How a worker of a file in this environment is started."""
    given = json.dumps({"threads": options.threads, "folder": str(folder)})
    return [environment.python, str(SDK), mode, environment.file, "--options", given]


def _report(invocation: Invocation, part: ProgressPart) -> None:
    invocation.report(Progress(progress=part.progress, total=part.total, message=part.message))


def _report_install(invocation: Invocation, line: str) -> None:
    invocation.report(Progress(progress=0, message=line))
