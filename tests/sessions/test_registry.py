"""Sessions of a gateway in this process: what an agent sees, what a session's key may, and how sessions end."""

import asyncio
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jackfield.calls.requests import CallRequest
from jackfield.errors import Forbidden, ToolNotFound, Unavailable
from jackfield.gateway.gateway import Gateway
from jackfield.llm.scripted import ScriptedModel
from jackfield.model.principal import Principal
from jackfield.sessions.caller_tools import CallerDeclaration, CallerTool
from jackfield.sessions.program import Pace
from jackfield.sessions.session import AgentSession, SessionEvent, SessionStatus
from jackfield.settings import load_settings
from tests.waiting import TIMEOUT

CONFIG = f"""
[models.demo]
provider = "scripted"
script = "script.toml"

[agents.helper]
tools = ["co*", "ant_taken"]

[sessions.sleeper]
command = ["{sys.executable}", "-c", "import time; time.sleep(600)"]
sandbox = {{ kind = "none" }}
timeout = 0.2

[sessions.idler]
command = ["{sys.executable}", "-c", "import time; time.sleep(600)"]
sandbox = {{ kind = "none" }}
idle_timeout = 0.2

[sessions.absent]
command = ["no-such-program-anywhere"]
sandbox = {{ kind = "none" }}
"""
TOOL = """
[[tools]]
name = "{name}"
description = "One."
executionType = "internal"
inputSchema = {{ type = "object" }}
"""
OWNER = Principal(name="ant", scopes=frozenset({"call"}))
LENT = CallerDeclaration(caller_id="ant", tools=(CallerTool(name="say"), CallerTool(name="taken")))
WITHIN = TIMEOUT


@asynccontextmanager
async def a_gateway(folder: Path, *, data: Path | None = None) -> AsyncIterator[Gateway]:
    names = ("confirm", "convince", "other", "ant_taken")
    write(folder / "jackfield.toml", CONFIG + "".join(TOOL.format(name=name) for name in names))
    write(folder / "script.toml", '[otherwise]\nsay = "yes"\n')
    environment = {"JACKFIELD_DATA": str(data or folder / "d")}
    settings = load_settings(folder, environment=environment, overrides={"store": "memory:"})
    async with Gateway(settings) as gateway:
        yield gateway


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


async def until_over(session: AgentSession) -> SessionStatus:
    async with asyncio.timeout(WITHIN):
        async for _ in session.events.follow(-1):
            pass
    return session.status


async def asked(gateway: Gateway, session: AgentSession) -> list[str]:
    """The tools that its model was shown."""
    await gateway.sessions.message(session, "hello", declared=CallerDeclaration(), principal=session.owner)
    async with asyncio.timeout(WITHIN):
        async for event in session.events.follow(-1):
            if event.type == "completion":
                break
    model = await gateway.models.get("demo")
    assert isinstance(model, ScriptedModel)
    return sorted(tool.name for tool in model.requests[-1].tools)


