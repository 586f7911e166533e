"""One step of a model, as it is heard: its deltas become items of the output while they arrive.

Above: the loop. Below: the model's stream. A call of a tool that may not be called makes no item: the model is told,
and nobody else could do anything with it.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from jackfield.llm.types import (
    CallArguments,
    CallBegun,
    Delta,
    Finish,
    ReasoningDelta,
    RefusalDelta,
    StepEnd,
    TextDelta,
)
from jackfield.model.ids import new_id
from jackfield.model.items import (
    ID_PREFIX,
    ClientCall,
    FunctionCall,
    Item,
    McpCall,
    Message,
    OutputText,
    Part,
    Reasoning,
    ReasoningText,
    Refusal,
    ToolSearchCall,
    Usage,
)
from jackfield.runs import events
from jackfield.runs.tools import OfferedTool, begun_call

Admit = Callable[[str], OfferedTool | str]
"""The tool of this name if it may be called now, else why not, in words for the model."""

MOST_CALLS = 128
"""Calls of one step; a model that asks for more has lost its way, or was led off it."""
TOO_MANY = f"Tool '{{name}}' was not called: one step has {MOST_CALLS} calls at most. Call it again if it is needed."

_TOLD_AS: dict[str, Callable[[int, str], events.LoopEvent]] = {
    "text": events.OutputTextDelta,
    "refusal": events.OutputRefusalDelta,
    "reasoning": events.OutputReasoningDelta,
}


class ToolCallDraft(Struct, kw_only=True):
    """A call that the model asks for."""

    call_id: str
    name: str
    tool: OfferedTool | None
    refusal: str | None = None
    index: int | None = None
    """Its place in the output; None while it is not shown."""
    item: ClientCall | McpCall | None = None
    pieces: list[str] = []
    """Its arguments as they came in."""
    record: str | None = None
    """The id that its record will have, where its item does not carry it."""

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def named(self) -> str | None:
        """The id that its record will have, chosen now where nothing carries one; None: it is not run here."""
        if self.refusal is None and self.tool is not None and self.tool.runs_here and self.record is None:
            carries = isinstance(self.item, McpCall | ToolSearchCall)
            self.record = record_id(self.item.id) if carries and self.item is not None else new_id("call")
        return self.record

    @property
    def function_call(self) -> FunctionCall:
        """The call as the model made it, for the conversation."""
        return FunctionCall(call_id=self.call_id, name=self.name, arguments=self.arguments)


class StepAccumulator:
    """Takes deltas, tells events. `first_index` is the place of the first item that it adds."""

    def __init__(
        self,
        *,
        emit: events.Emit,
        admit: Admit,
        asks_first: Callable[[OfferedTool], bool],
        first_index: int,
        step: int = 0,
        told: Mapping[int, Item] | None = None,
    ) -> None:
        """`told`: items that were told before, by their places; the same ones have the same ids again."""
        self._told = told or {}
        self._emit = emit
        self._admit = admit
        self._asks_first = asks_first
        self._step = step
        self.next_index = first_index
        self.said: list[Item] = []
        """Messages and reasoning, as they are done."""
        self.calls: list[ToolCallDraft] = []
        self.finish: Finish = "stop"
        self.usage: Usage | None = None
        self.has_begun = False
        self._by_index: dict[int, ToolCallDraft] = {}
        self._open: Literal["text", "refusal", "reasoning"] | None = None
        self._open_index = 0
        self._open_item: Message | Reasoning | None = None
        self._parts: list[str] = []

    def take(self, delta: Delta) -> None:
        """One delta of the model."""
        self.has_begun = True
        match delta:
            case TextDelta(text=text):
                self._say("text", text)
            case RefusalDelta(text=text):
                self._say("refusal", text)
            case ReasoningDelta(text=text):
                self._say("reasoning", text)
            case CallBegun(index=index, call_id=call_id, name=name):
                self._begin_call(index, call_id, name)
            case CallArguments(index=index, delta=text):
                self._more_arguments(self._by_index[index], text)
            case StepEnd(finish=finish, usage=usage):
                self.finish, self.usage = finish, usage
                self.close(status="incomplete" if finish in ("length", "content_filter") else "completed")

    def close(self, *, status: Literal["completed", "incomplete"] = "completed") -> None:
        """End what is open: nothing more will come for it."""
        if self._open_item is None:
            return
        done = msgspec.structs.replace(self._open_item, status=status, content=(self._part("".join(self._parts)),))
        self.said.append(done)
        self._emit(events.RunItemDone(self._open_index, done))
        self._open = self._open_item = None
        self._parts = []

    def _say(self, kind: Literal["text", "refusal", "reasoning"], text: str) -> None:
        if not text:
            return
        if self._open != kind:
            self.close()
            self._open = kind
            self._open_item = (
                Reasoning(id=self._id_of(Reasoning) or new_id("rs"), status="in_progress")
                if kind == "reasoning"
                else Message(id=self._id_of(Message) or new_id("msg"), role="assistant", status="in_progress")
            )
            self._open_index = self._add(self._open_item)
        self._parts.append(text)
        self._emit(_TOLD_AS[kind](self._open_index, text))

    def _part(self, text: str) -> Part:
        if self._open == "reasoning":
            return ReasoningText(text=text)
        return Refusal(refusal=text) if self._open == "refusal" else OutputText(text=text)

    def _begin_call(self, index: int, call_id: str, name: str) -> None:
        self.close()
        admitted = self._admit(name) if len(self.calls) < MOST_CALLS else TOO_MANY.format(name=name)
        if isinstance(admitted, str):
            call = ToolCallDraft(call_id=call_id, name=name, tool=None, refusal=admitted)
        else:
            call = ToolCallDraft(call_id=call_id, name=name, tool=admitted)
            if not self._asks_first(admitted):
                call.item = begun_item(admitted, call_id, step=self._step)
                if (known := self._id_of(type(call.item))) is not None:
                    call.item = msgspec.structs.replace(call.item, id=known)
                call.index = self._add(call.item)
        self.calls.append(call)
        self._by_index[index] = call

    def _more_arguments(self, call: ToolCallDraft, text: str) -> None:
        call.pieces.append(text)
        if call.index is not None and text and isinstance(call.item, FunctionCall | McpCall):
            self._emit(events.ArgumentsDelta(call.index, text))

    def _id_of(self, kind: type[Item]) -> str | None:
        """The id of the item at this place, if one of this kind was told before."""
        told = self._told.get(self.next_index)
        return told.id if isinstance(told, kind) else None

    def _add(self, item: Item) -> int:
        index = self.next_index
        self.next_index += 1
        self._emit(events.RunItemAdded(index, item))
        return index


def begun_item(tool: OfferedTool, call_id: str, *, step: int) -> ClientCall | McpCall:
    """The item of a call that begins. One that the gateway runs carries the id that its record will have."""
    if tool.runs_here and tool.kind == "tool_search":
        return ToolSearchCall(
            id=f"{ID_PREFIX[ToolSearchCall]}_{new_id('call')}", execution="server", arguments={}, status="in_progress"
        )
    if tool.runs_here:
        return McpCall(
            id=mcp_item_id(new_id("call")),
            server_label=tool.label,
            name=tool.bare_name,
            arguments="",
            status="in_progress",
            step=step,
        )
    return begun_call(tool, call_id)


def mcp_item_id(call_id: str) -> str:
    return f"mcp_{call_id}"


def record_id(item_id: str) -> str:
    """The id of the call's record, by the id of its item or of the request to allow it."""
    return item_id.partition("_")[2]
