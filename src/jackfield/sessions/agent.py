"""An agent of the config in a session: each message is one run of its model, in one conversation.

Its tools are those of the catalog that its config names and its caller may see, and the caller's own.
Above: `registry.py`. Below: the run loop. Text deltas are batched.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec

from jackfield.agents.types import Agent
from jackfield.calls import transactions as call_tx
from jackfield.calls.permissions import may_see
from jackfield.calls.pipeline import Pipeline
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import compiled
from jackfield.errors import Refused, Unavailable
from jackfield.llm.models import Models
from jackfield.llm.types import ModelRequest
from jackfield.model.items import InputText, Item, McpCall, Message, text_of
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import BUILTIN
from jackfield.runs.conversation import items_for_model, open_calls
from jackfield.runs.events import Ended, LoopEvent, OutputTextDelta, RunItemAdded, RunItemDone
from jackfield.runs.loop import Loop
from jackfield.runs.model_steps import StepLogs, last_step
from jackfield.runs.offers import CATALOG, OfferedServer, of_catalog, table_of
from jackfield.runs.outputs import with_whole_result
from jackfield.runs.plan import RunLimits, RunPlan
from jackfield.runs.reading import reading_tools
from jackfield.runs.tool_executor import ToolExecutor
from jackfield.runs.tool_search import ToolSearch, with_search
from jackfield.runs.tools import OfferedTool, ToolTable
from jackfield.sessions.session import (
    COMPLETION,
    DELTA,
    ERROR,
    MESSAGE,
    TOOL_CALL,
    TOOL_RESULT,
    AgentSession,
    SessionStatus,
)
from jackfield.settings.types import AgentSettings
from jackfield.store import Store

log = logging.getLogger("jackfield.sessions")

STOP_SECONDS = 10.0
"""Seconds to wait for a cancelled run; its pending calls go on without the session."""

UNREAD = 100
"""Messages that may wait for an agent."""
PIECE_SECONDS = 0.1
"""Seconds for which text deltas are batched."""
CHARACTERS_OF_A_TOKEN = 4


OwnTools = Callable[[Agent], AbstractAsyncContextManager[tuple[tuple[str, Entry], ...]]]
"""The tools of an agent's own MCP servers, each with its server's name, while the block runs."""


class ConfiguredAgent:
    """One agent in one session."""

    def __init__(
        self,
        session: AgentSession,
        settings: AgentSettings,
        *,
        models: Models,
        catalog: Catalog,
        pipeline: Pipeline,
        store: Store,
        own_tools: OwnTools,
        tool_search: ToolSearch,
        step_logs: StepLogs,
    ) -> None:
        self._session = session
        self._settings = settings
        self._models = models
        self._catalog = catalog
        self._pipeline = pipeline
        self._store = store
        self._own_tools = own_tools
        self._tool_search = tool_search
        self._step_logs = step_logs
        owner = session.owner
        self._acting = Principal(
            name=owner.name,
            scopes=frozenset({Scope.CALL.value}),
            tools=owner.tools,
            groups=owner.groups,
            group=owner.group,
            budget=owner.budget,
        )
        """Acts for the caller, with its budget and tool limits."""
        self._messages: asyncio.Queue[str] = asyncio.Queue(UNREAD)
        self._said: list[Item] = []
        self._conversation_before: tuple[Item, ...] = ()
        """As its model has read it, or said it, up to the message before."""
        self._working: asyncio.Task[None] | None = None
        self._forwarder = _EventForwarder(session)

    async def start(self) -> None:
        await self._models.get(self._model_name())
        self._working = asyncio.create_task(self._work(), name=f"session {self._session.id}")

    def tell(self, message: str) -> None:
        try:
            self._messages.put_nowait(message)
        except asyncio.QueueFull:
            raise Unavailable(f"{UNREAD} messages wait for this agent already. Try again later.") from None
        self._session.move_to(SessionStatus.RUNNING)

    async def stop(self) -> None:
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait((self._working,), timeout=STOP_SECONDS)

    async def _work(self) -> None:
        while True:
            message = await self._messages.get()
            try:
                await self._run(message)
            except Refused as refusal:
                self._session.events.add(ERROR, error=refusal.message)
            except Exception:
                log.exception("a run of session %s failed", self._session.id)
                said = "Something went wrong inside the gateway. Its log has the details."
                self._session.events.add(ERROR, error=said)
            if self._messages.empty():
                self._session.move_to(SessionStatus.IDLE)

    async def _run(self, message: str) -> None:
        """One message: run the loop to its end."""
        self._said.append(Message(role="user", content=(InputText(text=message),)))
        async with self._own_tools(Agent(self._session.agent, self._settings, is_configured=True)) as own:
            ended = await self._loop(self._tools(own))
        self._forwarder.flush()
        if ended.error is not None:
            self._session.events.add(ERROR, error=ended.error.message)
        elif ended.reason is not None:
            self._session.events.add(ERROR, error=f"The agent stopped before it was done: {ended.reason}.")
        else:
            self._session.events.add(COMPLETION, text=_last_words(self._said))

    async def _loop(self, table: ToolTable) -> Ended:
        plan = RunPlan(
            run_id=self._session.id,
            model=await self._models.get(self._model_name()),
            template=ModelRequest(items=(), instructions=self._settings.instructions),
            items=await self._conversation(table),
            tools=table,
            limits=RunLimits(max_steps=self._settings.max_steps, timeout=self._settings.timeout),
            principal=self._acting,
        )
        executor = ToolExecutor(plan, pipeline=self._pipeline, store=self._store, emit=self._hear)
        with self._tool_search.over(plan):
            log_of_steps = self._step_logs.of(
                plan.run_id,
                model=plan.model.name,
                before=await self._store.read(partial(last_step, plan.run_id)),
                known=self._conversation_before,
            )
            loop = Loop(plan, executor=executor, emit=self._hear, log=log_of_steps)
            ended = await loop.run()
            assert isinstance(ended, Ended)
            self._conversation_before = loop.items
            return ended

    def _tools(self, own: Sequence[tuple[str, Entry]]) -> ToolTable:
        """Tools of the catalog and of its own servers; caller tools under names that are still free."""
        view = self._catalog.view(self._session.owner)
        # The built-in tools are about the life that an agent has outside its sessions.
        seen = [entry for entry in view.entries if entry.tool.source != BUILTIN]
        readers = reading_tools(self._catalog, self._acting, label=CATALOG, within=self._settings.tools)
        servers = [OfferedServer(label=CATALOG, entries=of_catalog(seen, self._settings.tools), readers=readers)]
        usable = [(server, entry) for server, entry in own if self._may_use(entry)]
        for label in dict.fromkeys(server for server, _ in usable):
            entries = tuple(entry for server, entry in usable if server == label)
            servers.append(OfferedServer(label=label, entries=entries, is_private=True))
        table = _of_the_agent(table_of((), servers))
        caller_tools = self._session.caller_tools
        label = caller_tools.caller_id or "caller"
        offered = [
            OfferedTool(
                name=name,
                description=entry.tool.description,
                parameters=entry.tool.input_schema,
                entry=entry,
                label=label,
                bare_name=entry.tool.name,
                is_private=True,
                is_own=True,
            )
            for name, entry in caller_tools.beside(table.keys()).items()
        ]
        return with_search(
            ToolTable([*table.values(), *offered]), above=self._settings.search_above(self._tool_search.above)
        )

    def _may_use(self, entry: Entry) -> bool:
        """Whether the caller's key lets it use a tool of the agent's own."""
        limits, tool = self._acting.tools, entry.tool
        return limits is None or compiled(limits).match(entry.name, source=tool.source, foreign=tool.name)

    async def _conversation(self, table: ToolTable) -> tuple[Item, ...]:
        """The conversation, as much as fits the agent's context."""
        self._said = _recent(self._said, characters=self._settings.context_tokens * CHARACTERS_OF_A_TOKEN)
        records = {}
        for call_id in open_calls(self._said):
            call = await self._store.read(partial(call_tx.get_call, call_id))
            if call is not None and may_see(self._acting, call):
                records[call_id] = await with_whole_result(self._store, call)
        return items_for_model(self._said, tools=table, records=records)

    def _hear(self, event: LoopEvent) -> None:
        self._session.touch()
        if isinstance(event, RunItemDone):
            self._said.append(event.item)
        self._forwarder.tell(event)

    def _model_name(self) -> str:
        names = self._models.names
        return self._settings.model or ("default" if "default" in names or not names else names[0])


