"""`make stress` and `make chaos`, small: the same code with small counts, some on PostgreSQL with two gateways."""

import asyncio
import secrets

import pytest

from chaos.scene import ALWAYS
from chaos.storm import Storm
from stress.counts import SMALL
from stress.parts import parts
from tests.requirement import requirement

PARTS = parts(SMALL)


def run(name: str) -> None:
    seed = secrets.randbelow(10**6)
    report = PARTS[name].run(seed)
    assert not report.violations, f"{report.summary}\n{report.complaint}"


@requirement("CON-exactly-once")
@pytest.mark.parametrize("name", ["race", "race-shared"])
def test_a_result_at_the_deadline_is_delivered_once_inline_or_by_inbox(name: str) -> None:
    run(name)


@requirement("CON-results-statuses")
@pytest.mark.parametrize("name", ["doubles", "doubles-shared"])
def test_of_two_results_at_once_one_is_taken_and_the_other_is_told(name: str) -> None:
    run(name)


@requirement("CON-worker-no-orphan", "WORK-crash-detected")
@pytest.mark.timeout(240)
def test_hostile_workers_hurt_nobody_but_their_own_calls_which_are_told_so_in_time() -> None:
    run("chaos")


@requirement("CON-relay-many-at-once", "CON-relay-first-answer")
def test_fifty_requests_to_a_caller_answered_in_any_order_each_get_their_own_answer_once() -> None:
    run("relay")


def test_mcp_servers_that_are_killed_work_again_soon_and_their_calls_end_in_clear_words() -> None:
    run("upstreams")


@requirement("CON-exactly-once")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["kills", "kills-shared"])
def test_no_acknowledged_result_is_lost_doubled_or_stuck_when_gateways_are_killed(name: str) -> None:
    run(name)


@requirement("CON-spaces-stream-resume")
@pytest.mark.parametrize("name", ["streams", "streams-shared"])
def test_who_follows_a_busy_space_has_everything_once_in_order_and_the_right_texts_however_often_cut_off(
    name: str,
) -> None:
    run(name)


@requirement("CON-agents-cycle-atomic")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["cycles", "cycles-shared"])
def test_no_event_is_processed_twice_nor_anything_said_or_done_twice_when_gateways_die_in_cycles(name: str) -> None:
    run(name)


@requirement("PROG-KILLED")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["programs", "programs-shared"])
def test_programs_end_as_in_a_calm_run_and_make_each_call_once_when_gateways_are_killed(name: str) -> None:
    run(name)


@requirement("RUN-responses-killed")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["responses", "responses-shared"])
def test_responses_end_as_in_a_calm_run_and_are_streamed_without_gap_when_gateways_are_killed(name: str) -> None:
    run(name)


@requirement("MCP2-task-crash")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["tasks", "tasks-shared"])
def test_tasks_that_wait_for_approval_end_once_with_the_records_result_when_gateways_are_killed(name: str) -> None:
    run(name)


@requirement("ID-one-refresh")
@pytest.mark.timeout(240)
def test_two_hundred_calls_at_expiry_refresh_a_login_once() -> None:
    run("expiry")


@requirement("ID-own-tokens")
@pytest.mark.timeout(240)
def test_each_call_of_two_people_reaches_the_server_behind_with_its_own_persons_token() -> None:
    run("logins")


@requirement("ID-login-crash")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["login-kills", "login-kills-shared"])
def test_a_gateway_killed_in_a_login_or_a_refresh_runs_no_call_twice_and_leaves_a_login_or_asks_for_one(
    name: str,
) -> None:
    run(name)


@requirement("OPS-outbox-crash")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["notifications", "notifications-shared"])
def test_every_notification_is_delivered_in_order_to_failing_targets_when_gateways_are_killed(name: str) -> None:
    run(name)


@requirement("OP-reload-under-load")
@pytest.mark.timeout(240)
def test_no_call_fails_and_no_source_is_connected_anew_while_two_gateways_reload() -> None:
    run("reloads")


@requirement("OPS-REFUSAL-flood", "OPS-REFUSAL-hundred", "OPS-audit-login-failed")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["floods", "floods-shared"])
def test_floods_of_refusals_and_of_failed_sign_ins_write_few_rows_and_are_counted(name: str) -> None:
    run(name)


@requirement("OPS-sources-under-load")
@pytest.mark.timeout(240)
def test_no_call_fails_and_no_source_is_connected_anew_while_others_are_changed() -> None:
    run("source-changes")


@requirement("PROOF-storm")
@pytest.mark.timeout(240)
def test_a_short_storm_of_faults_loses_repeats_and_leaves_nothing() -> None:
    # Tool servers, a worker and the gateway are killed, and clients hang up.
    storm = Storm(seed=14, seconds=8, only=tuple(ALWAYS), is_bare=True)
    report = asyncio.run(storm.run())
    assert not report.violations, f"{report.summary}\n{report.complaint}"
