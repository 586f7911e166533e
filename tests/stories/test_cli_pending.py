"""`jackfield pending`, `approve`, `reject`, `answer` and `call --wait` against a real gateway."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jackfield.sdk import CallAnswer, SyncClient
from tests.harness.process import DEFAULT_TOOLS, RunningGateway, run_cli, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.guarded]
metadata = { requires_approval = true }

[[tools]]
name = "confirmAction"
description = "Ask somebody."
executionType = "space"
visible = false
isAsync = true
inputSchema = { type = "object", properties = { question = { type = "string" } }, required = ["question"] }

[[tools]]
name = "lookup"
description = "Ask somebody who is quick."
executionType = "external"
visible = false
timeout = 60000
inputSchema = { type = "object" }

[[tools]]
name = "fleeting"
description = "Gone soon."
executionType = "external"
visible = false
isAsync = true
expiresIn = 200
inputSchema = { type = "object" }

[auth.keys.caller]
key = "callers-key"
scopes = ["call"]
"""
PEOPLE = requirement("CON-cli-pending")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("people")
    environment = {"JACKFIELD_ADMIN_KEY": "operators-key"}
    with running_gateway(folder, CONFIG, env=environment, files={"tools/story.py": DEFAULT_TOOLS}) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[SyncClient]:
    with SyncClient(gateway.url, gateway.key) as client:
        yield client


