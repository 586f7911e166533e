import pytest

from conformance.results import CLIENT, LEGS, OURS, REVISIONS, SERVER, Check, Run
from conformance.verdict import Meant, judge, read_exceptions, report

PASSED = Check(scenario="tools-list", id="tools-list", status="SUCCESS")
FAILED = Check(scenario="prompts-get", id="found", status="FAILURE", message="There is no prompt.")
WARNED = Check(scenario="caching", id="hints", status="WARNING", message="No hint.")
NEW = "2026-07-28"


def ran(*checks: Check, leg: str = SERVER) -> Run:
    return Run(leg=leg, revision=NEW, subject=OURS, checks=checks)


def meant(*checks: str, revision: str = NEW) -> Meant:
    return Meant(reason="A gateway has none.", checks=checks, revisions=(revision,))


def test_a_run_in_which_everything_passed_holds() -> None:
    assert judge(ran(PASSED), []).holds


@pytest.mark.parametrize("wrong", [FAILED, WARNED])
def test_a_failure_and_a_warning_that_nobody_meant_do_not_hold(wrong: Check) -> None:
    verdict = judge(ran(PASSED, wrong), [])

    assert not verdict.holds
    assert verdict.unexpected == (wrong,)
    assert f"unexpected: {wrong.scenario}:{wrong.id}: {wrong.message}" in report(verdict)


def test_an_exception_names_a_scenario_or_one_of_its_checks_for_a_revision() -> None:
    other = Check(scenario="caching", id="order", status="FAILURE")

    assert judge(ran(FAILED), [meant("prompts-get")]).holds
    assert judge(ran(WARNED), [meant("caching:hints")]).holds
    assert judge(ran(WARNED, other), [meant("caching:hints")]).unexpected == (other,)
    assert judge(ran(FAILED), [meant("prompts-get", revision="2025-11-25")]).unexpected == (FAILED,)
    assert judge(ran(FAILED, leg=CLIENT), [meant("prompts-get")]).unexpected == (FAILED,)


def test_an_exception_may_name_scenarios_by_a_pattern() -> None:
    other = Check(scenario="auth/basic", id="auth", status="FAILURE")

    verdict = judge(ran(FAILED, other), [meant("auth/*")])

    assert verdict.unexpected == (FAILED,)
    assert verdict.stale == ()
    assert judge(ran(FAILED), [meant("prompts-get", "auth/*")]).stale == ("auth/*",)


def test_an_exception_that_nothing_fails_any_more_must_go() -> None:
    verdict = judge(ran(PASSED, FAILED), [meant("prompts-get", "tools-list")])

    assert verdict.stale == ("tools-list",)
    assert not verdict.holds


def test_the_report_has_a_line_per_scenario_and_the_totals() -> None:
    verdict = judge(ran(PASSED, FAILED, WARNED), [meant("prompts-get", "caching")])

    assert report(verdict).splitlines() == [
        "— server, 2026-07-28, jackfield",
        "ok    tools-list: 1 passed",
        "meant prompts-get: 0 passed, 1 failed",
        "meant caching: 0 passed, 1 warned",
        "server, 2026-07-28, jackfield: 1 checks passed, 1 failed, 1 warned; 2 of 3 scenarios without a failure",
    ]


def test_every_exception_of_ours_has_a_reason_and_is_for_revisions_that_are_run() -> None:
    for exception in read_exceptions():
        assert len(exception.reason) > 20
        assert exception.checks
        assert set(exception.revisions) <= set(REVISIONS)
        assert exception.leg in LEGS
