"""`python -m chaos [--only storm|soak|hosts] [--seconds N] [--seeds N …] [--store …]`: 1 if anything was wrong."""

import argparse
import asyncio
import logging
import secrets
import signal
import sys
from pathlib import Path

from chaos.hosts import two_hosts
from chaos.plan import KINDS
from chaos.soak import soak
from chaos.storm import Storm
from stress.report import Report

EVIDENCE = Path("build/chaos")


def main() -> int:
    wanted = argparse.ArgumentParser(prog="python -m chaos", description="Calls of every kind in a storm.")
    wanted.add_argument("--only", choices=("storm", "soak", "hosts"), default="storm", help="storm is what is run")
    wanted.add_argument("--seconds", type=float, help="how long: a storm 180, a soak 1800, a state of the network 15")
    wanted.add_argument("--seeds", type=int, nargs="+", help="one storm each; else a new one")
    wanted.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    wanted.add_argument("--gateways", type=int, help="on one database (1, on PostgreSQL 2)")
    wanted.add_argument("--workers", type=int, default=1, help="processes of each gateway, on PostgreSQL (1)")
    wanted.add_argument("--faults", choices=sorted(KINDS), nargs="+", metavar="FAULT", help="only these")
    wanted.add_argument("--verbose", action="store_true", help="say what is done when")
    given = wanted.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("chaos").setLevel(logging.INFO if given.verbose else logging.WARNING)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left mounted or running
    failed = False
    for seed in given.seeds or [secrets.randbelow(10**6)]:
        print(f"{given.only} begins with seed {seed}", file=sys.stderr, flush=True)
        report = asyncio.run(_run(given, seed))
        print(report.summary, flush=True)
        if report.violations:
            failed = True
            print(report.complaint, flush=True)
    return int(failed)


async def _run(given: argparse.Namespace, seed: int) -> Report:
    gateways = given.gateways or (2 if given.store == "postgres" else 1)
    if given.only == "hosts":
        return await two_hosts(seed=seed, seconds=given.seconds or 15.0)
    if given.only == "soak":
        seconds = given.seconds or 1800.0
        return await soak(seed=seed, seconds=seconds, store=given.store, gateways=gateways, workers=given.workers)
    return await Storm(
        seed=seed,
        seconds=given.seconds or 180.0,
        store=given.store,
        gateways=gateways,
        workers=given.workers,
        only=tuple(given.faults or ()),
        evidence=EVIDENCE / f"{given.store}-{seed}",
    ).run()


if __name__ == "__main__":
    sys.exit(main())
