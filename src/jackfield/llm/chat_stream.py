"""What a chat-completions server streams, as deltas: bytes in, deltas out. Does no input or output itself.

Above: `openai.py`. Below: msgspec. Servers differ, and the names below say from whom what was seen; however the bytes
are cut, the deltas are the same.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

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
from jackfield.model.items import InputTokens, OutputTokens, Usage
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.lines import LineSplitter, TooLong

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one event. More is not a token but a fault."""

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_BROKEN_FINISHES = frozenset({"error", "abort"})


class _Function(Struct, frozen=True):
    name: str | None = None
    arguments: Any = None
    """A piece of JSON text; some servers send the whole object."""


class _Call(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Said(Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Logprobs(Struct, frozen=True):
    content: list[dict[str, Any]] | None = None


class _Choice(Struct, frozen=True):
    delta: _Said | None = None
    message: _Said | None = None
    """Of servers that do not stream: all in one."""
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Cached(Struct, frozen=True):
    cached_tokens: int | None = None


class _Reasoned(Struct, frozen=True):
    reasoning_tokens: int | None = None


class _Usage(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None
    completion_tokens_details: _Reasoned | None = None


class _Chunk(Struct, frozen=True):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ProviderError(Exception):
    """The server said in its stream that it failed. `body` is its error object."""

    def __init__(self, body: Any) -> None:
        super().__init__(str(body))
        self.body = body


class BrokenStream(Exception):
    """The stream is not one, or ended before the answer did. Its words end a sentence about the model."""


class ChatStream:
    """One answer in the making. Feed it bytes; at the end of the bytes, `end` has the rest."""

    def __init__(self) -> None:
        self._lines = LineSplitter(limit=MAX_LINE)
        self._held = b""
        self._calls = _Calls()
        self._finish: str | None = None
        self._usage: Usage | None = None
        self.is_over = False
        """The server said `[DONE]`: whatever follows is not read."""

    @property
    def is_answered(self) -> bool:
        """Why it ended has been said, so nothing but the usage can follow."""
        return self._finish is not None

    @property
    def is_complete(self) -> bool:
        return self.is_over or (self.is_answered and self._usage is not None)

    def feed(self, data: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                raise BrokenStream(f"sent an event of more than {MAX_LINE:,} bytes")
            deltas += self._line(line.rstrip(b"\r"))
        return deltas

    def feed_whole(self, body: bytes) -> list[Delta]:
        """An answer that was not streamed although we asked for it."""
        try:
            chunk = _decode(body)
        except UNREADABLE as fault:
            raise BrokenStream(f"sent an answer that cannot be read ({fault})") from None
        return list(self._chunk(chunk))

    def end(self) -> list[Delta]:
        """What is still owed when no more bytes come: last of all the `StepEnd`."""
        deltas = self.feed(b"\n\n") if self._lines.pending or self._held else []
        if not (self.is_over or self.is_answered):
            raise BrokenStream("closed the connection before its answer was whole")
        deltas += self._calls.missing_arguments()
        deltas.append(StepEnd(self._finished(), self._usage))
        return deltas

    def _finished(self) -> Finish:
        finish = _FINISHES.get(self._finish or "stop", "stop")
        # Ollama and others say `stop` although they call.
        return "tool_calls" if finish == "stop" and self._calls else finish

    def _line(self, line: bytes) -> list[Delta]:
        if self.is_over:
            return []
        if not line.startswith(b"data:"):
            if not line and self._held:
                raise BrokenStream("sent an event that is not JSON")
            return []  # a comment, an event's name, or the line between events
        data = self._held + line[5:].strip()
        if data in (b"", b"[DONE]"):
            self.is_over = bool(data)
            return []
        try:
            chunk = _decode(data)
        except msgspec.ValidationError as fault:
            raise BrokenStream(f"sent an event of an unknown shape ({fault})") from None
        except UNREADABLE:
            self._held = data + b"\n"  # an event may have several lines; its end decides
            if len(self._held) > MAX_LINE:
                raise BrokenStream(f"sent an event of more than {MAX_LINE:,} bytes") from None
            return []
        self._held = b""
        return list(self._chunk(chunk))

    def _chunk(self, chunk: _Chunk) -> Iterator[Delta]:
        if chunk.error:
            raise ProviderError(chunk.error)
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            said = choice.delta or choice.message
            if said is not None:
                yield from self._said(said, choice.logprobs)
            if choice.finish_reason:
                self._finish = choice.finish_reason
                if self._finish in _BROKEN_FINISHES:
                    raise BrokenStream(f"ended its answer with '{self._finish}'")

    def _said(self, said: _Said, logprobs: _Logprobs | None) -> Iterator[Delta]:
        if thought := said.reasoning_content or said.reasoning:
            yield ReasoningDelta(thought)
        if said.content:
            yield TextDelta(said.content) if logprobs is None else _with_logprobs(said.content, logprobs)
        if said.refusal:
            yield RefusalDelta(said.refusal)
        for call in said.tool_calls or ():
            yield from self._calls.add(call)


class _Begun:
    """A call as it comes in. `index` is ours; None until it has a name and was announced."""

    def __init__(self) -> None:
        self.index: int | None = None
        self.their_id: str | None = None
        self.arguments = ""
        """What was held back until the call had a name; later only whether there were any."""


class _Calls:
    """Which piece belongs to which call."""

    def __init__(self) -> None:
        self._by_index: dict[int, _Begun] = {}
        self._order: list[_Begun] = []
        self._ids: set[str] = set()
        self._named = 0

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, piece: _Call) -> Iterator[Delta]:
        call = self._find(piece)
        call.their_id = call.their_id or piece.id or None
        arguments = _as_text(piece.function.arguments)
        if call.index is None:
            arguments = call.arguments = call.arguments + arguments
            if not piece.function.name:
                return
            call.index, self._named = self._named, self._named + 1
            yield CallBegun(call.index, self._new_id(call.their_id), piece.function.name)
        if arguments:
            call.arguments = "…"
            yield CallArguments(call.index, arguments)

    def missing_arguments(self) -> list[Delta]:
        """`{}` for the calls that were given none: a call's arguments are JSON."""
        if any(call.index is None for call in self._order):
            raise BrokenStream("called a tool without naming it")
        return [
            CallArguments(call.index, "{}") for call in self._order if not call.arguments and call.index is not None
        ]

    def _find(self, piece: _Call) -> _Begun:
        known = self._by_index.get(piece.index) if piece.index is not None else self._without_index(piece)
        is_another = (  # Gemini: every call whole, and all with index 0
            known is not None and piece.function.name and piece.id and known.their_id and piece.id != known.their_id
        )
        if known is None or is_another:
            known = _Begun()
            self._order.append(known)
        if piece.index is not None:
            self._by_index[piece.index] = known
        return known

    def _without_index(self, piece: _Call) -> _Begun | None:
        if piece.id:
            return next((call for call in self._order if call.their_id == piece.id), None)
        return None if piece.function.name or not self._order else self._order[-1]

    def _new_id(self, given: str | None) -> str:
        """Theirs if it is one: some servers send none, or the same one twice."""
        call_id = given if given and given not in self._ids else f"call_{uuid4().hex[:24]}"
        self._ids.add(call_id)
        return call_id


def _as_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def _with_logprobs(text: str, logprobs: _Logprobs) -> TextDelta:
    return TextDelta(text, tuple(logprobs.content or ()))


def _usage(usage: _Usage) -> Usage:
    spent, made = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    reasoned = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else None
    return Usage(
        input_tokens=spent,
        output_tokens=made,
        total_tokens=usage.total_tokens or spent + made,
        input_tokens_details=InputTokens(cached_tokens=cached or 0),
        output_tokens_details=OutputTokens(reasoning_tokens=reasoned or 0),
    )
