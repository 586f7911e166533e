"""`jackfield calls`, `runs` and `cancel` against a real gateway."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from jackfield.sdk import SyncClient
from tests.harness.process import RunningGateway, run_cli
from tests.requirement import requirement
from tests.stories.responses import CATALOG, MODEL, Sdk, calls_of
from tests.waiting import eventually

HEADER = ["ID", "STATUS", "TOOL", "CALLER", "STARTED", "TOOK", "ERROR", "ARGUMENTS"]


@pytest.fixture
def sdk(gateway_project: RunningGateway) -> Iterator[SyncClient]:
    with SyncClient(gateway_project.url, gateway_project.key) as client:
        yield client


def jackfield(gateway: RunningGateway, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_cli(*words, cwd=gateway.folder, env=gateway.environment)


def ids_in(done: "subprocess.CompletedProcess[str]") -> list[str]:
    header, *rows = done.stdout.splitlines()
    assert header.split() == HEADER
    return [row.split()[0] for row in rows]


@requirement("OPS-CLI-calls")
def test_calls_are_listed_newest_first_by_page_and_by_filter(gateway_project: RunningGateway, sdk: SyncClient) -> None:
    made = [sdk.tools.start("add", {"a": number}).call_id for number in range(5)][::-1]
    failed = sdk.tools.start("boom", {"reason": "\x1b[2Jno"}, agent="ann").call_id
    page = jackfield(gateway_project, "calls", "--tool", "add", "--limit", "2")
    assert (page.returncode, ids_in(page)) == (0, made[:2])
    row = page.stdout.splitlines()[1].split()
    assert (row[1:4], row[-1]) == (["completed", "add", "admin"], '{"a":4}')
    cursor = page.stderr.split("--cursor ")[1].split()[0]
    rest = jackfield(gateway_project, "calls", "--tool", "add", "--cursor", cursor)
    assert (ids_in(rest), rest.stderr) == (made[2:], "")
    every = jackfield(gateway_project, "calls", "--all", "--json")
    assert (json.loads(every.stdout)["next_cursor"], every.stderr) == (None, "")
    assert [call["id"] for call in json.loads(every.stdout)["calls"]][:6] == [failed, *made]
    only = jackfield(gateway_project, "calls", "--status", "failed,rejected", "--agent", "ann", "--kind", "tool")
    assert ids_in(only) == [failed]
    assert "ann for admin" in only.stdout
    assert "tool_error" in only.stdout
    assert "\x1b" not in only.stdout
    run = sdk.calls.get(failed).run_id or ""
    assert ids_in(jackfield(gateway_project, "calls", "--run", run)) == [failed]
    assert jackfield(gateway_project, "calls", "--kind", "prompt").stdout == "No calls.\n"


@requirement("OPS-CLI-calls")
def test_one_call_is_shown_with_what_was_asked_who_decided_and_what_came_of_it(
    gateway_project: RunningGateway, sdk: SyncClient
) -> None:
    call = sdk.tools.start("guarded", {"amount": 5}).call_id
    waiting = jackfield(gateway_project, "calls", call).stdout
    assert f"jackfield approve {call}" in waiting
    assert "expires" in waiting
    sdk.calls.approve(call, {"amount": 7})
    sdk.calls.wait(call, 20)
    shown = jackfield(gateway_project, "calls", call[:-1])  # the beginning of a recent one is enough
    assert (shown.returncode, shown.stderr) == (0, "")
    sections = {part.split("\n")[0]: part for part in shown.stdout.split("\n\n")}
    assert f"guarded  {call}" in sections
    assert '"amount": 7' in sections["arguments"]
    assert '"amount": 5' in sections["arguments that were asked for"]
    assert sections["result"] == "result\n  7"
    said = [line.split("  ")[-1] for line in sections["timeline"].splitlines()[1:]]
    assert said == ["called by admin", "approved by admin with other arguments", "completed"]
    as_json = json.loads(jackfield(gateway_project, "calls", call, "--json").stdout)["call"]
    assert (as_json["decided_by"], as_json["decision"]) == ("admin", "approved")


@requirement("OPS-CLI-calls")
def test_a_failed_call_is_shown_with_its_error_and_traceback(gateway_project: RunningGateway, sdk: SyncClient) -> None:
    call = sdk.tools.start("boom", {"reason": "Too late."}).call_id
    shown = jackfield(gateway_project, "calls", call).stdout
    assert "error\n  tool_error: ValueError: Too late.\n" in shown
    assert "raise ValueError(reason)" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("calls", "call_nobody"), "There is no call 'call_nobody' and no recent call with that prefix."),
        (("calls", "call_1234", "--tool", "add"), "--tool is for the list of calls, not for one."),
        (("calls", "--status", "lost"), "'lost' is not a call status. Known: "),
        (("calls", "--all", "--limit", "3"), "--all and --limit exclude each other."),
        (("calls", "--limit", "0"), "--limit takes a number from 1 on."),
        (("runs", "run_nobody"), "There is no run 'run_nobody'"),
        (("runs", "run_1", "--agent", "ann"), "--agent is for the list of runs, not for one."),
        (("runs", "cancel"), "Which run is it? jackfield runs cancel ID"),
        (("runs", "show"), "Which run is it? jackfield runs show ID"),
        (("runs", "list", "run_1"), "'list' lists all runs. To see one: jackfield runs run_1."),
        (("runs", "--follow"), "Which run is to be followed?"),
        (("runs", "end", "run_1"), "There is no action 'end'. Known: list, show, follow, cancel, resume."),
        (("runs", "resume", "run_1", "--follow"), "--follow does not go with 'resume'."),
        (("runs", "--messages"), "--messages is for one run"),
        (("runs", "--status", "lost"), "--status cannot be 'lost'."),
        (("runs", "follow", "cycle_1"), "There is no run 'cycle_1'"),
        (("cancel", "cycle_1"), "There is no run 'cycle_1'"),
        (("cancel", "call_nobody"), "no open call with that prefix"),
        (("cancel", "resp_1"), "There is no run 'resp_1'"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    gateway_project: RunningGateway, words: tuple[str, ...], says: str
) -> None:
    done = jackfield(gateway_project, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@requirement("OPS-CLI-cancel")
def test_calls_are_cancelled_each_for_itself(gateway_project: RunningGateway, sdk: SyncClient) -> None:
    first, second = (sdk.tools.start("guarded", {"amount": number}).call_id for number in (1, 2))
    done = sdk.tools.start("add", {"a": 1}).call_id
    ended = jackfield(gateway_project, "cancel", first, done, second[:-1])
    assert ended.returncode == 2
    assert ended.stdout == f"Cancelled: guarded {first}.\nCancelled: guarded {second}.\n"
    assert ended.stderr == f"error: Call {done} of 'add' is completed; nothing was changed.\n"
    assert [sdk.calls.get(call).status for call in (first, done, second)] == ["cancelled", "completed", "cancelled"]
    third = sdk.tools.start("guarded", {"amount": 3}).call_id
    as_json = jackfield(gateway_project, "cancel", third, done, "--json")
    told = json.loads(as_json.stdout)
    assert ([call["id"] for call in told["calls"]], [error["code"] for error in told["errors"]]) == (
        [third],
        ["already_resolved"],
    )
    assert (as_json.returncode, as_json.stderr) == (2, "")


@requirement("OPS-CLI-cancel", "OPS-CLI-runs")
def test_a_response_is_listed_shown_and_cancelled_with_its_tool(client: Sdk, actor: RunningGateway) -> None:
    made = client.responses.create(model=MODEL, input="wait", tools=[CATALOG], background=True)
    eventually(lambda: calls_of(actor, made.id))
    listed = jackfield(actor, "runs").stdout.splitlines()
    assert listed[0].split() == ["ID", "KIND", "STATUS", "CALLER", "STARTED", "TOOK", "TOKENS", "SUMMARY"]
    assert any(line.split()[:3] == [made.id, "response", "running"] for line in listed)
    ended = jackfield(actor, "cancel", made.id)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"Cancelled: {made.id}.\n", "")
    shown = jackfield(actor, "runs", made.id)
    assert "status   cancelled" in shown.stdout
    (call,) = calls_of(actor, made.id)
    assert call["id"] in shown.stdout
    assert json.loads(jackfield(actor, "runs", made.id, "--json").stdout)["run"]["status"] == "cancelled"
    told = jackfield(actor, "runs", "cancel", made.id)
    assert (told.returncode, told.stdout) == (2, "")
    assert f"Run '{made.id}' is over: it is cancelled." in told.stderr
    told = jackfield(actor, "runs", "resume", made.id)
    assert (told.returncode, "Only a response that failed can be resumed" in told.stderr) == (2, True)


@requirement("OPS-CLI-runs")
def test_runs_are_followed_to_their_end_and_found_by_kind_and_status(client: Sdk, actor: RunningGateway) -> None:
    made = client.responses.create(model=MODEL, input="Hello", tools=[CATALOG])
    followed = jackfield(actor, "runs", "follow", made.id)
    assert (followed.returncode, followed.stderr) == (0, "")
    lines = followed.stdout.splitlines()
    assert lines[0].startswith("step 1  ")
    assert lines[-1] == "completed"
    assert jackfield(actor, "runs", made.id, "--follow").stdout == followed.stdout
    events = [json.loads(line) for line in jackfield(actor, "runs", "follow", made.id, "--json").stdout.splitlines()]
    assert [event["type"] for event in events] == ["connected", "step.done", "run.completed"]
    listed = jackfield(actor, "runs", "--kind", "response", "--status", "completed", "--json")
    assert made.id in {run["id"] for run in json.loads(listed.stdout)["runs"]}
    assert jackfield(actor, "runs", "--kind", "program").stdout == "No runs.\n"
    assert jackfield(actor, "runs", "--principal", "nobody", "--since", "1h").stdout == "No runs.\n"
    shown = jackfield(actor, "runs", made.id, "--messages").stdout
    assert "Hello" in next(line for line in shown.splitlines() if line.startswith("  sent "))
    waits = client.responses.create(model=MODEL, input="wait", tools=[CATALOG], background=True)
    eventually(lambda: calls_of(actor, waits.id))
    ended = jackfield(actor, "runs", "cancel", waits.id)
    assert (ended.returncode, ended.stdout) == (0, f"{waits.id} is cancelled.\n")
    broken = jackfield(actor, "runs", "follow", waits.id)
    assert (broken.returncode, broken.stdout.splitlines()[-1]) == (1, "cancelled")
