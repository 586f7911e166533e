"""One sandboxed process is kept ready, so that a program starts at once.

Above: `service.py`. Below: `process.py`.
"""

import asyncio
from contextlib import suppress

from jackfield.errors import CouldNotStart
from jackfield.programs.process import ProgramProcess
from jackfield.settings.types import ProgramSettings
from jackfield.workers.host import WorkerHost


class ProgramPool:
    """Starts processes, each for one program."""

    def __init__(self, host: WorkerHost, settings: ProgramSettings) -> None:
        self._host = host
        self._settings = settings
        self._next: asyncio.Task[ProgramProcess] | None = None

    def warm_up(self) -> None:
        """Have the next process started now."""
        if self._next is None:
            self._next = asyncio.create_task(ProgramProcess.start(self._host, self._settings), name="next program")

    async def warm(self) -> None:
        """Until a process is ready, or could not be started."""
        if self._next is not None:
            await asyncio.wait((self._next,))

    async def take(self) -> ProgramProcess:
        """A process without a program. Raises `CouldNotStart`."""
        started, self._next = self._next, None
        if started is not None:
            with suppress(CouldNotStart, TimeoutError, OSError):
                process = await started
                if process.is_alive:
                    self.warm_up()
                    return process
        process = await ProgramProcess.start(self._host, self._settings)
        self.warm_up()
        return process

    async def close(self) -> None:
        started, self._next = self._next, None
        if started is None:
            return
        started.cancel()
        await asyncio.wait((started,))
        if not started.cancelled() and started.exception() is None:
            started.result().kill()
