"""What a run's checks come to, held against the exceptions that are meant. Pure, apart from reading them.

A failure, and a warning as well, needs an exception with a reason; an exception that nothing fails any more must go.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from conformance.results import FAILED, PASSED, SERVER, WARNED, Check, Run

EXCEPTIONS = Path(__file__).with_name("exceptions.toml")


class Meant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checks that are meant to fail, and why."""

    reason: str
    checks: tuple[str, ...]
    """`scenario`, or `scenario:check`; `*` stands for anything."""
    revisions: tuple[str, ...]
    leg: str = SERVER
    legacy_upstream: bool = False
    """Only where the server behind the gateway is of the handshake era."""

    def covers(self, check: Check) -> bool:
        return any(_matches(check, name) for name in self.checks)


class Verdict(Struct, frozen=True, kw_only=True):
    """A run of ours, judged."""

    run: Run
    unexpected: tuple[Check, ...]
    """Failures and warnings that no exception speaks of."""
    stale: tuple[str, ...]
    """Exceptions that nothing fails any more."""

    @property
    def holds(self) -> bool:
        return not self.unexpected and not self.stale


def read_exceptions(path: Path = EXCEPTIONS) -> tuple[Meant, ...]:
    """Those of the list; each has a reason."""
    found = tomllib.loads(path.read_text(encoding="utf-8")).get("exception", [])
    return msgspec.convert(found, tuple[Meant, ...])


def judge(run: Run, exceptions: Iterable[Meant]) -> Verdict:
    """Whether what went wrong is what is meant to."""
    meant = [each for each in exceptions if each.leg == run.leg and run.revision in each.revisions and not run.not_run]
    wrong = [check for check in run.checks if check.status in (FAILED, WARNED)]
    return Verdict(
        run=run,
        unexpected=tuple(check for check in wrong if not any(exception.covers(check) for exception in meant)),
        stale=tuple(
            name for each in meant for name in each.checks if not any(_matches(check, name) for check in wrong)
        ),
    )


def _matches(check: Check, name: str) -> bool:
    return fnmatchcase(check.scenario, name) or fnmatchcase(check.name, name)


def report(verdict: Verdict) -> str:
    """A line per scenario, what was not expected, the totals."""
    unexpected = set(verdict.unexpected)
    lines = [f"— {verdict.run.title}"]
    for scenario, own in verdict.run.scenarios.items():
        statuses = Counter(check.status for check in own)
        wrong = [
            f"{statuses[FAILED]} failed" * bool(statuses[FAILED]),
            f"{statuses[WARNED]} warned" * bool(statuses[WARNED]),
        ]
        mark = "FAIL" if unexpected & set(own) else "meant" if any(wrong) else "ok"
        lines.append(f"{mark:6}{scenario}: {', '.join([f'{statuses[PASSED]} passed', *filter(None, wrong)])}")
    lines += [f"unexpected: {check.name}: {check.message}" for check in verdict.unexpected]
    lines += [f"no longer fails, take it off the list: {name}" for name in verdict.stale]
    return "\n".join([*lines, verdict.run.totals])
