"""Servers on stdio: what they inherit, how they end, and that nothing of them is left."""

import asyncio
import json
import logging
import os
import signal
import time
from pathlib import Path

import pytest
from msgspec import Raw

from jackfield.errors import SourceUnavailable
from jackfield.model.call import Done
from jackfield.sources.mcp import options, stdio
from jackfield.sources.mcp.options import parse_options
from jackfield.sources.mcp.source import McpSource
from jackfield.sources.mcp.transport import McpClientError, UpstreamLost
from jackfield.sources.mcp.upstream import SHORT_LIFE
from jackfield.sources.supervisor import SourceState
from jackfield.workers.sandbox.kinds import LaunchPlan
from tests.requirement import requirement
from tests.sources.mcp.scene import BOUND, failed, lives, opened, plain, scene
from tests.waiting import TIMEOUT, eventually_async


async def test_a_server_inherits_nothing_but_path_and_home_and_what_the_config_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "hunter22")
    (tmp_path / "work").mkdir()
    async with opened(tmp_path, command=plain("good"), env={"TOKEN": "t0"}, cwd="work") as far:
        seen = json.loads(await far.result("environment"))

    own = {"LC_CTYPE"}  # Python sets it for itself
    assert seen["env"].keys() - own == {"PATH", "HOME", "TOKEN"}
    assert seen["env"]["TOKEN"] == "t0"
    assert seen["cwd"] == str(tmp_path / "work")


@requirement("TOOL-mcp-transport-close")
async def test_closing_leaves_no_process_not_even_one_that_the_server_started(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("good")) as far:
        server, grandchild = map(int, (await far.result("start_child")).split())
        assert lives(server)
        assert lives(grandchild)

    await eventually_async(lambda: not lives(server) and not lives(grandchild))


async def test_a_server_killed_in_a_call_fails_that_call_at_once_and_is_started_again(tmp_path: Path) -> None:
    async with scene(tmp_path, command=plain("good")) as far:
        await far.keep()
        await far.state(SourceState.UP)
        server, grandchild = map(int, (await far.result("start_child")).split())
        hanging = asyncio.create_task(far.call("hang"))
        await eventually_async((tmp_path / "hanging").exists)

        os.kill(server, signal.SIGKILL)

        async with asyncio.timeout(5):
            outcome = failed(await hanging)
        assert outcome.code == "source_unavailable"
        assert outcome.message == (
            "The connection to 'far' broke while 'hang' ran, so it may or may not have taken effect: "
            "The server's process exited (signal 9). Check before you call it again."
        )
        await eventually_async(lambda: not lives(grandchild))
        await eventually_async(lambda: len((tmp_path / "starts").read_text().split()) == 2)
        await far.state(SourceState.UP)
        assert await far.result("echo", text="back") == "back"


async def test_a_call_that_kills_its_server_is_repeated_only_where_the_config_says_that_it_is_harmless(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, command=plain("good")) as far:
        outcome = failed(await far.call("die"))
        assert "exited (code 3)" in outcome.message
        assert len((tmp_path / "starts").read_text().split()) == 1

    async with opened(tmp_path, command=plain("good")) as far:
        # A server that dies young is not started again at once.
        started = time.monotonic()
        await eventually_async(lambda: time.monotonic() > started + SHORT_LIFE)
        failed(await far.call("die", idempotent=True))
        assert len((tmp_path / "starts").read_text().split()) == 3


async def test_a_cancelled_call_is_told_to_the_server_and_others_go_on(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("good")) as far:
        call = asyncio.create_task(far.call("hang"))
        await eventually_async((tmp_path / "hanging").exists)
        call.cancel()
        await asyncio.wait([call])
        await eventually_async((tmp_path / "cancelled").exists)
        assert await far.result("echo", text="x") == "x"


@pytest.mark.parametrize(
    ("mode", "seconds", "sentence"),
    [
        ("silent", 2, "The server did not answer within 2 s."),
        ("exits", 20, "The server's process exited (code 7)."),
        ("unknown", 20, "The server speaks revision '1999-01-01' of MCP, which we do not."),
    ],
)
async def test_a_server_that_cannot_be_talked_to_is_said_to_be_so_and_leaves_no_process(
    mode: str, seconds: float, sentence: str, tmp_path: Path
) -> None:
    async with scene(tmp_path, command=plain(mode), connect_timeout=seconds) as far:
        async with asyncio.timeout(BOUND):
            with pytest.raises(McpClientError) as caught:
                await far.source.open()

        assert str(caught.value) == sentence
        pids = map(int, (tmp_path / "starts").read_text().split())
        await eventually_async(lambda: not any(map(lives, pids)))


@requirement("SAFE-mcp-slow-start")
async def test_a_modern_server_that_is_slow_to_start_comes_up(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("modern"), env={"START": "1"}, connect_timeout=2.4) as far:
        assert await far.result("echo", text="late") == "late"
        assert len((tmp_path / "starts").read_text().split()) == 1


@requirement("SAFE-mcp-slow-start")
async def test_an_old_server_that_is_slow_to_start_comes_up(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("old"), env={"START": "1"}, connect_timeout=2.4) as far:
        assert await far.result("echo", text="late") == "late"


@requirement("SAFE-mcp-dies-on-probe")
async def test_a_server_that_ends_when_it_is_asked_for_the_newer_era_is_started_again_for_the_older(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, command=plain("brittle")) as far:
        assert await far.result("echo", text="old") == "old"
        assert len((tmp_path / "starts").read_text().split()) == 2


@requirement("SAFE-mcp-dies-on-probe")
async def test_with_era_handshake_nothing_newer_is_asked(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("brittle"), era="handshake") as far:
        assert await far.result("echo", text="old") == "old"
        assert len((tmp_path / "starts").read_text().split()) == 1


