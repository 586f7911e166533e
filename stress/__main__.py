"""`python -m stress [--seed N] [--only PART] [--small]`: every part with its full counts; 1 if anything was wrong."""

import argparse
import secrets
import sys

from stress.counts import FULL, SMALL
from stress.parts import parts


def main() -> int:
    wanted = argparse.ArgumentParser(prog="python -m stress", description="The long counts.")
    wanted.add_argument("--seed", type=int, default=None, help="the chance of a run before; else a new one")
    wanted.add_argument("--only", choices=sorted(parts(FULL)), action="append", help="leave the other parts out")
    wanted.add_argument("--small", action="store_true", help="the counts of 'make test'")
    given = wanted.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    failed = False
    for name, part in parts(SMALL if given.small else FULL).items():
        if given.only and name not in given.only:
            continue
        print(f"{name}: begins with seed {seed}", file=sys.stderr, flush=True)
        report = part.run(seed)
        print(report.summary, flush=True)
        if report.violations:
            failed = True
            print(report.complaint, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
