"""From the agent to the caller that lent it a tool and back: beside the bare socket that the agent speaks over."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.budget import Bench
from bench.figures import MICROSECONDS, Bar, Figure, Line, Sample, percentile, take_turns
from bench.inprocess import runner
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import done
from jackfield.sessions.caller_tools import CallerDeclaration, CallerTool
from jackfield.sessions.session import CALLER_TOOL_REQUEST, AgentSession
from jackfield.settings import load_settings

TURNS = 300
WITHIN_US = 2_000.0
"""The bar of every inline wake-up, without the disk, which takes its own time twice on the way."""
SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
CONFIG = '[models.demo]\nprovider = "scripted"\nscript = "script.toml"\n\n[agents.helper]\n'
REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "caller_tool",
    "params": {"tool": "say", "arguments": {"message": "hi"}},
}


def measure(bench: Bench) -> list[Line]:
    """Microseconds of one round trip, the p50 of a round: validated, on record before it is asked, answered durably."""
    with runner() as loop:
        lines = []
        for store, name in (("memory:", "in memory"), (f"sqlite:///{bench.folder}/relay.db", "SQLite")):
            ours, reference = take_turns(
                bench.budget.rounds,
                lambda store=store: loop.run(_relayed(bench.folder, store)),  # type: ignore[misc]
                lambda: loop.run(_bare(bench.folder)),
            )
            lines.append(
                Line(
                    says=f"caller tool, agent → caller → agent, p50, {name}",
                    ours=Figure(unit=MICROSECONDS, samples=ours),
                    reference=Figure(unit=MICROSECONDS, samples=reference),
                    reference_is="a line echoed over a bare unix socket, same loop",
                    note="validated; on record before the caller is asked, and before the agent is told",
                    bar=Bar(limit=WITHIN_US, of_ratio=False) if name == "in memory" else None,
                )
            )
    return lines


async def _relayed(folder: Path, store: str) -> Sample:
    async with _a_session(folder, store) as (gateway, session):
        caller = asyncio.create_task(_answer_all(gateway, session))
        assert session.socket is not None
        sample = await _round_trips(str(session.socket), skip_first=True)
        caller.cancel()
        await asyncio.wait((caller,))
        return sample


@asynccontextmanager
async def _a_session(folder: Path, store: str) -> AsyncIterator[tuple[Gateway, AgentSession]]:
    project = folder / "relay"
    project.mkdir(exist_ok=True)
    (project / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    (project / "script.toml").write_text('[otherwise]\nsay = "yes"\n', encoding="utf-8")
    settings = load_settings(project, environment={"JACKFIELD_DATA": str(folder / "d")}, overrides={"store": store})
    async with Gateway(settings) as gateway:
        declared = CallerDeclaration(caller_id="ant", tools=(CallerTool(name="say", input_schema=SCHEMA),))
        yield gateway, await gateway.sessions.open(ADMIN, agent="helper", declared=declared)


async def _answer_all(gateway: Gateway, session: AgentSession) -> None:
    with session.presence.stream():
        async for event in session.events.follow(-1):
            if event.type == CALLER_TOOL_REQUEST:
                await gateway.sessions.answer(session, str(event.request_id), done("hello"), principal=ADMIN)


async def _bare(folder: Path) -> Sample:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    path = folder / "bare.sock"
    server = await asyncio.start_unix_server(echo, path=path)
    try:
        return await _round_trips(str(path), skip_first=False)
    finally:
        server.close()
        path.unlink()


async def _round_trips(path: str, *, skip_first: bool) -> Sample:
    reader, writer = await asyncio.open_unix_connection(path)
    line, took = json.dumps(REQUEST).encode() + b"\n", []
    try:
        if skip_first:
            await reader.readline()
        for _ in range(TURNS):
            began = time.perf_counter()
            writer.write(line)
            answer = await reader.readline()
            took.append((time.perf_counter() - began) * 1e6)
            assert b"error" not in answer, answer
    finally:
        writer.close()
    return Sample(value=percentile(sorted(took), 0.5))
