"""`python -m conformance.servers [--only NAME]…`: what differs between a server and the gateway in front of it.

Above: `make conformance`. Each server is started for a client of its own, and by a gateway for each way to it, and
asked the same. Every difference that nobody meant is printed as a path, and makes the exit code 1.
"""

import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench.processes import BenchError
from conformance.servers.cases import CASES, ServerCase
from conformance.servers.differences import Difference, Expected, differences, unexpected
from conformance.servers.running import WAYS, Way, see_directly, see_through
from conformance.servers.view import LISTS, Json
from conformance.suite import SuiteError


class Comparison(Struct, frozen=True, kw_only=True):
    """One server, one way to it."""

    name: str
    way: str
    differences: tuple[Difference, ...] = ()
    """Those that nobody meant."""
    meant: int = 0
    stale: tuple[Expected, ...] = ()
    fault: str = ""
    counts: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return not self.fault and not self.differences and not self.stale


def main() -> int:
    """The exit code: 0 when nothing differs but what is meant to."""
    names = [case.name for case in CASES]
    parser = ArgumentParser(prog="python -m conformance.servers", description="Other people's servers, unchanged.")
    parser.add_argument("--only", action="append", choices=names, help="this one only; may be given several times")
    return 0 if compare_servers(parser.parse_args().only or names) else 1


def compare_servers(names: Sequence[str] = ()) -> bool:
    """Compare these servers, or all, and print how they fared; whether nothing differs but what is meant to."""
    warnings.simplefilter("ignore")  # the older revision has what the SDK calls deprecated
    holds = True
    for case in CASES:
        for one in _compared(case) if not names or case.name in names else ():
            print(report(one), flush=True)
            holds = holds and one.holds
    return holds


def report(one: Comparison) -> str:
    """Every difference as a path, and a line about the whole."""
    lines = [f"  {difference}" for difference in one.differences]
    lines += [f"  no longer differs, take it off the list: {each.path}" for each in one.stale]
    lines += [f"  {one.fault}"] if one.fault else []
    meant = f", {one.meant} meant" if one.meant else ""
    totals = f"{len(one.differences)} differences{meant}; {one.counts}"
    head = f"{'same ' if one.holds else 'OTHER'} {one.name}, {one.way}: {totals} ({one.seconds:.0f} s)"
    return "\n".join([head, *lines])


def _compared(case: ServerCase) -> Iterator[Comparison]:
    try:
        if case.what is not None:
            case.what.install()
        with TemporaryDirectory(prefix="jackfield-servers-") as home:
            direct = see_directly(case, Path(home))
            for way in WAYS:
                yield _one(case, way, direct, Path(home))
    except (SuiteError, BenchError) as fault:
        yield Comparison(name=case.name, way="not compared", fault=str(fault))


def _one(case: ServerCase, way: Way, direct: Json, home: Path) -> Comparison:
    began = time.monotonic()
    found = differences(direct, see_through(case, home, way), masks=case.masks)
    rest, stale = unexpected(found, case.expected, revision=way.revision)
    return Comparison(
        name=case.name,
        way=way.title,
        differences=tuple(rest),
        meant=len(found) - len(rest),
        stale=tuple(stale),
        counts=_counts(direct),
        seconds=time.monotonic() - began,
    )


def _counts(view: Json) -> str:
    return f"{', '.join(f'{len(view[name])} {name}' for name in LISTS)}, {len(view) - len(LISTS)} requests"


if __name__ == "__main__":
    sys.exit(main())
