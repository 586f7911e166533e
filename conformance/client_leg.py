"""The client leg: the suite as the server that the gateway's MCP source connects to."""

from collections.abc import Iterator

from conformance.plan import Plan
from conformance.results import CLIENT, OURS, Run


def run(plan: Plan) -> Iterator[Run]:
    """A run per subject and revision."""
    for revision in plan.revisions:
        yield Run(leg=CLIENT, revision=revision, subject=OURS, not_run="not written yet")
