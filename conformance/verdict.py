"""What a run's checks come to, held against the exceptions that are meant. Pure, apart from reading them.

A failure, and a warning as well, needs an exception with a reason; an exception that nothing fails any more must go.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

EXCEPTIONS = Path(__file__).with_name("exceptions.toml")
PASSED, FAILED, WARNED = "SUCCESS", "FAILURE", "WARNING"


class Check(Struct, frozen=True, kw_only=True):
    """One thing that a scenario looked at."""

    scenario: str
    id: str
    status: str
    message: str = ""


class Meant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checks that are meant to fail, and why."""

    reason: str
    checks: tuple[str, ...]
    """`scenario`, or `scenario:check`."""
    revisions: tuple[str, ...]
    legacy_upstream: bool = False
    """Only where the server behind the gateway is of the handshake era."""

    def covers(self, check: Check) -> bool:
        return check.scenario in self.checks or f"{check.scenario}:{check.id}" in self.checks


class Verdict(Struct, frozen=True, kw_only=True):
    """One revision."""

    revision: str
    checks: tuple[Check, ...]
    unexpected: tuple[Check, ...]
    """Failures and warnings that no exception speaks of."""
    stale: tuple[str, ...]
    """Exceptions that nothing fails any more."""

    @property
    def holds(self) -> bool:
        return not self.unexpected and not self.stale

    @property
    def totals(self) -> str:
        statuses = Counter(check.status for check in self.checks)
        scenarios = {check.scenario for check in self.checks}
        failed = {check.scenario for check in self.checks if check.status == FAILED}
        return (
            f"{self.revision}: {statuses[PASSED]} checks passed, {statuses[FAILED]} failed, {statuses[WARNED]} warned; "
            f"{len(scenarios) - len(failed)} of {len(scenarios)} scenarios without a failure"
        )


def read_exceptions(path: Path = EXCEPTIONS) -> tuple[Meant, ...]:
    """Those of the list; each has a reason."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))["exception"]
    return msgspec.convert(found, tuple[Meant, ...])


def judge(revision: str, checks: Sequence[Check], exceptions: Iterable[Meant]) -> Verdict:
    """Whether what went wrong is what is meant to."""
    meant = [exception for exception in exceptions if revision in exception.revisions]
    wrong = [check for check in checks if check.status in (FAILED, WARNED)]
    seen = {check.scenario for check in wrong} | {f"{check.scenario}:{check.id}" for check in wrong}
    return Verdict(
        revision=revision,
        checks=tuple(checks),
        unexpected=tuple(check for check in wrong if not any(exception.covers(check) for exception in meant)),
        stale=tuple(name for exception in meant for name in exception.checks if name not in seen),
    )


def document(verdicts: Sequence[Verdict], exceptions: Iterable[Meant]) -> str:
    """The totals and what is meant to fail, in Markdown."""
    rows = ["| fails, and is meant to | in | because |", "| --- | --- | --- |"]
    for meant in exceptions:
        names = ", ".join(f"`{name}`" for name in meant.checks)
        where = ", ".join(meant.revisions) + " before a server of the handshake era" * meant.legacy_upstream
        rows.append(f"| {names} | {where} | {meant.reason} |")
    return "\n".join([*(f"- {verdict.totals}." for verdict in verdicts), "", *rows])


def report(verdict: Verdict) -> str:
    """A line per scenario, what was not expected, the totals."""
    unexpected = set(verdict.unexpected)
    lines = [f"— {verdict.revision}"]
    for scenario in dict.fromkeys(check.scenario for check in verdict.checks):
        own = [check for check in verdict.checks if check.scenario == scenario]
        statuses = Counter(check.status for check in own)
        wrong = [
            f"{statuses[FAILED]} failed" * bool(statuses[FAILED]),
            f"{statuses[WARNED]} warned" * bool(statuses[WARNED]),
        ]
        mark = "FAIL" if unexpected & set(own) else "meant" if any(wrong) else "ok"
        lines.append(f"{mark:6}{scenario}: {', '.join([f'{statuses[PASSED]} passed', *filter(None, wrong)])}")
    lines += [f"unexpected: {check.scenario}:{check.id}: {check.message}" for check in verdict.unexpected]
    lines += [f"no longer fails, take it off the list: {name}" for name in verdict.stale]
    return "\n".join([*lines, verdict.totals])
