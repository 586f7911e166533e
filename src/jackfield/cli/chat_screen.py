"""What a chat shows: messages, what is being said right now, visible calls, and who is at work.

On a terminal texts appear while they are written; elsewhere each message is one piece, when it is there. Above:
`chat.py`. Below: `chat_drawing.py`.
"""

import sys
from collections.abc import Iterable
from typing import Any

from jackfield.cli.chat_drawing import compact, drawing_of, is_echo
from jackfield.cli.show import harmless, paint
from jackfield.sdk import SpaceEvent, SpaceMessage


class Screen:
    """Prints what happens in one space, each thing once."""

    def __init__(self, *, live: bool) -> None:
        """`live`: a person watches. They see what is going on, and need not see again what they typed."""
        self._is_live = live
        self._names: dict[str, str] = {}
        self._thinking: set[str] = set()
        self._told: set[str] = set()
        """Messages that need not be shown: they were typed here."""
        self._writing: str | None = None
        """The stream whose text is on the line that is not over."""
        self._written = ""
        self._held: list[str] = []
        """Lines that wait until that line is over."""

    def know(self, entity: str, name: str) -> None:
        self._names[entity] = name

    def typed(self, message_id: str) -> None:
        """This message was typed here."""
        self._told.add(message_id)

    def message(self, message: SpaceMessage) -> None:
        """A message that is there, or a visible call as it is now."""
        self.know(message.entity_id, message.sender_name)
        if message.call is not None:
            self._call(message)
        elif not (self._is_live and message.id in self._told):
            self._lines([_said(message.sender_name, message.content)])

    def event(self, event: SpaceEvent) -> None:
        """Something happened."""
        if event.agent_entity_id and event.agent_name:
            self.know(event.agent_entity_id, event.agent_name)
        match event.type:
            case "space.message" if event.message is not None:
                self._whole(event, event.message)
            case "tool.done" if not is_echo(event.result):
                self._lines([_result(event.tool_name or "", event.result)])
            case "tool.error":
                self._lines([f"  {paint('!', 'red')} {harmless(event.tool_name or '')}: {compact(event.error)}"])
            case _ if self._is_live:
                self._live(event)

    def _live(self, event: SpaceEvent) -> None:
        """What is of interest only while it happens."""
        match event.type:
            case "connected":
                for agent in event.active_agents:
                    self._thinks(agent.agent_entity_id, agent.agent_name)
            case "agent.active":
                self._thinks(event.agent_entity_id or "", event.agent_name or "")
            case "agent.inactive":
                self._thinking.discard(event.agent_entity_id or "")
            case "space.message.streaming":
                self._piece(event)
            case "space.message.failed" if self._writing == event.stream_id:
                self._end_line(paint(" (taken back)", "dim"))

    def note(self, text: str) -> None:
        """Something about the chat itself."""
        self._lines([paint(text, "dim")])

    def _call(self, message: SpaceMessage) -> None:
        call = message.call or {}
        name = str(call.get("toolName", ""))
        verb = "asks" if call.get("status") == "requires_action" else "shows"
        lines = [f"{paint(harmless(message.sender_name), 'bold')} {verb} {paint(harmless(name), 'cyan')}"]
        lines += [f"  {line}" for line in drawing_of(name, call.get("args"))]
        if call.get("status") == "complete" and not is_echo(call.get("result")):
            lines.append(_result(name, call.get("result")))
        self._lines(lines)

    def _thinks(self, entity: str, name: str) -> None:
        if entity in self._thinking:  # after a break it is told again
            return
        self._thinking.add(entity)
        self.know(entity, name or entity)
        self._lines([paint(f"{harmless(self._names[entity])} is thinking …", "dim")])

    def _piece(self, event: SpaceEvent) -> None:
        if self._writing is None and event.phase != "done":
            self._writing, self._written = event.stream_id, ""
            name = self._names.get(event.agent_entity_id or "", event.agent_entity_id or "")
            _put(_said(name, ""))
        if self._writing == event.stream_id and event.text is not None and event.text.startswith(self._written):
            _put(harmless(event.text[len(self._written) :]))
            self._written = event.text

    def _whole(self, event: SpaceEvent, message: SpaceMessage) -> None:
        if self._writing is None or self._writing != event.stream_id:
            self.message(message)
        elif message.content.startswith(self._written):
            self._end_line(harmless(message.content[len(self._written) :]))
        else:
            self._end_line("")
            self.message(message)

    def _end_line(self, rest: str) -> None:
        _put(f"{rest}\n")
        self._writing, held = None, self._held
        self._held = []
        self._lines(held)

    def _lines(self, lines: Iterable[str]) -> None:
        if self._writing is not None:
            self._held += lines
            return
        for line in lines:
            _put(f"{line}\n")


def _said(name: str, content: str) -> str:
    return f"{paint(f'{harmless(name)}:', 'bold')} {harmless(content)}"


def _result(tool: str, result: Any) -> str:
    return f"  {paint('→', 'green')} {harmless(tool)}: {compact(result)}"


def _put(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
