"""The client's end of `bench.clients`: makes calls when told to and reports what each cost. Standard library only."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

IN_FLIGHT = 16


async def serve_rounds(call: Callable[[], Awaitable[object]]) -> None:
    """One round per line on stdin, which says for how many seconds; one JSON report per line on stdout."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        took: list[float] = []
        ends, cpu = time.perf_counter() + float(line), time.process_time()

        async def call_until(ends: float = ends, took: list[float] = took) -> None:
            while (began := time.perf_counter()) < ends:
                await call()
                took.append(time.perf_counter() - began)

        await asyncio.gather(*(call_until() for _ in range(IN_FLIGHT)))
        cpu_us = (time.process_time() - cpu) / len(took) * 1e6
        report = {"calls": len(took), "cpu_us": cpu_us, "p50_us": sorted(took)[len(took) // 2] * 1e6}
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
