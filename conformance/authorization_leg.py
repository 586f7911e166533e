"""The authorization-server leg: whether the gateway issues tokens. It does not yet, and the run says so.

The suite asks for the metadata of an authorization server first (RFC 8414); where none answers, its scenarios have
nothing to look at.
"""

from collections.abc import Iterator
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from conformance.plan import Plan
from conformance.results import AUTHORIZATION, EXTENSIONS, OURS, Run
from conformance.subjects import SUBJECTS
from conformance.suite import run_suite

METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
NOT_OFFERED = "no authorization server yet"
ANSWER_SECONDS = 10


def run(plan: Plan) -> Iterator[Run]:
    """One run per revision, of the gateway alone: the others are proxies of a server without one."""
    if not plan.has(OURS):
        return
    folder = plan.folder / AUTHORIZATION
    folder.mkdir()
    with SUBJECTS[OURS](folder, legacy=plan.legacy) as target:
        issuer = "{0.scheme}://{0.netloc}".format(urlsplit(target.url))
        offered = any(_answers(issuer + path) for path in METADATA)
        for revision in plan.revisions:
            if revision == EXTENSIONS:  # the leg has none
                continue
            if not offered:
                yield Run(leg=AUTHORIZATION, revision=revision, subject=OURS, not_run=NOT_OFFERED)
                continue
            checks = run_suite(
                *(plan.tools, AUTHORIZATION, "--url", issuer), folder=folder / revision, asked=plan.asked(revision)
            )
            yield Run(leg=AUTHORIZATION, revision=revision, subject=OURS, checks=checks)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=ANSWER_SECONDS):
            return True
    except (HTTPError, URLError):
        return False
