"""The authorization-server leg: the gateway issues tokens for its own `/mcp`.

The suite reads the metadata (RFC 8414) and prints a URL for somebody's browser; the browser here signs in with the key
and consents. The suite redeems the code that comes back.
"""

import socket
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

import httpx2

from bench.processes import KEY
from conformance.browser import Browser, follow
from conformance.plan import Plan
from conformance.results import AUTHORIZATION, EXTENSIONS, OURS, Run
from conformance.subjects import SUBJECTS
from conformance.suite import SuiteError, run_authorization

ANSWER_SECONDS = 30.0


def run(plan: Plan) -> Iterator[Run]:
    """One run per revision, of the gateway alone: the others are proxies of a server without one."""
    if not plan.has(OURS):
        return
    folder = plan.folder / AUTHORIZATION
    folder.mkdir()
    with SUBJECTS[OURS](folder, legacy=plan.legacy) as target:
        issuer = "{0.scheme}://{0.netloc}".format(urlsplit(target.url))
        for revision in plan.revisions:
            if revision == EXTENSIONS:  # the leg has none
                continue
            port = _free_port()
            client = _registered(issuer, f"http://127.0.0.1:{port}/callback")
            with Browser() as browser:
                checks = run_authorization(
                    *(plan.tools, "--url", issuer, "--client-id", client, "--port", str(port)),
                    folder=folder / revision,
                    asked=plan.asked(revision),
                    open_page=partial(_consent, browser),
                )
            yield Run(leg=AUTHORIZATION, revision=revision, subject=OURS, checks=checks)


def _registered(issuer: str, redirect_uri: str) -> str:
    """A public client of the gateway, as the suite wants one: by dynamic registration."""
    asked = {
        "client_name": "conformance suite",
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none",
    }
    answer = httpx2.post(f"{issuer}/oauth/register", json=asked, timeout=ANSWER_SECONDS)
    if answer.is_error:
        raise SuiteError(f"The gateway did not register the suite: {answer.status_code} {answer.text}")
    return str(answer.json()["client_id"])


def _consent(browser: Browser, url: str) -> None:
    page = follow(browser, url, {"key": KEY})
    if page.is_fault:
        raise SuiteError(f"No consent: {page.url} said {page.status}: {page.text}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
