"""A tool server of the SDK that writes down each start of its tools: `python -m chaos.tool_server URL STARTS SLOT`."""

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jackfield.errors import JackfieldError
from jackfield.sdk import Client


async def serve(url: str, starts: Path, slot: str) -> None:
    """Until SIGTERM."""

    async def work(name: str, key: str) -> dict[str, Any]:
        with starts.open("a") as file:
            file.write(f"{name}:{key}\n")
        await asyncio.sleep(0.03 * (sum(key.encode()) % 8))
        return {"key": key}

    async def job(key: str) -> dict[str, Any]:
        return await work("job", key)

    async def job_later(key: str) -> dict[str, Any]:
        return await work("job_later", key)

    async with Client(url) as client:
        while True:
            try:
                await client.tools.serve({"job": job, "job_later": job_later}, client_id=slot)
            except JackfieldError as fault:  # a gateway that is there and refuses, as when its database is away
                print(fault.message, flush=True)
            await asyncio.sleep(0.5)


async def _main() -> None:
    work = asyncio.create_task(serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    asyncio.run(_main())
