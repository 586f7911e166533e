"""`jackfield chat`, `agents` and `spaces`: a person among agents, at a terminal and through a pipe."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.harness.process import RunningGateway, clean_environment, run_cli, running_gateway
from tests.requirement import requirement
from tests.stories.spaces import CONFIRM_AND_CHART
from tests.waiting import TIMEOUT

CONFIG = """
[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.clerk]
name = "Clerk"
model = "mind"
spaces = ["desk"]

[agents.grump]
model = "mind"
spaces = ["cellar"]
"""
MIND = r"""
pace = 0.005

[[turns]]
when = { user = '\n\[Tool Result: confirmAction\]' }
calls = [{ tool = "enter_space", arguments = { spaceId = "desk" } }]
[[turns]]
when = { result = "enter_space", asked = '\n\[Tool Result: confirmAction\] \(callId: [^)]*\) (?P<answer>\{[^\n]*\})' }
calls = [{ tool = "send_message", arguments = { text = "You said {answer}." } }]
[[turns]]
when = { user = 'spaceId: cellar' }
fail = "The model is tired."
[[turns]]
when = { user = 'spaceId: desk' }
calls = [{ tool = "enter_space", arguments = { spaceId = "desk" } }]
[[turns]]
when = { result = "enter_space", asked = '"sign' }
[[turns.calls]]
tool = "displayChart"
arguments = { title = "Pages", bars = [{ label = "one", value = 10 }, { label = "two", value = 5 }] }
[[turns.calls]]
tool = "confirmAction"
arguments = { question = "Sign it?" }
[[turns]]
when = { result = "enter_space" }
calls = [{ tool = "send_message", arguments = { text = "I heard you \u001b[31m, and wrote it down." } }]
[otherwise]
say = "Done."
"""
CHART = "  Pages\n  one  " + "█" * 30 + " 10\n  two  " + "█" * 15 + " 5\n"
WITHIN = TIMEOUT


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("desk")
    with running_gateway(folder, CONFIG + CONFIRM_AND_CHART, files={"mind.toml": MIND}) as gateway:
        yield gateway


def chat(desk: RunningGateway, typed: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return run_cli("chat", "desk", *options, cwd=desk.folder, stdin=typed)


@requirement("SPACE-type-space-user-result", "SPACE-example-confirm-answer")
def test_piped_lines_are_said_and_answered_in_turn_and_all_that_comes_of_them_is_printed(desk: RunningGateway) -> None:
    done = chat(desk, 'sign the papers\nyes\nsign again\n{"confirmed": false, "why": "tired"}\n', "--as", "Ann")
    assert (done.returncode, done.stderr) == (0, "")
    asked = "Clerk shows displayChart\n" + CHART + "Clerk asks confirmAction\n  Sign it?\n"
    asked += "  Answer yes, no, or JSON.\n"
    assert done.stdout == (
        "Ann: sign the papers\n"
        f"{asked}"
        '  → confirmAction: {"confirmed":true}\n'
        'Clerk: You said {"confirmed":true}.\n'
        "Ann: sign again\n"
        f"{asked}"
        '  → confirmAction: {"confirmed":false,"why":"tired"}\n'
        'Clerk: You said {"confirmed":false,"why":"tired"}.\n'
    )


def test_a_question_that_was_asked_before_is_shown_and_can_be_answered_later(desk: RunningGateway) -> None:
    assert chat(desk, "sign this").returncode == 0
    later = chat(desk, "no\n")
    assert later.stdout == (
        "Clerk asks confirmAction\n  Sign it?\n  Answer yes, no, or JSON.\n"
        '  → confirmAction: {"confirmed":false}\nClerk: You said {"confirmed":false}.\n'
    )


def test_what_others_wrote_cannot_drive_the_terminal_and_without_a_question_yes_is_said(desk: RunningGateway) -> None:
    done = chat(desk, "yes\n")
    assert done.stdout == "admin: yes\nClerk: I heard you \\x1b[31m, and wrote it down.\n"


def test_without_a_word_nothing_is_said(desk: RunningGateway) -> None:
    done = chat(desk, "\n  \n")
    assert (done.returncode, done.stdout) == (0, "")


def test_agents_that_are_not_done_in_time_are_said_to_be_so(desk: RunningGateway) -> None:
    done = run_cli("chat", "cellar", "--wait", "1", cwd=desk.folder, stdin="hello\n")
    assert done.returncode == 1
    assert "did not finish within 1 s" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("chat", "nowhere"), "There is no space 'nowhere'"),
        (("chat",), "space"),
        (("chat", "desk", "--wait", "0"), "--wait"),
        (("agents", "nobody"), "There is no agent 'nobody'"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(desk: RunningGateway, arguments: tuple[str, ...], says: str) -> None:
    done = run_cli(*arguments, cwd=desk.folder)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_agents_and_spaces_are_listed(desk: RunningGateway) -> None:
    chat(desk, "hello\n")
    header, clerk, grump = run_cli("agents", cwd=desk.folder).stdout.splitlines()
    assert header.split() == ["ID", "STATUS", "SPACES", "CYCLE", "FINISHED", "SUMMARY"]
    assert re.fullmatch(r"clerk  asleep  desk    \d+ +\d+ s ago +Done\.", clerk)
    assert grump.startswith("grump  ")
    one = run_cli("agents", "clerk", cwd=desk.folder).stdout.splitlines()
    assert one[3].split() == ["CYCLE", "STATUS", "FINISHED", "RUN", "SUMMARY"]
    assert re.fullmatch(r"\d+ +done +\d+ s ago +cycle_\w+  Done\.", one[4])
    header, cellar, here = run_cli("spaces", cwd=desk.folder).stdout.splitlines()
    assert header.split() == ["ID", "NAME", "MEMBERS"]
    assert cellar.startswith("cellar  cellar  grump (agent)")
    assert here.startswith("desk    desk    Clerk (agent), ")
    assert "admin (person)" in here


@requirement("OPS-CLI-runs")
def test_a_cycle_is_listed_and_shown_with_its_steps_and_calls(desk: RunningGateway) -> None:
    chat(desk, "hello once more\n", "--as", "Ann")
    newest = run_cli("runs", "--agent", "clerk", "--limit", "1", cwd=desk.folder)
    run, *rest = newest.stdout.splitlines()[1].split()
    assert (rest[:3], "--cursor" in newest.stderr) == (["cycle", "completed", "clerk"], True)
    shown = run_cli("runs", run, cwd=desk.folder).stdout
    assert "space_message  Ann: hello once more\n" in shown
    steps = [part.splitlines() for part in shown.split("\n\n") if part.startswith("step ")]
    assert [line.split()[2] for step in steps for line in step[1:] if "call_" in line] == [
        "enter_space",
        "send_message",
    ]
    assert "summary  Done.\n" in shown


class Terminal:
    """A command at a terminal: what it shows, and a keyboard."""

    def __init__(self, process: "subprocess.Popen[bytes]", line: int) -> None:
        self.process = process
        self._line = line
        self.shown = ""
        self._place = 0

    def until(self, text: str) -> None:
        """Read until this was shown, after what was waited for before."""
        end = time.monotonic() + WITHIN
        while text not in self.shown[self._place :]:
            assert time.monotonic() < end, f"{text!r} was not shown:\n{self.shown}"
            ready, _, _ = select.select([self._line], [], [], 0.1)
            if ready:
                self.shown += os.read(self._line, 65_536).decode(errors="replace").replace("\r\n", "\n")
        self._place = self.shown.index(text, self._place) + len(text)

    def type(self, keys: str) -> None:
        os.write(self._line, keys.encode())

    def has_echo(self) -> bool:
        """Whether the terminal itself shows what is typed, as a shell wants it."""
        return bool(termios.tcgetattr(self._line)[3] & termios.ECHO)


@contextmanager
def terminal(desk: RunningGateway, *arguments: str, **variables: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "jackfield.cli", *arguments],
        cwd=desk.folder,
        env=clean_environment({"NO_COLOR": "1", "TERM": "xterm", **variables}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(WITHIN)
        os.close(ours)


def test_at_a_terminal_one_sees_the_past_who_thinks_and_what_comes_and_answers_by_typing(desk: RunningGateway) -> None:
    body = {"content": "sign the lease", "entityId": "Zoe"}
    httpx2.post(f"{desk.url}/api/spaces/desk/messages", headers=desk.headers, json=body, timeout=10)
    with terminal(desk, "chat", "desk") as seat:
        seat.until("Zoe: sign the lease\n")
        seat.until("Answer yes, no, or JSON.")
        seat.type("just a moment\n")
        seat.until("Clerk is thinking …")
        seat.until("Clerk: I heard you \\x1b[31m, and wrote it down.\n")
        seat.type("yes\n")
        seat.until('You said {"confirmed":true}.\n')
        assert "admin: just a moment" not in seat.shown  # who typed it has seen it
        seat.type("\x04")
        assert seat.process.wait(WITHIN) == 0


def test_ctrl_c_ends_a_chat_without_a_traceback(desk: RunningGateway) -> None:
    with terminal(desk, "chat", "desk") as seat:
        seat.until("desk> ")
        assert not seat.has_echo()
        seat.process.send_signal(signal.SIGINT)
        assert seat.process.wait(WITHIN) == 130
        assert seat.has_echo()
        assert "Traceback" not in seat.shown


@requirement("OPS-CLI-chat")
def test_the_prompt_stays_below_what_others_write_and_keeps_what_is_half_typed(desk: RunningGateway) -> None:
    with terminal(desk, "chat", "desk") as seat:
        seat.until("/help lists commands, Ctrl-D ends.")
        seat.type("half a sen")
        seat.until("desk> half a sen")
        body = {"content": "psst", "entityId": "Zoe"}
        httpx2.post(f"{desk.url}/api/spaces/desk/messages", headers=desk.headers, json=body, timeout=10)
        seat.until("Zoe: psst\n")
        seat.until("wrote it down.\n")
        seat.until("desk> half a sen")
        seat.type("tence\n")
        seat.until("desk> half a sentence\n")
        seat.until("Clerk is thinking …")


@requirement("OPS-CLI-chat")
def test_at_the_prompt_there_are_commands_completion_and_what_was_typed_before(
    desk: RunningGateway, tmp_path: Path
) -> None:
    with terminal(desk, "chat", "desk", XDG_STATE_HOME=str(tmp_path)) as seat:
        seat.until("desk> ")
        seat.type("/he\t\n")
        seat.until("/quit       leave, as Ctrl-D does\n")
        seat.type("/membres\n")
        seat.until("There is no command '/membres'. Did you mean '/members'? See /help.\n")
        seat.type("/members\n")
        seat.until("  Clerk (agent)\n")
        seat.type("/questions\n")
        seat.until("  None.\n")
        seat.type("ask Cl\t")
        seat.until("desk> ask Clerk ")
        seat.type("\n")
        seat.until("Clerk: I heard you")
        seat.type("/quit\n")
        assert seat.process.wait(WITHIN) == 0
        assert seat.has_echo()
    kept = tmp_path / "jackfield" / "chat_history"
    assert kept.read_text(encoding="utf-8").splitlines()[-2:] == ["ask Clerk ", "/quit"]
    assert kept.stat().st_mode & 0o777 == 0o600
    with terminal(desk, "chat", "desk", XDG_STATE_HOME=str(tmp_path)) as seat:
        seat.until("desk> ")
        seat.type("\x1b[A\x1b[A")
        seat.until("desk> ask Clerk ")


@requirement("OPS-CLI-chat")
def test_through_a_pipe_a_slash_is_a_message_like_any_other(desk: RunningGateway) -> None:
    assert chat(desk, "/help\n").stdout.startswith("admin: /help\nClerk: I heard you")


def test_a_terminal_that_cannot_move_its_cursor_has_no_prompt(desk: RunningGateway) -> None:
    with terminal(desk, "chat", "desk", TERM="dumb") as seat:
        seat.until("Type a message; Ctrl-D ends.")
        assert seat.has_echo()
        seat.type("hello\n")
        seat.until("Clerk: I heard you")
        assert "desk>" not in seat.shown
