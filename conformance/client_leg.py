"""The client leg: the suite as the server behind the gateway, and behind the other proxies.

The suite starts a server per scenario and runs `conformance.client`, which puts the subject in front of it and uses
through it whatever the server has: every request that the scenario sees was made by the subject's own client. The other
proxies are given no login, so the scenarios about OAuth would say nothing about them.
"""

import sys
from collections.abc import Iterator

from conformance.client import THROUGH
from conformance.plan import Plan
from conformance.results import CLIENT, OAUTH, OURS, Run
from conformance.subjects import SubjectMissing, proxy_python
from conformance.suite import Asked, run_suite, scenarios


def run(plan: Plan) -> Iterator[Run]:
    """A run per subject and revision."""
    for word, name in THROUGH.items():
        if not plan.has(name):
            continue
        try:
            proxy_python(name)  # installs what it needs, so that no scenario waits for that
        except SubjectMissing as missing:
            yield from (Run(leg=CLIENT, revision=each, subject=name, not_run=str(missing)) for each in plan.revisions)
            continue
        for revision in plan.revisions:
            asked = plan.asked(revision)
            if name != OURS and not asked.only:
                wanted = [each for each in scenarios(plan.tools, CLIENT, revision) if not each.startswith(OAUTH)]
                asked = Asked(revision=revision, only=tuple(wanted))
            checks = run_suite(
                *(plan.tools, CLIENT, "--command", f"{sys.executable} -m conformance.client {word}"),
                folder=plan.folder / CLIENT / name / revision,
                asked=asked,
            )
            yield Run(leg=CLIENT, revision=revision, subject=name, checks=checks)
