"""How a source that waits for a login looks on the command line."""

from jackfield.cli.doctor import check_source, warning
from jackfield.cli.sources import state_lines
from jackfield.cli.tools import problem_lines
from jackfield.sdk.types import Readiness, ScenarioState, SourceReport
from tests.requirement import requirement

HOW = "The server shows what it offers after a login only. Log in with 'jackfield login far'."


@requirement("ID-upstream-hidden-list")
def test_a_source_that_waits_for_a_login_is_not_called_down_or_faulty() -> None:
    state = ScenarioState(scenario="far", available=True, tool_count=3, error=HOW)
    [_, line] = state_lines([state], {"far": "login_needed"})
    assert "login needed" in line
    assert HOW in line
    [_, line] = state_lines([state], {"far": "faulty"})
    assert "faulty" in line

    report = SourceReport(name="far", kind="mcp", status="login_needed", error=HOW)
    [finding] = check_source(report)
    assert finding.message == HOW
    assert finding == warning("source far", HOW)
    [_, problem] = problem_lines(Readiness(status="ready", sources=(report,)))
    assert "far is waiting for a login" in problem
    assert HOW in problem
