"""What `jackfield chat` prints: messages, text as it is written, visible calls, activity."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from jackfield.cli.output import compact, escape, style
from jackfield.sdk import SpaceEvent, SpaceMessage

BAR_WIDTH = 30
MAX_CHARS = 400
"""Characters of arguments or of a result that are shown."""


class Screen:
    """Prints the events of one space, each once."""

    def __init__(self, *, live: bool, write: Callable[[str], None] | None = None) -> None:
        """`live`: a terminal. Shows activity and text as it is written, and not what the user typed.

        `write`: where it goes; stdout by default.
        """
        self._is_live = live
        self._write = write or _write
        self._names: dict[str, str] = {}
        self._thinking: set[str] = set()
        self._own: set[str] = set()
        """Messages that were typed here."""
        self._writing: str | None = None
        """The stream whose text is on the unfinished line."""
        self._written = ""
        self._waiting: list[str] = []
        """Lines to print when that line is finished."""

    def add_member(self, entity: str, name: str) -> None:
        self._names[entity] = name

    @property
    def names(self) -> list[str]:
        """The members that are known."""
        return list(dict.fromkeys(self._names.values()))

    def typed(self, message_id: str) -> None:
        """Do not echo a message that was typed here."""
        self._own.add(message_id)

    def message(self, message: SpaceMessage) -> None:
        """A complete message, or a visible call in its current state."""
        self.add_member(message.entity_id, message.sender_name)
        if message.call is not None:
            self._show_call(message)
        elif not (self._is_live and message.id in self._own):
            self._print_lines([_message_line(message.sender_name, message.content)])

    def event(self, event: SpaceEvent) -> None:
        """Show an event."""
        if event.agent_entity_id and event.agent_name:
            self.add_member(event.agent_entity_id, event.agent_name)
        match event.type:
            case "space.message" if event.message is not None:
                self._complete(event, event.message)
            case "tool.done" if not is_echo(event.result):
                self._print_lines([_result_line(event.tool_name or "", event.result)])
            case "tool.error":
                self._print_lines([f"  {style('!', 'red')} {escape(event.tool_name or '')}: {shortened(event.error)}"])
            case _ if self._is_live:
                self._live(event)

    def _live(self, event: SpaceEvent) -> None:
        """Events that only matter while they happen."""
        match event.type:
            case "connected":
                for agent in event.active_agents:
                    self._show_thinking(agent.agent_entity_id, agent.agent_name)
            case "agent.active":
                self._show_thinking(event.agent_entity_id or "", event.agent_name or "")
            case "agent.inactive":
                self._thinking.discard(event.agent_entity_id or "")
            case "space.message.streaming":
                self._delta(event)
            case "space.message.failed" if self._writing == event.stream_id:
                self._end_line(style(" (withdrawn)", "dim"))

    def note(self, text: str) -> None:
        """A line about the chat itself."""
        self._print_lines([style(text, "dim")])

    def _show_call(self, message: SpaceMessage) -> None:
        call = message.call or {}
        name = str(call.get("toolName", ""))
        verb = "asks" if call.get("status") == "requires_action" else "shows"
        lines = [f"{style(escape(message.sender_name), 'bold')} {verb} {style(escape(name), 'cyan')}"]
        lines += [f"  {line}" for line in render_call(name, call.get("args"))]
        if call.get("status") == "complete" and not is_echo(call.get("result")):
            lines.append(_result_line(name, call.get("result")))
        self._print_lines(lines)

    def _show_thinking(self, entity: str, name: str) -> None:
        if entity in self._thinking:  # repeated after a reconnect
            return
        self._thinking.add(entity)
        self.add_member(entity, name or entity)
        self._print_lines([style(f"{escape(self._names[entity])} is thinking …", "dim")])

    def _delta(self, event: SpaceEvent) -> None:
        if self._writing is None and event.phase != "done":
            self._writing, self._written = event.stream_id, ""
            name = self._names.get(event.agent_entity_id or "", event.agent_entity_id or "")
            self._write(_message_line(name, ""))
        if self._writing == event.stream_id and event.text is not None and event.text.startswith(self._written):
            self._write(escape(event.text[len(self._written) :]))
            self._written = event.text

    def _complete(self, event: SpaceEvent, message: SpaceMessage) -> None:
        if self._writing is None or self._writing != event.stream_id:
            self.message(message)
        elif message.content.startswith(self._written):
            self._end_line(escape(message.content[len(self._written) :]))
        else:
            self._end_line("")
            self.message(message)

    def _end_line(self, rest: str) -> None:
        self._write(f"{rest}\n")
        self._writing, waiting = None, self._waiting
        self._waiting = []
        self._print_lines(waiting)

    def _print_lines(self, lines: Iterable[str]) -> None:
        if self._writing is not None:
            self._waiting += lines
            return
        for line in lines:
            self._write(f"{line}\n")


def _message_line(name: str, content: str) -> str:
    return f"{style(f'{escape(name)}:', 'bold')} {escape(content)}"


def _result_line(tool: str, result: Any) -> str:
    return f"  {style('→', 'green')} {escape(tool)}: {shortened(result)}"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def render_call(tool: str, arguments: Any) -> list[str]:
    """A call as lines: known tools by name, others as their arguments."""
    draw = BY_NAME.get(tool)
    drawn = draw(arguments) if draw is not None and isinstance(arguments, dict) else None
    return drawn or ([] if arguments in (None, {}) else [shortened(arguments)])


def shortened(value: Any) -> str:
    """A value as JSON on one line, truncated."""
    text = compact(value)
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


def is_echo(result: Any) -> bool:
    """Whether a result only repeats the arguments, as those of internal tools do."""
    return isinstance(result, dict) and result.get("success") is True and set(result) == {"success", "args"}


def _question(arguments: dict[str, Any]) -> list[str] | None:
    question = arguments.get("question")
    return [escape(question)] if isinstance(question, str) else None


def _chart(arguments: dict[str, Any]) -> list[str] | None:
    title, bars = arguments.get("title"), arguments.get("bars")
    if not isinstance(title, str) or not isinstance(bars, list):
        return None
    try:
        pairs = [(escape(str(bar["label"])), float(bar["value"])) for bar in bars]
    except (KeyError, TypeError, ValueError):
        return None
    width = max((len(label) for label, _ in pairs), default=0)
    largest = max((abs(value) for _, value in pairs), default=0) or 1
    lines = [f"{label.ljust(width)}  {_bar(value / largest)} {value:g}" for label, value in pairs]
    return [escape(title), *lines]


def _bar(share: float) -> str:
    return "█" * max(1 if share > 0 else 0, round(BAR_WIDTH * max(share, 0)))


BY_NAME: dict[str, Callable[[dict[str, Any]], list[str] | None]] = {"confirmAction": _question, "displayChart": _chart}
