"""Tools that are Python objects: seed 001's registry, and a source that offers what is in one.

Above: the source registry, or a package that brings tools of its own. Below: nothing.

To bring tools from another package, write the tool, a factory, and an entry point:

    class WordCount:
        def definition(self) -> Tool:
            return Tool(
                source="words",                     # the source puts its own name here
                name="word_count",
                description="Count the words of a text.",
                input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            )

        async def initialise(self) -> None: ...     # build an index, open a connection
        async def execute(self, invocation: Invocation) -> Outcome:
            return done(len(invocation.arguments["text"].split()))
        async def shutdown(self) -> None: ...       # give back what initialise took

    def make(name: str, options: dict[str, Any], context: SourceContext) -> Source:
        registry = Registry()
        registry.register(WordCount(), owner=name)
        return RegistrySource(name, registry)

    # pyproject.toml of that package            # jackfield.toml of who uses it
    # [project.entry-points."jackfield.sources"]  [sources.words]
    # words = "my_package:make"                   kind = "words"

Arguments fit the schema when `execute` gets them. Return `done(value)`, or `Failed(code, message)` when the tool
fails; an exception is logged and becomes a `Failed` too. Cancellation means that nobody waits any more: stop.
"""

import asyncio
import logging
from typing import ClassVar, Protocol

import msgspec

from jackfield.errors import NameTaken, ToolNotFound
from jackfield.model.call import Failed, Outcome
from jackfield.model.text import nearest, with_article
from jackfield.model.tool import Tool, ToolDefinition, ToolKind, definition_of
from jackfield.sources.base import Invocation, Listing

INITIALISE_SECONDS = 30.0
SHUTDOWN_SECONDS = 10.0

_log = logging.getLogger(__name__)


class InternalTool(Protocol):
    """A tool hosted and run by the gateway (seed 001)."""

    def definition(self) -> Tool:
        """The tool as models and people see it. Its name must stay the same."""

    async def initialise(self) -> None:
        """Make ready for calls. Raises to say that it is not; tried again at the next refresh. Within 30 s."""

    async def execute(self, invocation: Invocation) -> Outcome:
        """Run one call. Only ever called after `initialise` came back."""

    async def shutdown(self) -> None:
        """Give back what `initialise` took. Only called after it came back, once, within 10 s."""


class Registry:
    """Internal tools by name, in the order they were registered."""

    def __init__(self) -> None:
        self._tools: dict[str, InternalTool] = {}
        self._owners: dict[str, str] = {}

    def register(self, tool: InternalTool, *, owner: str) -> None:
        """Add a tool; `owner` is who brings it, for the sentence when two bring the same name."""
        name = tool.definition().name
        if name in self._tools:
            raise NameTaken(
                f"Tool '{name}' is offered by both '{self._owners[name]}' and '{owner}'. "
                "Rename it in one of them, or register only one."
            )
        self._tools[name] = tool
        self._owners[name] = owner

    def get(self, name: str) -> InternalTool:
        """The tool of that name. Raises `ToolNotFound`, because a name that is not there is never a tool."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolNotFound(f"There is no tool '{name}' in this registry.{nearest(name, list(self._tools))}")
        return tool

    def list(self) -> list[ToolDefinition]:
        """The definitions of all tools, as a model is told them."""
        return [definition_of(tool.definition(), name) for name, tool in self._tools.items()]

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def owner_of(self, name: str) -> str:
        """Who registered the tool."""
        self.get(name)
        return self._owners[name]


class RegistrySource:
    """Offers a registry's tools. One that cannot be initialised is a fault in the listing and hurts no other.

    A subclass may set its own `kind`.
    """

    kind: ClassVar[str] = "registry"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(
        self,
        name: str,
        registry: Registry,
        *,
        max_concurrency: int | None = None,
        initialise_seconds: float = INITIALISE_SECONDS,
        shutdown_seconds: float = SHUTDOWN_SECONDS,
    ) -> None:
        self.name = name
        self.max_concurrency = max_concurrency
        self._registry = registry
        self._initialise_seconds = initialise_seconds
        self._shutdown_seconds = shutdown_seconds
        self._ready: dict[str, InternalTool] = {}
        self._faults: dict[str, str] = {}
        self._just_opened = False

    async def open(self) -> None:
        await self._initialise_missing()
        self._just_opened = True

    async def refresh(self) -> Listing:
        """The tools that are ready. Those that are not are tried again, but not right after `open` did."""
        if not self._just_opened:
            await self._initialise_missing()
        self._just_opened = False
        tools, faults = [], list(self._faults.values())
        for name in self._ready_names():
            try:
                definition = self._ready[name].definition()
                tools.append(msgspec.structs.replace(definition, source=self.name, name=name))
            except Exception as fault:  # noqa: BLE001 - the border to foreign code, logged
                _log.exception("The tool %s of the source %s gave no definition", name, self.name)
                faults.append(f"Tool '{name}' gave no definition: {_words(fault)}. Mend its definition().")
        return Listing(tools=tuple(tools), faults=tuple(faults))

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._ready

    async def execute(self, invocation: Invocation) -> Outcome:
        name = invocation.tool.name
        tool = self._ready.get(name)
        if tool is None:
            return Failed("source_unavailable", self._faults.get(name) or f"Tool '{name}' is not ready.")
        try:
            outcome = await tool.execute(invocation)
        except Exception as fault:  # noqa: BLE001 - the border to foreign code, logged
            told = None if invocation.tool.metadata.sensitive_output else fault  # its words are not for the log
            _log.error(
                "The tool %s of the source %s failed in call %s", name, self.name, invocation.call_id, exc_info=told
            )
            return Failed("tool_error", _words(fault))
        return outcome if isinstance(outcome, Outcome) else _no_outcome(name, outcome)

    async def close(self) -> None:
        """Shut down what was initialised, the last first, so that a tool can lean on an earlier one to the end."""
        for name in reversed(self._ready_names()):
            tool = self._ready.pop(name)
            try:
                async with asyncio.timeout(self._shutdown_seconds):
                    await tool.shutdown()
            except Exception:  # noqa: BLE001 - the border to foreign code, logged
                _log.exception("The tool %s of the source %s did not shut down cleanly", name, self.name)

    def _ready_names(self) -> list[str]:
        return [name for name in self._registry.names() if name in self._ready]

    async def _initialise_missing(self) -> None:
        """All at once, each within its bound, so that the slowest costs no more than itself."""
        async with asyncio.TaskGroup() as group:
            for name in self._registry.names():
                if name not in self._ready:
                    group.create_task(self._initialise(name))

    async def _initialise(self, name: str) -> None:
        tool = self._registry.get(name)
        try:
            async with asyncio.timeout(self._initialise_seconds):
                await tool.initialise()
        except Exception as fault:  # noqa: BLE001 - the border to foreign code, logged
            _log.exception("The tool %s of the source %s could not be initialised", name, self.name)
            late = isinstance(fault, TimeoutError) and not str(fault)
            why = f"it took longer than {self._initialise_seconds:g} s" if late else _words(fault)
            self._faults[name] = (
                f"Tool '{name}' of '{self._registry.owner_of(name)}' could not be initialised: {why}. "
                "It is tried again at the next refresh."
            )
        else:
            self._faults.pop(name, None)
            self._ready[name] = tool


def _no_outcome(name: str, value: object) -> Failed:
    what = with_article(type(value).__name__)
    message = f"Tool '{name}' returned {what}, not an outcome. Its execute() must return done(value)."
    _log.error(message)
    return Failed("tool_error", message)


def _words(fault: Exception) -> str:
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