def _of_the_agent(table: ToolTable) -> ToolTable:
    """The operator configured these servers, so their tools need no approval."""
    return ToolTable(msgspec.structs.replace(tool, asks_first=False, is_own=tool.is_private) for tool in table.values())


class _EventForwarder:
    """Forwards a run's events to the session; text deltas are batched."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._pieces: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, event: LoopEvent) -> None:
        match event:
            case OutputTextDelta(delta=delta):
                self._gather(delta)
            case RunItemAdded(item=McpCall(name=name)):
                self.flush()
                self._session.events.add(TOOL_CALL, tool_name=name)
            case RunItemDone(item=item):
                self.flush()
                self._done(item)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pieces:
            self._session.events.add(DELTA, role="assistant", text="".join(self._pieces))
            self._pieces.clear()

    def _gather(self, delta: str) -> None:
        self._pieces.append(delta)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PIECE_SECONDS, self.flush)

    def _done(self, item: Item) -> None:
        if isinstance(item, Message):
            self._session.events.add(MESSAGE, role="assistant", text=text_of(item))
        elif isinstance(item, McpCall):
            fields = {"text": item.output} if item.error is None else {"error": _error_text(item)}
            self._session.events.add(TOOL_RESULT, tool_name=item.name, **fields)


def _error_text(item: McpCall) -> str:
    error = item.error
    blocks = getattr(error, "content", None)
    if isinstance(blocks, list):
        return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    return str(getattr(error, "message", error))


def _last_words(said: Sequence[Item]) -> str:
    last = next((item for item in reversed(said) if isinstance(item, Message) and item.role == "assistant"), None)
    return "" if last is None else text_of(last)


def _recent(said: list[Item], *, characters: int) -> list[Item]:
    """The newest part that fits, starting at a user message."""
    size, first = 0, len(said)
    for place in range(len(said) - 1, -1, -1):
        item = said[place]
        size += len(str(item))
        if isinstance(item, Message) and item.role == "user":
            if size > characters and first < len(said):
                break
            first = place
    return said[first:]