@requirement("SAFE-mcp-slow-start")
async def test_a_first_start_has_longer_and_says_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "CONNECT_SECONDS", 0.5)
    async with scene(tmp_path, command=plain("good"), env={"START": "1.5"}) as far:
        source_registry = await far.keep()
        said = "it has 120 s. Its command may be installing it."
        await eventually_async(lambda: said in (source_registry.statuses()[0].doing or ""))
        await far.state(SourceState.UP)
        assert source_registry.statuses()[0].doing is None


@requirement("SAFE-causes-are-shown")
async def test_the_end_of_what_a_failing_server_says_is_kept_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = "hunter22-hunter22"  # known to the worker_host of these scenes as a secret
    async with scene(tmp_path, command=plain("raises"), env={"TOKEN": token}) as far:
        far.source_context.worker_host.redact = lambda text: text.replace(token, "[redacted]")
        far.source = McpSource("far", parse_options(far.given, where="sources.far"), far.source_context)
        source_registry = await far.keep()
        await far.state(SourceState.DOWN)
        (status,) = source_registry.statuses()
        assert status.error == "The server's process exited (code 1)."
        assert len(status.last_words) == 50
        assert status.last_words[-1] == "ValueError: no such account for [redacted]"
        assert "ValueError: no such account for [redacted]" in caplog.text
        assert token not in caplog.text


@requirement("SAFE-causes-are-shown")
def test_what_processes_say_again_and_again_is_shown_once() -> None:
    log = stdio.ServerLog("failing", redact=str)
    for worker, words in ((1, b"warming up"), (2, b"no token"), (3, b"no token"), (4, b"no token")):
        log.add(b"starting", worker=worker)
        log.add(words, worker=worker)
    assert log.last_words() == ("starting", "warming up", "starting", "no token")
    assert log.last_words(1) == ("no token",)


@requirement("SAFE-mcp-programs")
async def test_what_a_server_says_of_its_use_is_listed_without_hidden_characters(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("good")) as far:
        about = (await far.source.refresh()).about
        assert about is not None
        assert about.instructions == "Echo before you call."


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with scene(tmp_path, command=["no-such-server"]) as far:
        with pytest.raises(McpClientError, match="'no-such-server'"):
            await far.source.open()


class _Deaf:
    """A listener of a server that says nothing."""

    def notified(self, method: str, params: Raw, *, during: int | None) -> None: ...

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:
        raise NotImplementedError

    def lost(self, error: UpstreamLost) -> None: ...


@requirement("SAFE-causes-are-shown")
async def test_how_a_server_ended_is_said_also_by_a_request_that_found_its_stdin_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "EXIT_SECONDS", TIMEOUT)
    script = "exec 0<&-; echo closed >&2; while [ ! -e leave ]; do sleep 0.05; done; exit 3"
    plan = LaunchPlan(kind="none", command=("/bin/sh", "-c", script), env=dict(os.environ), cwd=tmp_path)
    log = stdio.ServerLog("ending", redact=str)
    async with scene(tmp_path, command=plain("good")) as far:

        async def planned() -> LaunchPlan:
            return plan

        wire = stdio.StdioTransport(
            "ending", planned, supervisor=far.source_context.supervisor, listener=_Deaf(), log=log
        )
        await wire.open()
        await eventually_async(lambda: log.last_words() == ("closed",))
        calls = [asyncio.create_task(wire.call(n, "ping", Raw(b"{}"), headers={})) for n in range(2)]
        await asyncio.sleep(0)
        (tmp_path / "leave").touch()
        for call in calls:
            with pytest.raises(UpstreamLost, match=r"The server's process exited \(code 3\)\."):
                await call
        await wire.close()


async def test_a_server_that_never_lists_its_tools_is_down_and_delays_nobody(tmp_path: Path) -> None:
    async with scene(tmp_path, command=plain("mute"), connect_timeout=2) as far:
        source_registry = await far.keep()
        await eventually_async(
            lambda: source_registry.statuses()[0].error == "The server did not answer tools/list within 2 s."
        )
        assert source_registry.statuses()[0].status is SourceState.DOWN


async def test_a_server_that_crashes_whenever_it_is_asked_is_started_with_pauses(tmp_path: Path) -> None:
    async with scene(tmp_path, command=plain("crashes")) as far:
        await far.keep()
        await far.state(SourceState.DOWN)
        await asyncio.sleep(1.5)
        starts = len((tmp_path / "starts").read_text().split())
    assert 1 <= starts <= 4, "no loop of starts without a pause"


async def test_an_old_server_and_a_slow_one_work(tmp_path: Path) -> None:
    for mode in ("old", "late"):
        async with opened(tmp_path, command=plain(mode)) as far:
            assert await far.result("echo", text=mode) == mode


async def test_a_large_answer_passes_and_one_beyond_all_bounds_ends_the_connection(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("good")) as far:
        assert len(await far.result("huge")) == 1_000_000
    async with opened(tmp_path, command=plain("good"), env={"HUGE": str(33 * 1024 * 1024)}) as far:
        outcome = failed(await far.call("huge"))
        assert "more than the 33,554,432 bytes allowed" in outcome.message

        async def again() -> bool:
            try:
                return isinstance(await far.call("echo", text="again"), Done)
            except SourceUnavailable:
                return False

        await eventually_async(again)


async def test_what_a_server_says_on_stderr_is_logged_within_bounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="jackfield.mcp.far")
    async with opened(tmp_path, command=plain("loud")) as far:
        assert await far.result("echo", text="x") == "x"
    lines = [record.getMessage() for record in caplog.records]
    assert sum("line " in line for line in lines) <= 60
    assert any("says more than is shown here" in line for line in lines)
    assert max(map(len, lines)) < 10_000
