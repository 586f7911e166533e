"""Texts in flight, kept whole across breaks: what a follower has been given, and what a piece adds to it.

After a break the gateway tells again what is in flight, from its beginning. Whoever follows wants each piece once.
Above: `spaces.py`. Below: nothing. Pure.
"""

from msgspec.structs import replace

from jackfield.sdk.space_types import SpaceEvent

_OVER = frozenset({"space.message", "space.message.failed", "tool.done", "tool.error"})


class SpaceTexts:
    """The texts of one space's streams, by stream."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def take(self, event: SpaceEvent) -> SpaceEvent | None:
        """The event with the whole text so far and only what is new of it; None: it brings nothing new."""
        if event.type == "connected":
            self._texts = {stream: text for stream, text in self._texts.items() if stream in event.streams}
        stream = event.stream_id
        if stream is None:
            return event
        if event.type in _OVER:
            self._texts.pop(stream, None)
            return event
        if event.offset is None:
            return event
        return self._piece(event, stream)

    def _piece(self, event: SpaceEvent, stream: str) -> SpaceEvent | None:
        known = self._texts.get(stream)
        if event.phase == "start" and known is not None:
            return None
        before = known or ""
        text = before[: event.offset] + event.delta
        if event.phase == "done":
            self._texts.pop(stream, None)
            text = event.text if event.text is not None else text
        else:
            self._texts[stream] = text
            if known is not None and text == known:
                return None
        if not text.startswith(before):
            return replace(event, text=text)
        return replace(event, text=text, offset=len(before), delta=text[len(before) :])
