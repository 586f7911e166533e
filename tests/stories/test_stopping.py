"""A gateway that is asked to stop in the middle of runs: what they begin then is begun by the next one, not refused."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, start_gateway
from tests.requirement import requirement
from tests.waiting import eventually

CONFIG = """\
[programs]
enabled = true

[sources.local]
kind = "files"
path = "tools/*.py"

[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.ada]
model = "mind"
spaces = ["home"]
"""
SCRIPT = """
[[turns]]
when = { user = "task" }
wait = 1.0
calls = [{ tool = "note", arguments = { who = "agent" } }, { tool = "enter_space", arguments = { spaceId = "home" } },
         { tool = "send_message", arguments = { text = "done" } }]
[[turns]]
when = { user = "job" }
wait = 1.0
calls = [{ tool = "note", arguments = { who = "response" } }]
[otherwise]
say = "Over."
"""
TOOLS = '''\
import asyncio
from pathlib import Path


async def hold() -> str:
    """Keep the gateway from ending while runs go on."""
    await asyncio.sleep(2.5)
    return "held"


async def note(who: str) -> str:
    """Write down who called."""
    with Path("notes").open("a") as file:
        file.write(who + "\\n")
    return who
'''
PROGRAM = """\
await asyncio.sleep(1.0)
return await tools.note(who="program")
"""


@requirement("CON-stop-leaves-runs")
@pytest.mark.timeout(120)
def test_runs_that_are_under_way_when_a_gateway_is_stopped_go_on_at_the_next_start_and_are_refused_nothing(
    tmp_path: Path,
) -> None:
    files = {"mind.toml": SCRIPT, "tools/tools.py": TOOLS}
    gateway = start_gateway(tmp_path, CONFIG, files=files)
    try:
        _ask(gateway, "/api/v1/tools/note/execute", {"arguments": {"who": "nobody"}})
        held = threading.Thread(target=_ask, args=(gateway, "/api/v1/tools/hold/execute", {}))
        held.start()
        _ask(gateway, "/api/spaces/home/messages", {"entityId": "eve", "content": "task"})
        asked = {"model": "mind", "input": "job", "background": True, "tools": [{"type": "jackfield:catalog"}]}
        response_id = _ask(gateway, "/v1/responses", asked)["id"]
        running = threading.Thread(target=_program, args=(gateway,))
        running.start()
        eventually(lambda: _count(tmp_path, "SELECT count(*) FROM runs WHERE status = 'open'") == 3)
        assert gateway.stop() == 0
        held.join()
        running.join()
        assert _count(tmp_path, "SELECT count(*) FROM runs WHERE finished_at IS NOT NULL") == 0

        gateway = start_gateway(tmp_path)
        eventually(lambda: _count(tmp_path, "SELECT count(*) FROM runs WHERE finished_at IS NULL") == 0, within=30)
        found = httpx2.get(f"{gateway.url}/v1/responses/{response_id}", headers=gateway.headers).json()
        assert found["status"] == "completed"
        notes = (tmp_path / "notes").read_text(encoding="utf-8").split()
        assert sorted(notes) == ["agent", "nobody", "program", "response"]
        refused = "SELECT count(*) FROM calls WHERE status <> 'completed'"
        assert _count(tmp_path, refused) == 0
        assert _count(tmp_path, "SELECT count(*) FROM space_messages WHERE content = 'done'") == 1
    finally:
        gateway.kill()


def _ask(gateway: RunningGateway, path: str, body: dict[str, Any]) -> Any:
    answer = httpx2.post(f"{gateway.url}{path}", headers=gateway.headers, json=body, timeout=30)
    assert answer.is_success, answer.text
    return answer.json()


def _program(gateway: RunningGateway) -> None:
    """Its caller is answered when the gateway stops, or is cut off; the program goes on in any case."""
    _ask(gateway, "/api/v1/tools/run_program/execute", {"arguments": {"code": PROGRAM}})


def _count(folder: Path, query: str) -> int:
    with closing(sqlite3.connect(folder / ".jackfield" / "jackfield.db", timeout=30)) as file:
        return int(file.execute(query).fetchone()[0])
