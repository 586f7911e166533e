"""A caller that lends its tool to an agent, again and again: `python -m chaos.caller URL STARTS NAME TOLD`.

Each line of TOLD is what an agent said that had called the tool, or how its session failed.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jackfield.errors import JackfieldError
from jackfield.sdk import Client

PAUSE = 0.2
ASK_SECONDS = 45.0


async def lend(url: str, starts: Path, name: str, tell: Callable[[str, str], None]) -> None:
    """Until it is cancelled. Every key is new, also after a restart."""

    async def lent(key: str) -> str:
        with starts.open("a") as file:
            file.write(f"lent:{key}\n")
        await asyncio.sleep(0.02)
        return f"token of {key}"

    async with Client(url) as client:
        for number in itertools.count():
            key = f"{name}-{os.getpid()}-{number}"
            try:
                async with asyncio.timeout(ASK_SECONDS), client.sessions.open(agent="helper", tools=[lent]) as session:
                    said = await session.ask(f"say {key}")
                tell(key, said)
            except TimeoutError:
                tell(key, "hung")
            except JackfieldError as fault:
                tell(key, f"failed: {fault.message}")
            await asyncio.sleep(PAUSE)


async def _main() -> None:
    url, starts, name, told = sys.argv[1:]

    def tell(key: str, said: str) -> None:
        with Path(told).open("a") as file:
            file.write(json.dumps([key, said]) + "\n")

    work = asyncio.create_task(lend(url, Path(starts), name, tell))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    asyncio.run(_main())
