"""A stage for one run: a model that plays written steps, tools that are functions of the test, and what was told."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from jackfield.llm.types import CallArguments, CallBegun, Delta, Model, ModelFailed, ModelRequest, StepEnd, TextDelta
from jackfield.model.call import Outcome, done
from jackfield.model.items import FunctionCallOutput, InputText, Item, McpCall, Message, Usage
from jackfield.runs import events
from jackfield.runs.loop import Loop
from jackfield.runs.plan import Choice, RunLimits, RunPlan
from jackfield.runs.tool_executor import ToolExecutor
from jackfield.runs.tools import OfferedTool, ToolTable
from jackfield.sources.base import Invocation
from tests.calls.harness import OPS, FunctionSource, Harness, pipeline_harness

Step = Sequence[Delta] | ModelFailed
USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


def says(*texts: str) -> list[Delta]:
    return [*map(TextDelta, texts), StepEnd("stop", USAGE)]


def calls(*made: tuple[str, dict[str, Any] | str], first: str = "") -> list[Delta]:
    """The model calls tools, all arguments in two pieces each, interleaved."""
    deltas: list[Delta] = [TextDelta(first)] if first else []
    texts = [
        arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode() for _, arguments in made
    ]
    deltas += [CallBegun(index, f"c{index}", name) for index, (name, _) in enumerate(made)]
    deltas += [CallArguments(index, text[:3]) for index, text in enumerate(texts)]
    deltas += [CallArguments(index, text[3:]) for index, text in enumerate(texts)]
    return [*deltas, StepEnd("tool_calls", USAGE)]


class PlayedModel:
    """Plays its steps one after the other and keeps what it was asked."""

    name = "played"

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.asked: list[ModelRequest] = []
        self.closed_early = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.asked.append(request)
        step = self._steps.pop(0)
        if isinstance(step, ModelFailed):
            raise step
        ended = False
        try:
            for delta in step:
                await asyncio.sleep(0)
                yield delta
            ended = True
        finally:
            self.closed_early += not ended

    async def close(self) -> None:
        return

    def outputs(self, step: int) -> list[str]:
        """What the model read as outputs of its calls when it was asked for this step."""
        return [str(item.output) for item in self.asked[step].items if isinstance(item, FunctionCallOutput)]


class Stage:
    """`tool` offers one that the gateway runs, `client_tool` one that the client does; `run` plays."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.told: list[events.LoopEvent] = []
        self.tools: list[OfferedTool] = []
        self.started: list[str] = []
        self.ended: events.Ended | None = None

    async def tool(self, name: str, body: Any = None, **fields: Any) -> None:
        async def echo(invocation: Invocation) -> Outcome:
            self.started.append(name)
            if body is not None:
                return await body(invocation)  # type: ignore[no-any-return]
            return done(invocation.arguments)

        asks_first = fields.pop("asks_first", False)
        self.harness.source.offer(name, echo, **fields)
        await self.harness.source_registry.refresh()
        self.harness.catalog.update(self.harness.source_registry.listings())
        entry = self.harness.catalog.view(OPS).get(name)
        self.tools.append(OfferedTool(name=name, entry=entry, label="jackfield", bare_name=name, asks_first=asks_first))

    def client_tool(self, name: str) -> None:
        self.tools.append(OfferedTool(name=name, parameters={"type": "object"}))

    async def run(self, model: Model, **fields: Any) -> events.Ended:
        limits = RunLimits(**{key: fields.pop(key) for key in list(fields) if key in RunLimits.__struct_fields__})
        plan = RunPlan(
            run_id="resp_1",
            model=model,
            template=ModelRequest(items=(), instructions="Be brief."),
            items=(Message(role="user", content=(InputText(text="Go."),)),),
            tools=fields.pop("table", None) or ToolTable(self.tools),
            choice=fields.pop("choice", Choice()),
            limits=limits,
            principal=OPS,
            **fields,
        )
        executor = ToolExecutor(plan, pipeline=self.harness.pipeline, store=self.harness.store, emit=self.told.append)
        ended = await Loop(plan, executor=executor, emit=self.told.append).run()
        assert isinstance(ended, events.Ended)
        self.ended = ended
        return ended

    @property
    def output(self) -> list[Item]:
        """The items as they stay, in their places."""
        done = {event.index: event.item for event in self.told if isinstance(event, events.RunItemDone)}
        assert sorted(done) == list(range(len(done)))
        return [done[index] for index in sorted(done)]

    @property
    def mcp_calls(self) -> list[McpCall]:
        return [item for item in self.output if isinstance(item, McpCall)]


@asynccontextmanager
async def a_stage(folder: Path) -> AsyncIterator[Stage]:
    async with pipeline_harness(FunctionSource(), folder) as harness:
        yield Stage(harness)
