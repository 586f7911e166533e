"""A gateway on a real port whose model plays a script, and the official SDK as its client.

async with live(tmp_path, SCRIPT) as here:
    response = await here.openai.responses.create(model="mind", input="pay", background=True, tools=[CATALOG])
    await here.approve(await here.waiting(response.id))
    await here.ended(response.id)
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI

from jackfield.gateway.gateway import Gateway
from jackfield.llm.scripted import ScriptedModel
from jackfield.responses.storage import events_after
from jackfield.settings import load_settings
from tests.harness.in_process import KEY, serve_on_port
from tests.responses.conformity import check_resource, check_stream
from tests.responses.scene import events_of
from tests.store.cycles import run
from tests.waiting import TIMEOUT, eventually_async

Json = dict[str, Any]
CATALOG: Any = {"type": "mcp", "server_label": "jackfield"}
CONFIG = """\
[models.mind]
provider = "scripted"
script = "mind.toml"

[auth.keys.caller]
key = "caller-key"
scopes = ["call", "answer"]

[sources.local]
kind = "files"
path = "tools/*.py"
tools.pay.metadata = { requires_approval = true }
tools.look.metadata = { idempotent = true }
"""
TOOLS = """\
import asyncio
from pathlib import Path

HERE = Path(__file__).parent.parent
__all__ = ["pay", "look", "hold"]


async def hold(n: int) -> str:
    while not (HERE / f"go-{n}").exists():
        await asyncio.sleep(0.01)
    return "went on"


def pay(amount: int) -> str:
    with (HERE / "starts").open("a") as file:
        file.write(f"pay-{amount}\\n")
    return f"paid {amount}"


def look(n: int) -> int:
    with (HERE / "starts").open("a") as file:
        file.write(f"look-{n}\\n")
    return n
"""
ASK = {
    "name": "ask_ann",
    "description": "Ask Ann.",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "executionType": "external",
}


@dataclass(frozen=True, kw_only=True)
class Live:
    """One gateway, its model and its clients."""

    gateway: Gateway
    model: ScriptedModel
    openai: Any
    """With a caller's key. Untyped, since the SDK knows no server labels without urls."""
    client: httpx2.AsyncClient
    """The administrator's."""
    folder: Path

    async def create(self, text: Any, **more: Any) -> Any:
        return await self.openai.responses.create(
            **{"model": "mind", "input": text, "background": True, "tools": [CATALOG]} | more
        )

    async def get(self, response_id: str) -> Json:
        found: Json = (await self.client.get(f"/v1/responses/{response_id}")).json()
        check_resource(found, with_tools=True)
        return found

    async def stream(self, response_id: str, after: int = -1) -> list[Json]:
        """Its stream, to the end."""
        path = f"/v1/responses/{response_id}?stream=true&starting_after={after}"
        return events_of((await self.client.get(path)).text)

    async def told(self, response_id: str) -> list[Json]:
        """Its stream so far."""
        return [json.loads(frame.data) async for frame in events_after(self.gateway.store, response_id, -1)]

    async def resume(self, response_id: str, *, status: int = 200) -> None:
        answer = await self.client.post(f"/api/runs/{response_id}/resume")
        assert answer.status_code == status, answer.text

    async def calls(self, response_id: str, **wanted: str) -> list[Json]:
        answer = await self.client.get("/api/v1/calls", params={"run_id": response_id, **wanted})
        calls: list[Json] = answer.json()["calls"]
        return calls

    async def parked(self, response_id: str) -> list[Json]:
        """The calls that a response waits for, when nobody has it in hand any more."""

        async def found() -> list[Json] | None:
            rows = await self.rows(f"SELECT status FROM runs WHERE id = '{response_id}'")
            return [] if [row["status"] for row in rows] != ["parked"] else await self.waiting(response_id)

        return await eventually_async(found)

    async def waiting(self, response_id: str) -> list[Json]:
        return [call for call in await self.calls(response_id) if call["finished_at"] is None]

    async def rows(self, query: str) -> list[Any]:
        return list(await run(self.gateway.store, query))

    async def approve(self, call: Json) -> None:
        answer = await self.client.post(f"/api/v1/calls/{call['id']}/approve", json={})
        assert answer.status_code == 200, answer.text

    async def reject(self, call: Json) -> None:
        answer = await self.client.post(f"/api/v1/calls/{call['id']}/reject", json={"reason": "Too much."})
        assert answer.status_code == 200, answer.text

    async def answer(self, call: Json, result: Any) -> None:
        body = {"callId": call["id"], "result": result}
        answer = await self.client.post(f"/api/runs/{call['run_id']}/tool-results", json=body)
        assert answer.status_code == 200, answer.text

    async def ended(self, response_id: str, status: str = "completed") -> Json:
        """The response at its end; that its stream is whole and says the same is checked."""

        async def found() -> Json | None:
            response = await self.get(response_id)
            return None if response["status"] in ("queued", "in_progress") else response

        response = await eventually_async(found)
        assert response["status"] == status, response
        stream = await self.stream(response_id)
        check_stream(stream, with_tools=True)
        assert stream[-1]["response"] == response
        return response

    @property
    def starts(self) -> list[str]:
        """Which tools were run, in their order."""
        path = self.folder / "starts"
        return path.read_text().split() if path.exists() else []


@asynccontextmanager
async def live(folder: Path, script: str, config: str = "", *, store: str = "memory:") -> AsyncIterator[Live]:
    (folder / "tools").mkdir(exist_ok=True)
    for name, text in (("mind.toml", script), ("jackfield.toml", CONFIG + config), ("tools/t.py", TOOLS)):
        (folder / name).write_text(text, encoding="utf-8")
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}
    async with Gateway(load_settings(folder / "jackfield.toml", environment=environment)) as gateway:
        model = await gateway.models.get("mind")
        assert isinstance(model, ScriptedModel)
        async with (
            serve_on_port(gateway) as url,
            AsyncOpenAI(base_url=f"{url}/v1", api_key="caller-key", max_retries=0) as openai,
            httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=TIMEOUT, verify=False) as client,
        ):
            yield Live(gateway=gateway, model=model, openai=openai, client=client, folder=folder)


def texts(response: Json) -> list[str]:
    """What the model said."""
    return [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]


def kinds(response: Json) -> list[str]:
    return [item["type"] for item in response["output"]]
