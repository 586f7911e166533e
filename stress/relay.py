"""Fifty requests of one agent at once, answered in any order, round after round: each gets its own answer, once.

The agent speaks over the session's socket; its caller hears over the ring and answers as the doors do. In every round
some requests are answered twice, and the second answer has to be refused.
"""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from jackfield.errors import AlreadyResolved
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import done
from jackfield.sessions.caller_tools import CallerDeclaration, CallerTool
from jackfield.sessions.session import CALLER_TOOL_REQUEST, AgentSession, SessionEvent
from jackfield.settings import load_settings
from stress.report import Report, progress_of

AT_ONCE = 50
TWICE = 5
"""Of a round's requests, how many are answered a second time."""
ROUND_SECONDS = 60.0
CONFIG = '[models.demo]\nprovider = "scripted"\nscript = "script.toml"\n\n[agents.helper]\n'


async def answer_in_any_order(url: str, folder: Path, *, seed: int, gateways: int, rounds: int) -> Report:
    """All rounds on one session of one gateway; sessions live in the gateway that opened them."""
    assert gateways == 1
    report, chance = Report(part="relay", seed=seed), random.Random(seed)
    (folder / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    (folder / "script.toml").write_text('[otherwise]\nsay = "yes"\n', encoding="utf-8")
    settings = load_settings(folder, environment={"JACKFIELD_DATA": str(folder / "d")}, overrides={"store": url})
    progress = progress_of(report, rounds)
    async with Gateway(settings) as gateway:
        declared = CallerDeclaration(caller_id="ant", tools=(CallerTool(name="echo"),))
        session = await gateway.sessions.open(ADMIN, agent="helper", declared=declared)
        with session.presence.stream():
            reader, writer = await asyncio.open_unix_connection(str(session.socket), limit=2**20)
            await reader.readline()
            for number in range(rounds):
                async with asyncio.timeout(ROUND_SECONDS):
                    await _round(gateway, session, reader, writer, number=number, chance=chance, report=report)
                progress(number + 1)
            writer.close()
        report.expect(not session.requests, f"{len(session.requests)} requests are still open")
    return report


async def _round(
    gateway: Gateway,
    session: AgentSession,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    number: int,
    chance: random.Random,
    report: Report,
) -> None:
    after = session.events.last_index
    for place in range(AT_ONCE):
        params = {"tool": "echo", "arguments": {"own": f"{number}-{place}"}}
        request = {"jsonrpc": "2.0", "id": place, "method": "caller_tool", "params": params}
        writer.write(json.dumps(request).encode() + b"\n")
    requests = await _requests(session, after)
    chance.shuffle(requests)
    await asyncio.gather(*(_answer(gateway, session, event, report) for event in requests))
    told = [json.loads(await reader.readline()) for _ in range(AT_ONCE)]
    own = {one["id"]: one.get("result") for one in told}
    for place in range(AT_ONCE):
        right = own.get(place) == {"own": f"{number}-{place}"}
        report.expect(right, f"round {number}: request {place} got {own.get(place)!r}")
    report.seen["answers"] += len(told)
    for event in requests[:TWICE]:
        await _answer_again(gateway, session, event, report)


async def _requests(session: AgentSession, after: int) -> list[SessionEvent]:
    found: list[SessionEvent] = []
    async for event in session.events.follow(after):
        if event.type == CALLER_TOOL_REQUEST:
            found.append(event)
        if len(found) == AT_ONCE:
            return found
    raise AssertionError("the session ended")


async def _answer(gateway: Gateway, session: AgentSession, event: SessionEvent, report: Report) -> None:
    arguments: Any = json.loads(bytes(event.arguments))  # type: ignore[arg-type]
    call = await gateway.sessions.answer(session, str(event.request_id), done(arguments), principal=ADMIN)
    report.expect(call.status.value == "completed", f"{call.id} is {call.status.value}")


async def _answer_again(gateway: Gateway, session: AgentSession, event: SessionEvent, report: Report) -> None:
    try:
        await gateway.sessions.answer(session, str(event.request_id), done("again"), principal=ADMIN)
    except AlreadyResolved:
        report.seen["second answers refused"] += 1
    else:
        report.expect(False, f"a second answer to {event.request_id} was taken")  # noqa: FBT003 - it must not come here
