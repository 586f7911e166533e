"""The client leg: the suite as the server behind the gateway, and behind the other proxies.

The suite starts a server per scenario and runs `conformance.client`, which puts the subject in front of it and uses
through it whatever the server has: every request that the scenario sees was made by the subject's own client.
"""

import sys
from collections.abc import Iterator

from conformance.client import THROUGH
from conformance.plan import Plan
from conformance.results import CLIENT, Run
from conformance.subjects import SubjectMissing, proxy_python
from conformance.suite import run_suite


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
            checks = run_suite(
                *(plan.tools, CLIENT, "--command", f"{sys.executable} -m conformance.client {word}"),
                folder=plan.folder / CLIENT / name / revision,
                asked=plan.asked(revision),
            )
            yield Run(leg=CLIENT, revision=revision, subject=name, checks=checks)
