"""The page has our totals first, beside those of the others, and names what fails."""

from conformance.results import CLIENT, OURS, SERVER, Check, Run
from conformance.table import document
from conformance.verdict import Meant

NEW, OLD = "2026-07-28", "2025-11-25"


def check(scenario: str, status: str) -> Check:
    return Check(scenario=scenario, id=scenario, status=status)


def ran(subject: str, *checks: Check, leg: str = SERVER, revision: str = NEW) -> Run:
    return Run(leg=leg, revision=revision, subject=subject, checks=checks)


GOOD, BAD, WARNING = check("ping", "SUCCESS"), check("tools", "FAILURE"), check("caching", "WARNING")


def test_a_row_per_leg_and_revision_and_a_column_per_subject_ours_first() -> None:
    runs = [
        ran("fixture", GOOD, GOOD, revision=OLD),
        ran(OURS, GOOD, revision=OLD),
        ran("fixture", GOOD, BAD),
        ran(OURS, GOOD, GOOD, WARNING),
        ran(OURS, GOOD, leg=CLIENT),
    ]

    assert document(runs, []).splitlines()[:5] == [
        "| leg | revision | jackfield | fixture |",
        "| --- | --- | --- | --- |",
        f"| server | {OLD} | 1 / 0 | 2 / 0 |",
        f"| server | {NEW} | 2 / 0 (1 warned) | 1 / 1 |",
        f"| client | {NEW} | 1 / 0 | – |",
    ]


def test_the_scenarios_about_oauth_have_a_row_of_their_own() -> None:
    page = document([ran(OURS, GOOD, check("auth/basic", "FAILURE"), leg=CLIENT)], [])

    assert page.splitlines()[2:4] == [f"| client | {NEW} | 1 / 0 |", f"| client, OAuth | {NEW} | 0 / 1 |"]


def test_a_leg_that_could_not_be_run_says_why() -> None:
    missing = Run(leg=SERVER, revision=NEW, subject="FastMCP proxy", not_run="no network")

    assert "| 1 / 0 | no network |" in document([ran(OURS, GOOD), missing], [])


def test_scenarios_that_fail_are_named_with_whose_they_are() -> None:
    page = document([ran(OURS, GOOD), ran("FastMCP proxy", GOOD, BAD, WARNING)], [])

    assert f"- server, {NEW}, FastMCP proxy: `tools`." in page
    assert "jackfield:" not in page


def test_an_exception_is_on_the_page_with_its_reason() -> None:
    meant = Meant(reason="It contradicts a gateway.", checks=("tools",), revisions=(NEW,), legacy_upstream=True)

    row = f"| `tools` | server, {NEW} before a server of the handshake era | It contradicts a gateway. |"
    assert row in document([ran(OURS, BAD)], [meant])
