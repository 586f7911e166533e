"""One program's process in its sandbox: it is told answers and reports what it asks for next.

The process is not trusted: whatever it asks for is checked by the pipeline as a request of the program's caller, its
messages are bounded, and it is killed when its time is up. One process is kept ready, so a program starts at once.
Above: `service.py`. Below: `runtime.py` inside the sandbox, the sandboxes and the process supervisor.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.errors import CouldNotStart
from jackfield.settings.types import ProgramSettings, SandboxSettings
from jackfield.workers.host import WorkerHost
from jackfield.workers.sandbox.kinds import LaunchPlan
from jackfield.workers.supervisor import Child

RUNTIME = Path(__file__).with_name("runtime.py")
START_SECONDS = 20.0
MAX_TURN = 16 * 1024 * 1024
"""Bytes of one report, its result or arguments included."""
CPU_MARGIN = 5.0
SCRATCH = 16 * 1024 * 1024
HOME = "/home/program"
"""Its empty folder. Not the one of temporary files, in which the gateway itself may be installed."""


class Ask(Struct, frozen=True, kw_only=True):
    """What a program waits for: a call of a tool, or time."""

    n: int
    tool: str | None = None
    arguments: dict[str, Any] = {}
    sleep: float | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """Why a program ended without a result. `trace`: the lines of the program that led there."""

    code: str
    message: str
    trace: str = ""


class Turn(Struct, frozen=True, kw_only=True):
    """What a program did until everything in it waited, or until its end."""

    asks: tuple[Ask, ...] | UnsetType = UNSET
    dropped: tuple[int, ...] = ()
    """Timers that it does not wait for any more."""
    done: Raw | UnsetType = UNSET
    failed: Failure | None = None
    log: str = ""
    left_out: int = 0
    """Characters of its log that were dropped."""

    @property
    def is_over(self) -> bool:
        return self.asks is UNSET


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program is told: a result, a failure, or that its time has passed."""

    n: int
    now: int
    result: Raw | UnsetType = UNSET
    failed: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(Turn).decode
_encode = msgspec.json.Encoder().encode


class ProgramProcess:
    """A started process that has no program yet, or one that runs one."""

    def __init__(
        self, child: Child, plan: LaunchPlan, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._child = child
        self.plan = plan
        self._reader = reader
        self._writer = writer
        self.computed = 0.0
        """Seconds that the program has had the processor for itself."""

    @classmethod
    async def start(cls, host: WorkerHost, plan: LaunchPlan) -> "ProgramProcess":
        """Raises `CouldNotStart`, and leaves nothing behind then."""
        ours, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            with theirs:
                child = await plan.start(host.supervisor, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=null)
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(null)
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_TURN)
        process = cls(child, plan, reader, writer)
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await reader.readline()
        except BaseException:
            process.kill()
            raise
        if not ready:
            process.kill()
            raise CouldNotStart(f"The sandbox of programs did not start: {plan.describe_exit(await child.wait())}.")
        return process

    @property
    def is_alive(self) -> bool:
        return self._child.returncode is None

    async def begin(self, code: str, *, tools: Sequence[str], now: int, seed: int, within: float) -> Turn:
        """Its first turn. `within`: seconds that are left to it."""
        return await self._turn({"code": code, "tools": list(tools), "now": now, "seed": seed}, within)

    async def deliver(self, answers: Sequence[Answer], *, within: float) -> Turn:
        """Its next turn, after these answers in this order."""
        return await self._turn(list(answers), within)

    def kill(self) -> None:
        self._writer.close()
        self._child.kill()

    async def _turn(self, message: Any, within: float) -> Turn:
        loop = asyncio.get_running_loop()
        since = loop.time()
        try:
            async with asyncio.timeout(max(0.0, within)):
                self._writer.write(_encode(message) + b"\n")
                line = await self._reader.readline()
        except TimeoutError:
            self.kill()
            return _failed("timeout", "The program used up its computing time.")
        except (ValueError, OSError):
            self.kill()
            return _failed(
                "too_large", f"The program reported more than {MAX_TURN // 1024 // 1024} MB at once. Return less."
            )
        finally:
            self.computed += loop.time() - since
        return await self._ended() if not line.endswith(b"\n") else self._read(line)

    def _read(self, line: bytes) -> Turn:
        try:
            return _decode(line)
        except (msgspec.DecodeError, RecursionError):
            self.kill()
            return _failed("program_failed", "The program wrote on its channel to the gateway, so it was ended.")

    async def _ended(self) -> Turn:
        self.kill()
        how = self.plan.describe_exit(await self._child.wait())
        return _failed("program_failed", f"The program's process ended: {how}.")


async def launch_plan(host: WorkerHost, settings: ProgramSettings) -> LaunchPlan:
    """How the process of a program is started, any number of times. Raises `CouldNotStart`."""
    return await host.sandboxes.plan(
        _sandbox(settings),
        command=(sys.executable, "-s", "-P", "-S", "-X", "utf8", str(RUNTIME)),
        env={"PATH": os.defpath, "HOME": HOME, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        readable=(RUNTIME,),
        name="program",
    )


def _failed(code: str, message: str) -> Turn:
    return Turn(failed=Failure(code=code, message=message))


def _sandbox(settings: ProgramSettings) -> SandboxSettings:
    return SandboxSettings(
        memory=settings.memory_mb * 1024 * 1024,
        cpu=settings.timeout + CPU_MARGIN,
        file_size=SCRATCH,
        scratch=SCRATCH,
    )
