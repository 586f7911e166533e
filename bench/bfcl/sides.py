"""A task twice over `POST /v1/responses`: with one call in each step of the model, and with one program in each turn.

Above: `__main__.py`. Below: a gateway that serves the back ends, the scripted model. The conversation of a task goes on
from turn to turn by `previous_response_id`. Both sides are told the same of the same functions: the plain one as tools,
the other one as Python signatures in its instructions.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from bench.bfcl.answers import ToolCall, program_of
from bench.bfcl.model import NAME, ScriptedModel, Step, Tokens
from bench.bfcl.package import Ended, Task
from bench.bfcl.tool_files import BEGIN, STATE
from bench.processes import KEY, BenchError
from jackfield.catalog.merge import named_entry
from jackfield.model.tool import Tool
from jackfield.programs.source import RUN_PROGRAM
from jackfield.programs.stubs import stub_of

CONFIG = """\
[programs]
enabled = true

[sources.bfcl]
kind = "files"
path = "tools/*.py"

[models.{name}]
provider = "openai"
base_url = "{url}"
model = "{name}"
"""
INSTRUCTIONS = "These functions can be called in programs, as `await tools.NAME(argument=value)`:\n\n"
LAST_WORDS = "That is done."
SECONDS = 120.0


class Side(Enum):
    """How the model has its calls made."""

    PLAIN = "plain calls"
    PROGRAMS = "programs"


class Turn(Struct, frozen=True, kw_only=True):
    """What one turn of a task took."""

    calls: int
    tokens: Tokens
    seconds: float
    """From the request to the response, less what the model waited."""


class Played(Struct, frozen=True, kw_only=True):
    """A task on one side."""

    turns: list[Turn]
    ended: Ended


def config(model: ScriptedModel) -> str:
    return CONFIG.format(name=NAME, url=model.url)


class Player:
    """Plays tasks at a gateway, one at a time: the back ends have one state."""

    def __init__(self, port: int, model: ScriptedModel) -> None:
        self._model = model
        self._http = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"x-api-key": KEY}, timeout=SECONDS
        )
        self._tools: dict[str, Tool] = {}

    async def aclose(self) -> None:
        await self._http.aclose()

    async def play(self, task: Task, names: Sequence[str], side: Side) -> Played:
        """The whole task. `names` are the functions that its model is shown."""
        question = task.question
        begun = {"task": task.id, "classes": question.involved_classes, "config": question.initial_config}
        await self._execute(BEGIN, begun)
        shown = await self._shown(names, side)
        turns: list[Turn] = []
        results: list[str] = []
        previous: str | None = None
        for messages, calls in zip(question.question, task.calls, strict=True):
            self._model.play(list(script(calls, side)))
            body = {"model": NAME, "input": messages, "previous_response_id": previous, **shown}
            began = time.perf_counter()
            response = await self._post("/v1/responses", body)
            seconds = time.perf_counter() - began
            if response["status"] != "completed":
                raise BenchError(f"A turn of {task.id} ended as {response['status']}: {response['error']}")
            spent = self._model.spent()
            turns.append(Turn(calls=len(calls), tokens=spent, seconds=seconds - spent.steps * self._model.wait))
            results += results_in(response["output"], len(calls), side)
            previous = response["id"]
        return Played(turns=turns, ended=Ended(results=results, state=await self._execute(STATE, {})))

    async def _shown(self, names: Sequence[str], side: Side) -> dict[str, Any]:
        """What the model is told of the functions."""
        if side is Side.PLAIN:
            return {"tools": [{"type": "jackfield:catalog", "tools": list(names)}]}
        if not self._tools:
            listed = (await self._http.get("/api/v1/tools")).json()["tools"]
            self._tools = {tool["name"]: _tool(tool) for tool in listed}
        stubs = [stub_of(named_entry(name, self._tools[name])) for name in names]
        return {
            "tools": [{"type": "jackfield:catalog", "tools": [RUN_PROGRAM]}],
            "instructions": INSTRUCTIONS + "\n\n".join(stubs),
        }

    async def _execute(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """A call of the bench itself."""
        told = await self._post(f"/api/v1/tools/{tool}/execute", {"arguments": arguments})
        if told["status"] != "completed":
            raise BenchError(f"{tool} failed: {told['error']}")
        return told["result"]

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._http.post(path, json=body)
        if answer.status_code != 200:
            raise BenchError(f"POST {path} was answered with {answer.status_code}: {answer.text}")
        told: dict[str, Any] = answer.json()
        return told


def script(calls: Sequence[ToolCall], side: Side) -> Iterator[Step]:
    """The steps of one turn. The last one is that of a model which has the results and tells the user."""
    if side is Side.PLAIN:
        yield from (Step(call=call) for call in calls)
    elif calls:
        yield Step(call=ToolCall(RUN_PROGRAM, {"code": program_of(calls)}))
    yield Step(text=LAST_WORDS)


def results_in(output: Sequence[Mapping[str, Any]], calls: int, side: Side) -> list[str]:
    """What each call of a turn came to; an error stands for its result."""
    made = [item for item in output if item["type"] == "mcp_call"]
    if any(item.get("error") for item in made):
        return [str(item.get("error") or item["output"]) for item in made]
    told = [_result_in(item["output"]) for item in made]
    if side is Side.PROGRAMS and calls > 1:
        told = told[0]
    return [as_the_executor_writes(one) for one in told]


def as_the_executor_writes(result: Any) -> str:
    """A result as a text, in the way of the package's executor."""
    return json.dumps(result) if isinstance(result, dict) else str(result)


def _result_in(output: str) -> Any:
    """An item shows a text as it is, and anything else as JSON."""
    try:
        result = msgspec.json.decode(output)
    except msgspec.DecodeError:
        return output
    return output if isinstance(result, str) else result


def _tool(listed: Mapping[str, Any]) -> Tool:
    return Tool(
        source="bfcl", name=listed["name"], description=listed["description"], input_schema=listed["parameters"]
    )
