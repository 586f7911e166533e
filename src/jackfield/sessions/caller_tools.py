"""Caller tools: as the caller declares them, as the agent sees them, and whether the caller is present.

Above: `session.py`. Below: the catalog's entries. The agent calls `{caller_id}_{name}`; a table maps it back, never
the position of an underscore.
"""

import math
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.catalog.merge import Entry, Judge, named_entry
from jackfield.catalog.names import distinct, legal, shown
from jackfield.errors import BadRequest, ToolNotFound
from jackfield.model.tool import CALLER, RESERVED_NAMES, Tool, ToolKind
from jackfield.protocol.schemas import fault_in, not_an_object
from jackfield.sources.foreign import Unremovable, cleaned, cleaned_schema

MOST = 500
LONGEST_ID = 64
SIGN_LASTS = 10.0
"""Seconds for which a poll counts."""


class CallerTool(Struct, frozen=True, kw_only=True):
    """A tool as its caller declares it."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None


class CallerDeclaration(Struct, frozen=True, kw_only=True):
    """The caller and its tools. None: not declared."""

    caller_id: str | None = None
    tools: tuple[CallerTool, ...] | None = None


class CallerTools:
    """The tools of one caller in one session."""

    def __init__(
        self,
        caller_id: str = "",
        tools: tuple[CallerTool, ...] = (),
        *,
        timeout_ms: int = 60_000,
        judge: Judge = fault_in,
    ) -> None:
        """Raises `BadRequest` for what cannot be offered to an agent."""
        if len(tools) > MOST:
            raise BadRequest(f"{len(tools)} tools are declared; a session takes {MOST}.", param="caller_tools")
        self.caller_id = caller_id
        self.tools = tools
        self._by_own_name: dict[str, Entry] = {}
        taken = set(RESERVED_NAMES)
        for tool in tools:
            if not tool.name or tool.name in self._by_own_name:
                fault = "has no name" if not tool.name else f"'{shown(tool.name)}' is declared twice"
                raise BadRequest(f"A tool {fault}. Correct that.", param="caller_tools")
            name = distinct(legal(f"{caller_id}_{tool.name}"), spelled=tool.name, taken=taken)
            taken.add(name)
            self._by_own_name[tool.name] = named_entry(name, _checked(tool, timeout_ms=timeout_ms, judge=judge))
        self.entries = tuple(self._by_own_name.values())
        self._by_name = {entry.name: entry for entry in self.entries}

    def own_name(self, name: str) -> str:
        """How the caller spells the tool that its agent calls `name`."""
        entry = self._by_name.get(name)
        return name if entry is None else entry.tool.name

    def get(self, name: str) -> Entry:
        """The tool by the caller's own name, else by the agent's."""
        found = self._by_own_name.get(name) or self._by_name.get(name)
        if found is None:
            known = ", ".join(sorted(self._by_own_name)) or "none"
            raise ToolNotFound(f"The caller has not declared '{shown(name)}'. Declared: {known}.", param="tool")
        return found

    def beside(self, others: AbstractSet[str]) -> dict[str, Entry]:
        """The tools by names that none of `others` has."""
        taken = {*others, *RESERVED_NAMES, *self._by_name}
        named: dict[str, Entry] = {}
        for entry in self.entries:
            name = entry.name
            if name in others:
                name = distinct(legal(f"caller_{name}"), spelled=entry.tool.name, taken=taken)
                taken.add(name)
            named[name] = entry
        return named

    def config(self) -> dict[str, Any]:
        """The config sent inside the session. `agent_names` has the tools that are not called `{caller_id}_{name}`."""
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.input_schema or {"type": "object"},
            }
            for tool in self.tools
        ]
        told: dict[str, Any] = {"caller_id": self.caller_id, "tools": tools}
        others = {e.tool.name: e.name for e in self.entries if e.name != f"{self.caller_id}_{e.tool.name}"}
        return {**told, "agent_names": others} if others else told


def read_declared(
    *, context: dict[str, Any] | None, caller_id: str | None, caller_tools: list[dict[str, Any]] | None
) -> CallerDeclaration:
    """What a request declares, in its `context` or beside it. Raises `BadRequest` in the caller's own words."""
    given = context or {}
    caller = caller_id if caller_id is not None else given.get("caller_id")
    tools = caller_tools if caller_tools is not None else given.get("caller_tools")
    if caller is not None and (not isinstance(caller, str) or not 1 <= len(caller) <= LONGEST_ID):
        raise BadRequest(f"'caller_id' must be a text of 1 to {LONGEST_ID} characters.", param="caller_id")
    if tools is None:
        return CallerDeclaration(caller_id=caller)
    if not isinstance(tools, list):
        raise BadRequest("'caller_tools' must be a list of tools.", param="caller_tools")
    return CallerDeclaration(caller_id=caller, tools=tuple(map(_read_tool, tools)))


def _read_tool(raw: Any) -> CallerTool:
    """One declared tool, without characters that an agent would read and a person would not see."""
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise BadRequest("Each of 'caller_tools' is an object with a 'name'.", param="caller_tools")
    schema = raw.get("inputSchema", raw.get("input_schema"))
    known = {"name": raw.get("name"), "description": raw.get("description") or "", "input_schema": schema}
    try:
        tool = msgspec.convert(known, CallerTool)
        schema = None if tool.input_schema is None else cleaned_schema(tool.input_schema)
        return msgspec.structs.replace(tool, description=cleaned(tool.description), input_schema=schema)
    except Unremovable as fault:
        raise BadRequest(
            f"Tool '{shown(str(raw.get('name')))}' cannot be offered: {fault}", param="caller_tools"
        ) from None
    except msgspec.ValidationError as fault:
        raise BadRequest(f"One of 'caller_tools' is invalid: {fault}.", param="caller_tools") from None


def _checked(tool: CallerTool, *, timeout_ms: int, judge: Judge) -> Tool:
    schema = {"type": "object"} if tool.input_schema is None else tool.input_schema
    fault = not_an_object(schema) or judge(schema, is_foreign=True, brings_values=True)
    if fault is not None:
        raise BadRequest(f"Tool '{shown(tool.name)}': its inputSchema {fault}.", param="caller_tools")
    return Tool(
        source=CALLER,
        kind=ToolKind.FUNCTION,
        name=tool.name,
        description=tool.description,
        input_schema=schema,
        timeout_ms=timeout_ms,
        expires_in_ms=1_000,
    )


class CallerPresence:
    """One caller of one session. `on_change` is called when it may be gone sooner or later than was thought."""

    def __init__(
        self, *, grace: float, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._grace = grace
        self._on_change = on_change
        self._clock = clock
        self._streams = 0
        self._until = -math.inf

    @property
    def is_here(self) -> bool:
        return self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """After how long without another sign it is gone; endless while a stream is open, 0 when it is gone."""
        return math.inf if self._streams else max(0.0, self._until - self._clock())

    def give_sign(self) -> None:
        """Sign of life: it polled, sent or answered something."""
        self._until = max(self._until, self._clock() + SIGN_LASTS)
        self._on_change()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """It listens as long as the block runs."""
        with self._open(lambda: self._grace):
            yield

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """It asked, and waits for the answer as long as the block runs."""
        with self._open(lambda: SIGN_LASTS):
            yield

    @contextmanager
    def _open(self, lasts: Callable[[], float]) -> Iterator[None]:
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self._until = self._clock() + lasts()
            self._on_change()
