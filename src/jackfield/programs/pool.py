"""One sandboxed process is kept ready, so that a program starts at once.

Above: `service.py`. Below: `process.py`.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

from jackfield.errors import CouldNotStart
from jackfield.programs.process import ProgramProcess, launch_plan
from jackfield.settings.types import ProgramSettings
from jackfield.workers.host import WorkerHost
from jackfield.workers.sandbox.kinds import LaunchPlan

NEXT_AFTER_SECONDS = 0.01
"""How long the next process waits after one was taken: to start one costs more than most programs take to begin."""


class ProgramPool:
    """Starts processes, each for one program."""

    def __init__(self, host: WorkerHost, settings: ProgramSettings) -> None:
        self._host = host
        self._settings = settings
        self._plan: tuple[tuple[Path, ...], LaunchPlan] | None = None
        """How a process is started, and what was hidden from it when that was worked out."""
        self._next: asyncio.Task[ProgramProcess] | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._is_closed = False

    def warm_up(self) -> None:
        """Have the next process started now."""
        self._wait_no_more()
        if self._next is None:
            self._next = asyncio.create_task(self._start(), name="next program")

    async def warm(self) -> None:
        """Until a process is ready, or could not be started."""
        self.warm_up()
        assert self._next is not None
        await asyncio.wait((self._next,))

    async def take(self) -> ProgramProcess:
        """A process without a program. Raises `CouldNotStart`."""
        self._wait_no_more()
        started, self._next = self._next, None
        try:
            if started is not None:
                with suppress(CouldNotStart, TimeoutError, OSError):
                    process = await started
                    if process.is_alive:
                        return process
            return await self._start()
        finally:
            self._warm_up_soon()

    async def close(self) -> None:
        self._wait_no_more()
        self._is_closed = True
        started, self._next = self._next, None
        if started is None:
            return
        started.cancel()
        await asyncio.wait((started,))
        if not started.cancelled() and started.exception() is None:
            started.result().kill()

    def _warm_up_soon(self) -> None:
        if self._next is None and self._soon is None and not self._is_closed:
            self._soon = asyncio.get_running_loop().call_later(NEXT_AFTER_SECONDS, self.warm_up)

    def _wait_no_more(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    async def _start(self) -> ProgramProcess:
        """The plan is worked out again after a start that failed, and when there is something new to hide."""
        planned, self._plan = self._plan, None
        hidden = self._host.sandboxes.hidden_now()
        if planned is None or planned[0] != hidden:
            planned = hidden, await launch_plan(self._host, self._settings)
        process = await ProgramProcess.start(self._host, planned[1])
        self._plan = planned
        return process
