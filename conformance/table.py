"""The runs as a page has them: totals beside those of others, what fails and why. Markdown, nothing else.

Above: `__main__.py` writes it into `docs/conformance.md`.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from conformance.results import FAILED, OAUTH, OURS, PASSED, WARNED, Run
from conformance.verdict import Meant


def document(runs: Sequence[Run], exceptions: Iterable[Meant]) -> str:
    """The table of totals, which scenarios fail, and the exceptions."""
    parts = [_totals([part for run in runs for part in _parts(run)]), _failures(runs), _exceptions(exceptions)]
    return "\n\n".join(part for part in parts if part)


def _parts(run: Run) -> list[Run]:
    """The client leg's scenarios about OAuth have rows of their own."""
    login = tuple(check for check in run.checks if check.scenario.startswith(OAUTH))
    if not login:
        return [run]
    others = tuple(check for check in run.checks if not check.scenario.startswith(OAUTH))
    return [replace(run, checks=others), replace(run, leg=f"{run.leg}, OAuth", checks=login)]


def _totals(runs: Sequence[Run]) -> str:
    """A row per leg and revision, a column per subject: passed / failed, with warnings where there are any."""
    subjects = sorted(dict.fromkeys(run.subject for run in runs), key=lambda subject: subject != OURS)
    kept = {(run.leg, run.revision, run.subject): run for run in runs}
    rows = [f"| leg | revision | {' | '.join(subjects)} |", "| --- " * (2 + len(subjects)) + "|"]
    for leg, revision in dict.fromkeys((run.leg, run.revision) for run in runs):
        cells = [_cell(kept.get((leg, revision, subject))) for subject in subjects]
        rows.append(f"| {leg} | {revision} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(run: Run | None) -> str:
    if run is None:
        return "–"
    if run.not_run:
        return run.not_run
    warned = run.count(WARNED)
    return f"{run.count(PASSED)} / {run.count(FAILED)}" + f" ({warned} warned)" * bool(warned)


def _failures(runs: Sequence[Run]) -> str:
    """By name, which scenarios fail, of whom."""
    lines = [
        f"- {run.title}: {', '.join(f'`{name}`' for name in run.failed_scenarios)}."
        for run in runs
        if run.failed_scenarios
    ]
    return "\n".join(["Scenarios with a failed check:", "", *lines]) if lines else ""


def _exceptions(exceptions: Iterable[Meant]) -> str:
    head = ["| fails, and is meant to | in | because |", "| --- | --- | --- |"]
    rows: list[str] = []
    for meant in exceptions:
        names = ", ".join(f"`{name}`" for name in meant.checks)
        where = f"{meant.leg}, {', '.join(meant.revisions)}"
        where += " before a server of the handshake era" * meant.legacy_upstream
        rows.append(f"| {names} | {where} | {meant.reason} |")
    return "\n".join([*head, *rows]) if rows else ""
