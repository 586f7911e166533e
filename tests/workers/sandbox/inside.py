"""Real programs in real sandboxes, and what they have to say about where they are."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from jackfield.settings.types import SandboxSettings
from jackfield.workers.sandbox.kinds import LaunchPlan
from jackfield.workers.sandbox.sandboxes import Sandboxes
from jackfield.workers.supervisor import Child, Supervisor
from tests.waiting import TIMEOUT

BOUND = TIMEOUT
PYTHON = (sys.executable, "-I", "-S", "-c")
PRELUDE = """
import contextlib, json, os, socket, subprocess, sys, time

def attempt(do):
    try:
        return do()
    except BaseException as error:
        return type(error).__name__
"""
"""`attempt` gives what came of it, or the name of the error."""


class Ended(Struct, frozen=True):
    code: int
    output: str
    words: str

    @property
    def said(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.output)


class Booth:
    """Sandboxes with a supervisor of their own and a folder to play in."""

    def __init__(self, folder: Path, *, hidden: Sequence[Path] = ()) -> None:
        self.supervisor = Supervisor()
        self.sandboxes = Sandboxes(self.supervisor, base=folder, hidden=hidden)
        self.folder = folder

    async def need(self, kind: str) -> None:
        """Where the machine has no such sandbox there is nothing to see."""
        fault = await self.sandboxes.fault(settings_of(kind))
        if fault is not None:
            pytest.skip(fault)

    async def plan(self, settings: SandboxSettings, code: str, **wanted: Any) -> LaunchPlan:
        env: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **wanted.pop("env", {})}
        return await self.sandboxes.plan(settings, command=(*PYTHON, PRELUDE + code), env=env, **wanted)

    async def start(self, plan: LaunchPlan) -> tuple[Child, asyncio.StreamReader]:
        """The running program, and what it writes on stdout and stderr."""
        reading, writing = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            child = await plan.start(self.supervisor, stdin=null, stdout=writing, stderr=writing)
        finally:
            os.close(writing)
            os.close(null)
        output = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reading, "rb", buffering=0)
        )
        return child, output

    async def run(self, settings: SandboxSettings, code: str, **wanted: Any) -> Ended:
        """How this Python program ended, and what it printed."""
        plan = await self.plan(settings, code, **wanted)
        child, output = await self.start(plan)
        async with asyncio.timeout(BOUND):
            printed = await output.read()
            ended = await child.wait()
        return Ended(ended, printed.decode(), plan.describe_exit(ended))

    async def close(self) -> None:
        await self.supervisor.close()


def settings_of(kind: str, **more: Any) -> SandboxSettings:
    return SandboxSettings(kind=kind, **more)  # type: ignore[arg-type]


KINDS = ["bubblewrap", "namespaces"]
"""In the order in which they are chosen. `Booth.need` skips what this machine lacks."""
