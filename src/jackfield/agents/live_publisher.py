"""Publishes an agent's step to its space while the model still writes it: visible calls and messages.

Above: the cycle's loop, whose events come in here. Below: `spaces/live.py` for drafts, the store for `tool.started`.
Where a call will appear depends on the calls before it in the same step, so this also knows the active space, and what
it will be once the step is on record.
"""

import asyncio
import logging
from functools import partial

import msgspec
from msgspec import Struct, field

from jackfield.agents.types import Agent
from jackfield.model.agent_state import Cycle
from jackfield.model.items import McpCall
from jackfield.model.tool import BUILTIN
from jackfield.runs import events
from jackfield.runs.step import record_id
from jackfield.runs.tools import OfferedTool, ToolTable
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.live import Live
from jackfield.spaces.partial_json import PartialJson
from jackfield.store import Store

log = logging.getLogger("jackfield.agents")


class _Draft(Struct, kw_only=True):
    """A call whose arguments are coming in."""

    tool: str
    stream_id: str | None = None
    """None: nobody sees it."""
    text: PartialJson | None = None
    """For `send_message`: what it will say."""
    sent: int = 0
    pieces: list[str] = field(default_factory=list)


class LivePublisher:
    """What one cycle shows in its spaces."""

    def __init__(
        self,
        *,
        cycle: Cycle,
        agent: Agent,
        tools: ToolTable,
        spaces: frozenset[str],
        live: Live,
        store: Store,
        space_id: str | None,
    ) -> None:
        self.space_id = space_id
        """The active space, as of the last step on record."""
        self._cycle = cycle
        self._agent = agent
        self._tools = {(tool.label, tool.bare_name): tool for tool in tools.values()}
        self._spaces = spaces
        self._live = live
        self._store = store
        self._drafts: dict[int, _Draft] = {}
        self._starts: list[asyncio.Future[bool]] = []
        self.begun: dict[str, str] = {}
        """Calls of which `tool.started` was told in this step, and where."""

    def publish(self, event: events.LoopEvent) -> None:
        """One event of the loop."""
        if isinstance(event, events.RunItemAdded) and isinstance(event.item, McpCall):
            self._begin(event.index, event.item)
        elif isinstance(event, events.ArgumentsDelta) and (draft := self._drafts.get(event.index)) is not None:
            self._go_on(draft, event.delta)

    def expected_space(self, tool: str, arguments: str, *, before: str | None) -> str | None:
        """Where the agent will be after this call, if it is let in. None also if it cannot be let in for all we know:
        what follows in the same step was meant for there, and must not be said where the agent was before.
        """
        if tool == "leave_space":
            return None
        if tool != "enter_space":
            return before
        wanted = _space_id(arguments)
        return wanted if wanted in self._spaces else None

    async def finish(self) -> None:
        """The model has draft: what it said is about to be on record."""
        starts, self._starts = self._starts, []
        if starts:
            await asyncio.gather(*starts)
        for draft in self._drafts.values():
            if draft.stream_id is not None:
                self._live.end(draft.stream_id)
        self._drafts.clear()

    def break_off(self) -> None:
        """The step comes to nothing: what was seen of it was not said."""
        for draft in self._drafts.values():
            if draft.stream_id is not None:
                self._live.end(draft.stream_id, failed=True)
        self._drafts.clear()

    def _begin(self, index: int, item: McpCall) -> None:
        space_id = self.space_id
        for draft in self._drafts.values():
            space_id = self.expected_space(draft.tool, "".join(draft.pieces), before=space_id)
        tool = self._tools.get((item.server_label, item.name))
        draft = self._drafts[index] = _Draft(tool=item.name if tool is None else tool.name)
        if tool is None or space_id is None:
            return
        if tool.label == BUILTIN:
            if tool.name == "send_message":
                draft.text = PartialJson()
                self._show(draft, item, space_id)
        elif tool.entry is not None and tool.entry.tool.visible:
            start = self._start(item, tool, space_id)
            shown_as = tool.entry.name
            start.add_done_callback(lambda begun: self._started(begun, index, item, space_id, tool=shown_as))
            self._starts.append(start)

    def _started(self, begun: "asyncio.Future[bool]", index: int, item: McpCall, space_id: str, *, tool: str) -> None:
        """`tool.started` is on record, so what came in meanwhile may be seen; unless the cycle is another's now."""
        draft = self._drafts.get(index)
        if begun.cancelled() or begun.exception() is not None or not begun.result() or draft is None:
            return
        self.begun[record_id(item.id)] = space_id
        self._show(draft, item, space_id, tool=tool)
        self._live.append(record_id(item.id), "".join(draft.pieces))

    def _show(self, draft: _Draft, item: McpCall, space_id: str, *, tool: str | None = None) -> None:
        """Show it from now on: a call of `tool`, or a message."""
        draft.stream_id = record_id(item.id)
        self._live.begin(
            space_id,
            draft.stream_id,
            kind="message" if tool is None else "tool",
            run_id=self._cycle.id,
            agent=self._agent.id,
            agent_name=self._agent.name,
            tool=tool,
        )

    def _start(self, item: McpCall, tool: OfferedTool, space_id: str) -> "asyncio.Future[bool]":
        assert tool.entry is not None
        showing = self._store.write(
            partial(
                space_tx.begin_showing,
                self._cycle,
                call_id=record_id(item.id),
                space_id=space_id,
                tool=tool.entry.name,
                agent_name=self._agent.name,
            )
        )
        return asyncio.ensure_future(showing)

    def _go_on(self, draft: _Draft, delta: str) -> None:
        draft.pieces.append(delta)
        if draft.stream_id is None:
            return
        if draft.text is None:
            self._live.append(draft.stream_id, delta)
            return
        draft.text.feed(delta)
        said = draft.text.value({})
        text = said.get("text") if isinstance(said, dict) else None
        if isinstance(text, str) and len(text) > draft.sent:
            self._live.append(draft.stream_id, text[draft.sent :])
            draft.sent = len(text)


def _space_id(arguments: str) -> str | None:
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    wanted = given.get("spaceId") if isinstance(given, dict) else None
    return wanted if isinstance(wanted, str) else None
