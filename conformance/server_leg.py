"""The server leg: the suite as a client of `/mcp`, of the server behind it, and of other proxies in front of that.

Each subject has a fixture of its own, so that no run sees what another left.
"""

from collections.abc import Iterator

from conformance.plan import Plan
from conformance.results import SERVER, Run
from conformance.subjects import SUBJECTS, SubjectMissing
from conformance.suite import run_suite


def run(plan: Plan) -> Iterator[Run]:
    """A run per subject and revision."""
    for name, running in SUBJECTS.items():
        if not plan.has(name):
            continue
        folder = plan.folder / SERVER / name
        folder.mkdir(parents=True)
        try:
            with running(folder, legacy=plan.legacy) as target:
                for revision in plan.revisions:
                    checks = run_suite(
                        *(plan.tools, SERVER, "--url", target.url),
                        folder=folder / revision,
                        asked=plan.asked(revision),
                        key=target.key,
                    )
                    yield Run(leg=SERVER, revision=revision, subject=name, checks=checks)
        except SubjectMissing as missing:
            yield from (Run(leg=SERVER, revision=each, subject=name, not_run=str(missing)) for each in plan.revisions)
