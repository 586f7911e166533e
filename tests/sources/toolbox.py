"""A config folder with tool files and a files source over it, with surroundings that write down what they are asked."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec

from jackfield.model.call import Done, Failed, Outcome, done
from jackfield.model.items import Item, Message, text_of
from jackfield.model.tool import Tool
from jackfield.sources.base import Invocation, Listing, Progress, Source, SourceContext
from jackfield.sources.files import files_source
from jackfield.workers.host import WorkerHost
from tests.waiting import TIMEOUT

BOUND = TIMEOUT
"""Seconds that a test waits for what must happen, before it fails."""


class Toolbox:
    """`write` files, `open` the source, `call` its tools."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.changes = asyncio.Event()
        self.progress: list[Progress] = []
        self.secrets = {"WEATHER_KEY": "sunny-side-up", "OTHER_KEY": "not-for-you"}
        self._numbers = itertools.count(1)
        self.held: list[float] = []
        """For how long at most a call asked its deadline to stand still, each time that one did."""
        self.asked_to_call: list[tuple[str, dict[str, Any], Invocation]] = []
        self.asked_within: list[tuple[str, ...] | None] = []
        """Which tools each of these might call."""
        self.answer: Callable[[dict[str, Any]], Outcome] = done
        self.worker_host = WorkerHost(folder / ".jackfield" / "workers", redact=lambda text: text)
        source_context = SourceContext(
            folder=folder,
            data=folder / ".jackfield",
            changed=self._changed,
            secret=self.secrets.get,
            config=lambda: {"scenario": {"name": "test"}},
            registry=lambda: [{"name": "hello"}],
            call_tool=self._call_tool,
            ask_model=self._ask_model,
            outgoing=None,
            worker_host=self.worker_host,
        )
        self.source: Source = files_source("local", {"path": "tools/*.py", **options}, source_context)
        self.listing = Listing()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / "tools" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    async def refresh(self) -> Listing:
        self.listing = await self.source.refresh()
        return self.listing

    @property
    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self.listing.tools}

    def invocation(self, tool: str, **arguments: Any) -> Invocation:
        return Invocation(
            call_id=f"call_{next(self._numbers)}",
            run_id="run_1",
            tool=self.tools[tool],
            arguments=arguments,
            principal="ops",
            agent="ada",
            timeout_ms=1000,
            report=self.progress.append,
            hold=self._hold,
        )

    async def outcome(self, tool: str, **arguments: Any) -> Outcome:
        async with asyncio.timeout(BOUND):
            outcome = await self.source.execute(self.invocation(tool, **arguments))
        assert isinstance(outcome, Outcome)
        return outcome

    async def call(self, tool: str, **arguments: Any) -> Any:
        outcome = await self.outcome(tool, **arguments)
        assert isinstance(outcome, Done), outcome
        return msgspec.json.decode(outcome.result)

    async def failure(self, tool: str, **arguments: Any) -> Failed:
        outcome = await self.outcome(tool, **arguments)
        assert isinstance(outcome, Failed), outcome
        return outcome

    def _changed(self, name: str) -> None:
        assert name == "local"
        asyncio.get_running_loop()
        self.changes.set()

    async def _ask_model(self, items: tuple[Item, ...], **options: Any) -> str:
        (message,) = items
        assert isinstance(message, Message)
        return f"{options['model'] or 'default'} says: {text_of(message)}"

    @contextmanager
    def _hold(self, most: float) -> Iterator[None]:
        self.held.append(most)
        yield

    async def _call_tool(
        self, name: str, arguments: dict[str, Any], *, parent: Invocation, within: tuple[str, ...] | None = None
    ) -> Outcome:
        self.asked_within.append(within)
        self.asked_to_call.append((name, arguments, parent))
        return self.answer(arguments)
