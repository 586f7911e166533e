"""One thing in flight: a message or the arguments of a visible call, while a model is still writing them.

Offsets count characters (code points) of the text. Whoever follows keeps `text[:offset] + delta`.
Above: `live.py` (what is written here) and `elsewhere.py` (what other gateways write). Below: `frames.py`. Pure.
"""

from typing import Any, Literal

from msgspec.structs import replace

from jackfield.spaces.frames import MessageFailed, MessageStreaming, Passing, ToolStreaming
from jackfield.spaces.partial_json import PartialJson

Kind = Literal["tool", "message"]


class Flight:
    """Its text so far, and how much of it has been handed out."""

    def __init__(
        self, stream_id: str, *, space_id: str, kind: Kind, run_id: str | None, agent: str, agent_name: str, tool: str
    ) -> None:
        self.stream_id = stream_id
        self.space_id = space_id
        self.kind = kind
        self.run_id = run_id
        self.agent = agent
        self.agent_name = agent_name
        self.tool = tool
        self.is_shown = kind == "message"
        """Whether its pieces may be handed out: a call's not before `tool.started` was."""
        self.is_ended = False
        self._text = ""
        self._pieces: list[str] = []
        self._handed = 0
        self._has_begun = False
        self._arguments = PartialJson()

    @property
    def text(self) -> str:
        if self._pieces:
            self._text += "".join(self._pieces)
            self._pieces.clear()
        return self._text

    def append(self, piece: str) -> None:
        """A little more was written. Halves of characters, which no encoding takes, are replaced."""
        if not piece.isascii():
            piece = piece.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._pieces.append(piece)

    def become(self, text: str) -> bool:
        """The whole text as another gateway tells it. False: it is no continuation of what was known."""
        known = self.text
        self._text = text
        if text.startswith(known):
            return True
        self._handed = 0
        self._arguments = PartialJson()
        return False

    def next_pieces(self) -> list[Passing]:
        """What has not been handed out yet; nothing: there is no news."""
        text = self.text
        news: list[Passing] = []
        if not self._has_begun and self.kind == "message":
            news.append(self._message("start", offset=0, delta=""))
        if len(text) > self._handed:
            offset, self._handed = self._handed, len(text)
            delta = text[offset:]
            self._arguments_read(delta)
            news.append(self._piece(offset, delta))
        self._has_begun = True
        return news

    def snapshot(self) -> list[Passing]:
        """All that has been handed out so far, for one who comes now."""
        if not self._has_begun or not self.is_shown:
            return []
        told = self._text[: self._handed]
        if self.kind == "tool":
            return [self._piece(0, told)]
        return [self._message("start", offset=0, delta=""), self._message("delta", offset=0, delta=told, text=told)]

    def last_pieces(self, *, failed: bool) -> list[Passing]:
        """What is left to say when it ends. A call's end is told by durable events alone."""
        if failed and self.kind == "message":
            return [MessageFailed(stream_id=self.stream_id)]
        news = self.next_pieces()
        if self.kind == "message":
            news.append(self._message("done", offset=len(self.text), delta="", text=self.text))
        return news

    def _arguments_read(self, delta: str) -> None:
        if self.kind == "tool":
            self._arguments.feed(delta)

    def _piece(self, offset: int, delta: str) -> Passing:
        if self.kind == "message":
            return self._message("delta", offset=offset, delta=delta)
        arguments: Any = self._arguments.value({})
        return ToolStreaming(
            stream_id=self.stream_id,
            run_id=self.run_id,
            agent_entity_id=self.agent,
            tool_name=self.tool,
            offset=offset,
            delta=delta,
            partial_args=arguments,
        )

    def _message(
        self, phase: Literal["start", "delta", "done"], *, offset: int, delta: str, text: str | None = None
    ) -> MessageStreaming:
        plain = MessageStreaming(
            stream_id=self.stream_id,
            run_id=self.run_id,
            agent_entity_id=self.agent,
            phase=phase,
            offset=offset,
            delta=delta,
        )
        return plain if text is None else replace(plain, text=text)