def jackfield(gateway: RunningGateway, *args: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return run_cli(*args, cwd=gateway.folder, env=gateway.environment, stdin=stdin)


def begin(client: SyncClient, tool: str, **arguments: Any) -> str:
    """The id of a call that waits."""
    answer: CallAnswer = client.tools.start(tool, arguments)
    assert not answer.is_settled, answer
    return answer.call_id


@contextmanager
def command(
    gateway: RunningGateway, folder: Path, *args: str
) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[], str], Callable[[], str]]]:
    """A command that goes on, and what it has said so far on stdout and stderr."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "jackfield.cli", *args],
            cwd=folder,
            env=gateway.environment,
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
        )
    try:
        yield process, lambda: out.read_text(encoding="utf-8"), lambda: err.read_text(encoding="utf-8")
    finally:
        process.kill()
        process.wait(10)


class TestPending:
    @PEOPLE
    def test_what_waits_is_shown_with_what_to_type_next(self, gateway: RunningGateway, client: SyncClient) -> None:
        guarded = begin(client, "guarded", amount=5)
        question = begin(client, "confirmAction", question="Really?")
        shown = jackfield(gateway, "pending")
        assert (shown.returncode, shown.stderr) == (0, "")
        lines = {line.split()[0]: line for line in shown.stdout.splitlines() if line.startswith("call_")}
        assert "approval" in lines[guarded]
        assert "guarded" in lines[guarded]
        assert '{"amount":5}' in lines[guarded]
        assert "result" in lines[question]
        assert '{"question":"Really?"}' in lines[question]
        assert shown.stdout.split()[:7] == ["ID", "NEEDS", "TOOL", "CALLER", "AGE", "LEFT", "ARGUMENTS"]
        for line in (f"approve {guarded}", f"reject {guarded} --reason", f"answer {question} JSON"):
            assert f"jackfield {line}" in shown.stdout
        as_json = json.loads(jackfield(gateway, "pending", "--json", "--tool", "guarded").stdout)["calls"]
        assert {call["tool"] for call in as_json} == {"guarded"}
        assert guarded in {call["id"] for call in as_json}

    @PEOPLE
    def test_the_watch_tells_what_waits_now_and_from_now_on_and_what_stops_waiting(
        self, gateway: RunningGateway, client: SyncClient, tmp_path: Path
    ) -> None:
        before = begin(client, "guarded", amount=1)
        with command(gateway, tmp_path, "pending", "--watch", "--tool", "guarded") as (process, out, err):

            def line_with(*words: str) -> str:
                return next((line for line in out().splitlines() if all(word in line for word in words)), "")

            eventually(lambda: line_with(before, "approval", '{"amount":1}'), within=30)
            later = begin(client, "guarded", amount=2)
            eventually(lambda: line_with(later, "approval", '{"amount":2}'))
            client.calls.reject(before)
            eventually(lambda: line_with(before, "rejected"))
            client.calls.approve(later)
            eventually(lambda: line_with(later, "approved"))
            process.send_signal(signal.SIGINT)
            assert (process.wait(20), err()) == (130, "")


class TestApproving:
    @PEOPLE
    def test_an_allowed_call_runs_and_its_result_is_printed_when_waited_for(
        self, gateway: RunningGateway, client: SyncClient
    ) -> None:
        call = begin(client, "guarded", amount=5)
        done = jackfield(gateway, "approve", call)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"Approved: guarded {call}; running.\n", "")
        assert client.calls.wait(call, 20).result == 5
        other = begin(client, "guarded", amount=6)
        waited = jackfield(gateway, "approve", other, "--wait")
        assert (waited.returncode, waited.stdout, waited.stderr) == (0, "6\n", "")

    @PEOPLE
    @pytest.mark.parametrize("given", ["inline", "file"])
    def test_other_arguments_are_taken_and_checked(
        self, gateway: RunningGateway, client: SyncClient, tmp_path: Path, given: str
    ) -> None:
        call = begin(client, "guarded", amount=5)
        refused = jackfield(gateway, "approve", call, "--edit", '{"amount": "much"}')
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "amount must be an integer" in refused.stderr
        (tmp_path / "edit.json").write_text('{"amount": 7}', encoding="utf-8")
        edit = '{"amount": 7}' if given == "inline" else f"@{tmp_path / 'edit.json'}"
        done = jackfield(gateway, "approve", call, "--edit", edit, "--json")
        assert (done.returncode, json.loads(done.stdout)["id"]) == (0, call)
        settled = client.calls.wait(call, 20)
        assert (settled.result, settled.arguments) == (7, {"amount": 7})

    @PEOPLE
    def test_a_refused_call_carries_its_reason(self, gateway: RunningGateway, client: SyncClient) -> None:
        call = begin(client, "guarded", amount=5)
        done = jackfield(gateway, "reject", call, "--reason", "Too much.")
        assert (done.returncode, done.stdout) == (0, f"Rejected: guarded {call}.\n")
        record = client.calls.get(call)
        assert (record.status, record.result) == ("rejected", {"rejected": True, "reason": "Too much."})

    def test_a_unique_beginning_of_the_id_is_enough_and_an_unclear_one_is_not(
        self, gateway: RunningGateway, client: SyncClient
    ) -> None:
        first, second = begin(client, "guarded", amount=1), begin(client, "guarded", amount=2)
        unclear = jackfield(gateway, "approve", first[:10])
        assert unclear.returncode == 2
        assert "is ambiguous" in unclear.stderr
        assert "is too short for an id" in jackfield(gateway, "approve", "call_").stderr
        assert jackfield(gateway, "approve", first[:-1]).returncode == 0
        assert jackfield(gateway, "reject", second.removeprefix("call_")[:-2]).returncode == 0
        assert [client.calls.wait(call, 20).status for call in (first, second)] == ["completed", "rejected"]


class TestAnswering:
    @PEOPLE
    @pytest.mark.parametrize("result", [None, False, 0, "", [], {"confirmed": True}])
    def test_a_result_is_any_json(self, gateway: RunningGateway, client: SyncClient, result: Any) -> None:
        call = begin(client, "confirmAction", question="?")
        done = jackfield(gateway, "answer", call, json.dumps(result))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"Answered: confirmAction {call}; stored with the call.\n"
        record = client.calls.get(call)
        assert (record.status, record.result, type(record.result)) == ("completed", result, type(result))

    @PEOPLE
    def test_an_error_is_an_answer_too_and_stdin_and_json_are_ways(
        self, gateway: RunningGateway, client: SyncClient
    ) -> None:
        failed = begin(client, "confirmAction", question="?")
        assert jackfield(gateway, "answer", failed, "--error", "Nobody is there.").returncode == 0
        error = client.calls.get(failed).error
        assert error is not None
        assert error.message == "Nobody is there."
        piped = begin(client, "confirmAction", question="?")
        done = jackfield(gateway, "answer", piped, "-", "--json", stdin='{"a": 1}')
        assert json.loads(done.stdout) == {"call_id": piped, "agent": None, "delivery": "inbox"}
        assert client.calls.get(piped).result == {"a": 1}


class TestRefusals:
    @PEOPLE
    def test_every_way_of_being_too_late_or_wrong_is_a_sentence_and_exit_2(
        self, gateway: RunningGateway, client: SyncClient
    ) -> None:
        done = begin(client, "confirmAction", question="?")
        client.calls.answer(done, 1)
        expired = begin(client, "fleeting")
        assert client.calls.wait(expired, 20).status == "expired"
        question = begin(client, "confirmAction", question="?")
        guarded = begin(client, "guarded", amount=1)
        with SyncClient(gateway.url, "callers-key") as caller:
            own = begin(caller, "guarded", amount=1)
        for line, sentence in [
            (["answer", done, "2"], "is already resolved: it is completed. Nothing was changed."),
            (["approve", done], "is already resolved: it is completed. Nothing was changed."),
            (["answer", expired, "2"], f"Call {expired} of 'fleeting' has expired."),
            (["answer", "call_nothere", "2"], "There is no call 'call_nothere' and no pending call with that prefix."),
            (["approve", question], f"needs a result, not an approval: jackfield answer {question} JSON."),
            (["answer", guarded, "2"], f"must be approved before it can be answered: jackfield approve {guarded}."),
            (["approve", guarded, "--key", "callers-key"], f"There is no call '{guarded}'"),
            (["approve", own, "--key", "callers-key"], "'answer'"),
            (["reject", guarded, "--key", "wrong"], "key"),
        ]:
            refused = jackfield(gateway, *line)
            assert (refused.returncode, refused.stdout) == (2, ""), line
            assert sentence in refused.stderr, line
            assert len(refused.stderr.splitlines()) == 1, line
        assert [client.calls.get(call).status for call in (question, guarded)] == ["pending", "pending_approval"]
        as_json = json.loads(jackfield(gateway, "answer", done, "2", "--json").stdout)
        assert as_json["error"]["code"] == "already_resolved"


class TestCallAndWait:
    def test_a_call_that_is_waited_for_prints_its_result_when_somebody_has_allowed_it(
        self, gateway: RunningGateway, tmp_path: Path
    ) -> None:
        with command(gateway, tmp_path, "call", "guarded", "amount=9", "--wait") as (process, out, err):
            said = eventually(lambda: err() if "jackfield approve" in err() else "", within=30)
            call = next(word.strip("'.") for word in said.split() if word.startswith("call_"))
            assert process.poll() is None
            assert jackfield(gateway, "approve", call).returncode == 0
            assert (process.wait(20), out()) == (0, "9\n")

    def test_one_that_is_refused_fails_and_one_that_nobody_answers_in_time_stays_pending(
        self, gateway: RunningGateway, client: SyncClient, tmp_path: Path
    ) -> None:
        with command(gateway, tmp_path, "call", "confirmAction", "question=?", "--wait") as (process, out, err):
            said = eventually(lambda: err() if "jackfield answer" in err() else "", within=30)
            call = next(word.strip("'.") for word in said.split() if word.startswith("call_"))
            client.calls.fail(call, "Nobody is there.")
            assert (process.wait(20), out()) == (1, "")
            assert err().endswith("'confirmAction' failed (tool_error): Nobody is there.\n")
        late = jackfield(gateway, "call", "confirmAction", "question=?", "--wait", "--timeout", "1")
        assert (late.returncode, client.calls.get(late.stdout.strip()).status) == (3, "pending")

    def test_a_call_on_hold_is_answered_from_another_terminal(
        self, gateway: RunningGateway, client: SyncClient, tmp_path: Path
    ) -> None:
        with command(gateway, tmp_path, "call", "lookup") as (process, out, _):
            waiting = eventually(lambda: client.calls.pending(tool="lookup"), within=30)[0]
            done = jackfield(gateway, "answer", waiting.id, '{"found": 1}')
            assert done.stdout == (f"Answered: lookup {waiting.id}; delivered to the waiting caller.\n")
            assert (process.wait(20), json.loads(out())) == (0, {"found": 1})


def test_the_tail_shows_waiting_allowing_and_settling(
    gateway: RunningGateway, client: SyncClient, tmp_path: Path
) -> None:
    with command(gateway, tmp_path, "tail", "--tool", "guarded") as (process, out, err):

        def lines_of_a_call() -> list[list[str]]:
            call = begin(client, "guarded", amount=3)
            client.calls.approve(call)
            client.calls.wait(call, 20)
            return [line.split()[1:3] for line in out().splitlines() if call in line]

        def all_three() -> bool:
            shown = lines_of_a_call()
            return [word for word, _ in shown if word in {"pending_approval", "approved", "completed"}] == [
                "pending_approval",
                "approved",
                "completed",
            ]

        assert eventually(all_three, within=30)
        refused = begin(client, "guarded", amount=3)
        client.calls.reject(refused, "Too much.")
        eventually(lambda: [line for line in out().splitlines() if refused in line and "Too much." in line])
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), err()) == (130, "")
