"""Calls tools of a cluster through its balancer, and says which gateways answered.

    python load.py --calls 2000

A call whose answer was lost with its gateway is repeated with the same Idempotency-Key: it runs once.
"""

import argparse
import asyncio
import collections
import os
import time
import uuid

import httpx2

TRIES = 40
PAUSE_SECONDS = 0.25


async def main() -> None:
    options = _options()
    said = collections.Counter()
    gateways = collections.Counter()
    numbers = iter(range(options.calls))
    limits = httpx2.Limits(max_connections=options.at_once)
    headers = {"authorization": f"Bearer {os.environ['JACKFIELD_KEY']}"}
    url = os.environ.get("JACKFIELD_URL", "http://127.0.0.1:8420")
    async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:

        async def caller() -> None:
            for number in numbers:
                await call(client, options.tool, number, said, gateways)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as callers:
            for _ in range(options.at_once):
                callers.create_task(caller())
    took = time.perf_counter() - began
    print(f"{options.calls} calls in {took:.1f} s, {options.calls / took:.0f} a second")
    for what, count in sorted((said + gateways).items()):
        print(f"  {what}: {count}")
    if said["right"] != options.calls:
        raise SystemExit(1)


async def call(client, tool, number, said, gateways) -> None:
    """One call, until it is answered."""
    body = {"arguments": {"item": f"plum {number}", "number": number}}
    headers = {"idempotency-key": str(uuid.uuid4())}
    for _ in range(TRIES):
        try:
            answer = await client.post(f"/api/v1/tools/{tool}/execute", json=body, headers=headers)
        except httpx2.TransportError:
            said["connection lost"] += 1
        else:
            gateways[f"gateway {answer.headers.get('x-gateway', '').rpartition(', ')[2]}"] += 1
            if answer.is_success:
                said[judge(answer.json(), cents=number * (100 + len(f"plum {number}")))] += 1
                return
            said[f"answered {answer.status_code}"] += 1
        await asyncio.sleep(PAUSE_SECONDS)
    raise SystemExit(
        f"Call {number} was not answered in {TRIES} tries: {dict(said)}. Is the cluster up at {client.base_url}?"
    )


def judge(call, cents) -> str:
    if call["status"] != "completed":
        return f"{call['status']} ({call['error']['code']})"
    return "right" if call["result"]["cents"] == cents else "wrong"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Call a tool through the balancer.")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--tool", default="price")
    return parser.parse_args()


asyncio.run(main())