async def test_an_agent_sees_what_its_config_names_and_its_caller_may_see_and_caller_tools(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as gateway:
        session = await gateway.sessions.open(OWNER, agent="helper", declared=LENT)
        both = ["ant_say", "ant_taken", "caller_ant_taken"]
        assert await asked(gateway, session) == sorted(["confirm", "convince", *both])
        limited = Principal(name="bee", scopes=frozenset({"call"}), tools=("confirm",))
        session = await gateway.sessions.open(limited, agent="helper", declared=LENT)
        assert await asked(gateway, session) == ["ant_say", "ant_taken", "confirm"]


async def test_a_sessions_key_finds_no_tool_of_the_catalog_and_no_other_key_finds_a_caller_tool(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as gateway:
        session = await gateway.sessions.open(OWNER, agent="helper", declared=LENT)
        confirm = gateway.catalog.view(OWNER).get("confirm")
        with pytest.raises(ToolNotFound):
            await gateway.pipeline.call(CallRequest(tool="confirm", arguments={}, principal=session.principal))
        handed_over = CallRequest(tool="confirm", arguments={}, principal=session.principal, entry=confirm)
        with pytest.raises(Forbidden):
            await gateway.pipeline.call(handed_over)
        with pytest.raises(ToolNotFound):
            await gateway.pipeline.call(CallRequest(tool="ant_say", arguments={}, principal=OWNER))
        assert gateway.keyring.find(session.token) == session.principal
        assert gateway.keyring.named(session.principal.name) is None, "no login can be made of it"
        await gateway.sessions.end(session)
        assert gateway.keyring.find(session.token) is None
        assert gateway.catalog.view(session.principal).entries == ()


@pytest.mark.parametrize(
    ("agent", "why"), [("sleeper", "The session lasted 0.2 s"), ("idler", "Nobody said anything for 0.2 s")]
)
async def test_a_session_ends_when_it_lasted_too_long_or_nobody_says_anything(
    tmp_path: Path, agent: str, why: str
) -> None:
    async with a_gateway(tmp_path) as gateway:
        session = await gateway.sessions.open(OWNER, agent=agent, declared=CallerDeclaration())
        assert await until_over(session) is SessionStatus.TIMED_OUT
        assert why in (session.error or "")
        assert [event.status for event in session.events.since(-1) if event.type == "status"] == [
            "running",
            "timed_out",
        ]


@pytest.fixture
def near() -> Iterator[Path]:
    """A folder whose path leaves room for that of a socket."""
    with TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.parametrize("length", range(94, 100))
async def test_a_session_has_its_socket_however_long_the_path_of_the_data_folder_is(
    tmp_path: Path, near: Path, length: int
) -> None:
    data = near / ("d" * (length - len(str(near)) - len("/sessions/ses_") - 27))
    async with a_gateway(tmp_path, data=data) as gateway:
        session = await gateway.sessions.open(OWNER, agent="helper", declared=CallerDeclaration())
        assert session.socket is not None
        assert session.socket.is_socket()


async def test_a_program_that_cannot_be_started_opens_no_session(tmp_path: Path, near: Path) -> None:
    async with a_gateway(tmp_path, data=near) as gateway:
        with pytest.raises(Unavailable, match="no-such-program-anywhere"):
            await gateway.sessions.open(OWNER, agent="absent", declared=CallerDeclaration())
        assert left_in(near / "sessions") == []


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_what_a_killed_gateway_left_is_removed_and_what_another_listens_to_stays(
    tmp_path: Path, near: Path
) -> None:
    folder = near / "sessions"
    with listening(folder / "ses_dead", closed=True), listening(folder / "ses_other", closed=False):
        async with a_gateway(tmp_path, data=near) as gateway:
            session = await gateway.sessions.open(OWNER, agent="helper", declared=LENT)
            assert left_in(folder) == sorted([session.id, "ses_other"])
        assert left_in(folder) == ["ses_other"]


def listening(folder: Path, *, closed: bool) -> socket.socket:
    folder.mkdir(parents=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "relay.sock"))
    if closed:
        listener.close()
    else:
        listener.listen()
    return listener


async def test_a_data_folder_too_deep_for_a_socket_is_no_hindrance(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, data=tmp_path / ("deep" * 30)) as gateway:
        session = await gateway.sessions.open(OWNER, agent="helper", declared=LENT)
        assert session.socket is not None
        assert len(str(session.socket)) < 100
        assert mode_of(session.socket.parent) == 0o700
        folder = session.socket.parent
    assert mode_of(folder) is None


def mode_of(path: Path) -> int | None:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


async def test_sessions_that_are_opened_at_once_leave_each_other_their_sockets(tmp_path: Path, near: Path) -> None:
    async with a_gateway(tmp_path, data=near) as gateway:
        opening = (gateway.sessions.open(OWNER, agent="helper", declared=LENT) for _ in range(90))
        async with asyncio.timeout(WITHIN):
            sessions = await asyncio.gather(*opening)
        assert all(session.socket is not None and session.socket.exists() for session in sessions)


NESTING = """
async def confide(ctx) -> str:
    \"\"\"Call another tool for the same caller.\"\"\"
    return await ctx.call_tool("secret")


def secret() -> str:
    \"\"\"Not for everybody.\"\"\"
    return "told"
"""
NESTING_CONFIG = """
[models.demo]
provider = "scripted"
script = "script.toml"

[agents.helper]

[sources.near]
kind = "files"
path = "near.py"

[sources.near.tools.secret]
metadata = { cost_estimate = "high" }
"""
NESTING_SCRIPT = """
[[turns]]
when = { user = "go" }
calls = [{ tool = "confide" }]

[[turns]]
when = { result = "confide" }
say = "{result}"
"""


@pytest.mark.parametrize(
    ("key", "came_to", "said"),
    [
        ({}, "text", "told"),
        ({"tools": ("confide", "secret")}, "text", "told"),
        ({"tools": ("confide",)}, "error", "There is no tool 'secret'"),
        ({"budget": 24}, "error", "budget"),
    ],
)
async def test_an_agent_may_do_for_its_caller_what_the_callers_key_may(
    tmp_path: Path, key: dict[str, Any], came_to: str, said: str
) -> None:
    write(tmp_path / "jackfield.toml", NESTING_CONFIG)
    write(tmp_path / "near.py", NESTING)
    write(tmp_path / "script.toml", NESTING_SCRIPT)
    owner = Principal(name="ant", scopes=frozenset({"call"}), **key)
    settings = load_settings(tmp_path, environment={"JACKFIELD_DATA": str(tmp_path / "d")})
    async with Gateway(settings) as gateway, asyncio.timeout(WITHIN):
        session = await gateway.sessions.open(owner, agent="helper", declared=LENT)
        await gateway.sessions.message(session, "go", declared=CallerDeclaration(), principal=owner)
        told = [event async for event in _until_done(session)]
    [result] = [event for event in told if event.type == "tool_result"]
    assert said in str(getattr(result, came_to))


async def _until_done(session: AgentSession) -> AsyncIterator[SessionEvent]:
    async for event in session.events.follow(-1):
        yield event
        if event.type in ("completion", "error"):
            return


async def test_lines_that_never_end_take_so_much_memory_and_no_more(tmp_path: Path, near: Path) -> None:
    """Each is within what a line may have; together they are more than a session may."""
    piece = b"x" * 1_000_000
    async with a_gateway(tmp_path, data=near) as gateway, asyncio.timeout(WITHIN):
        session = await gateway.sessions.open(OWNER, agent="helper", declared=LENT)
        lines = [await asyncio.open_unix_connection(session.socket) for _ in range(3)]
        for _, writer in lines[:2]:
            await _send(writer, piece, times=30)
        with pytest.raises(ConnectionError):  # the one that goes too far is hung up on
            await _send(lines[2][1], piece, times=30)
        lines[0][1].write(b"\n")
        await lines[0][0].readline()
        assert b"-32700" in await lines[0][0].readline(), "the others are served"
        for _, writer in lines:
            writer.close()


async def _send(writer: asyncio.StreamWriter, piece: bytes, *, times: int) -> None:
    for _ in range(times):
        writer.write(piece)
        await writer.drain()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_program_that_prints_without_end_holds_up_nobody_else(tmp_path: Path, stream: str) -> None:
    """Every line is an event, or one of the log's: there are so many a second, and the gateway goes on meanwhile."""
    write(tmp_path / "jackfield.toml", FLOOD.format(python=sys.executable, stream=stream))
    settings = load_settings(tmp_path, environment={"JACKFIELD_DATA": str(tmp_path / "d")})
    async with Gateway(settings) as gateway:
        session = await gateway.sessions.open(OWNER, agent="flood", declared=CallerDeclaration())
        turns, end = 0, time.monotonic() + 1
        while time.monotonic() < end:
            await asyncio.sleep(0)
            turns += 1
        said = session.events.last_index
        await gateway.sessions.end(session)
    assert turns > 10
    assert said < 5_000
    assert said > 500 or stream == "stderr"


FLOOD = """
[sessions.flood]
command = ["{python}", "-c", "import os, sys\\nwhile True: os.write(sys.{stream}.fileno(), b'y\\\\n' * 32768)"]
sandbox = {{ kind = "none" }}
"""


def test_who_is_faster_than_its_pace_has_to_wait() -> None:
    now = 0.0
    pace = Pace(10, clock=lambda: now)
    assert [pace.take() for _ in range(20)] == [0.0] * 20
    assert pace.take() == pytest.approx(0.1)
    now = 0.1
    assert pace.take() == pytest.approx(0.1)
    now = 100.0
    assert [pace.take() for _ in range(20)] == [0.0] * 20
