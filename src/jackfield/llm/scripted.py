"""The shipped twin of a model: plays a written dialogue, with no network; only the ids of calls are new each time.

Above: whoever asks a `Model`: the demo, the tests, and anybody who wants to see an agent before paying for one. Below:
`script.py` the dialogue, `scene.py` what it sees of the conversation.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from uuid import uuid4

import msgspec

from jackfield.llm.script import (
    Blanks,
    Scene,
    Script,
    ScriptedCall,
    ScriptedFailure,
    ScriptTurn,
    Words,
    counted,
    offered,
    scene_of,
)
from jackfield.llm.types import (
    CallArguments,
    CallBegun,
    Delta,
    ModelFailed,
    ModelRequest,
    ReasoningDelta,
    RefusalDelta,
    StepEnd,
    TextDelta,
    TokenCount,
)
from jackfield.model.items import Usage

KEPT_REQUESTS = 20
ARGUMENT_PIECE = 16
"""Characters of one piece of a call's arguments."""
_PIECE = re.compile(r"\S+\s*|\s+")


class ScriptedModel:
    """Plays `turns`: first the ones whose condition fits, then those without one in their order, then `otherwise`."""

    def __init__(
        self, turns: Script | Iterable[ScriptTurn], *, name: str = "scripted", tokens: TokenCount | None = None
    ) -> None:
        self.name = name
        self._tokens = tokens or TokenCount()
        self._script = turns if isinstance(turns, Script) else Script(turns=tuple(turns))
        self._conditional = [turn for turn in self._script.turns if turn.when is not None]
        self._ordered = [turn for turn in self._script.turns if turn.when is None]
        self._position = 0
        self.requests: deque[ModelRequest] = deque(maxlen=KEPT_REQUESTS)
        """What it was asked last, newest at the end. For tests."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        scene = scene_of(request)
        turn, groups = self._choose(scene)
        deltas = list(_deltas(turn, Blanks(scene, groups, origin=self._script.origin)))
        await asyncio.sleep(turn.wait)
        pace = self._script.pace if turn.pace is None else turn.pace
        for delta in deltas:
            yield delta
            await asyncio.sleep(pace)
        if turn.fail is not None:
            raise _failure(turn.fail, before_first_token=not deltas)
        words_in, words_out = counted(request, len(deltas))
        usage = Usage(input_tokens=words_in, output_tokens=words_out, total_tokens=words_in + words_out)
        self._tokens.add(turn.usage or usage)
        yield StepEnd(turn.finish or ("tool_calls" if turn.calls else "stop"), turn.usage or usage)

    async def close(self) -> None:
        pass

    def _choose(self, scene: Scene) -> tuple[ScriptTurn, dict[str, str]]:
        for turn in self._conditional:
            if (groups := offered(turn, scene)) is not None:
                return turn, groups
        if self._script.repeat and self._position >= len(self._ordered):
            self._position = 0
        if self._position < len(self._ordered):
            self._position += 1
            return self._ordered[self._position - 1], {}
        if self._script.otherwise is not None:
            return self._script.otherwise, {}
        last = f"the result of {scene.last_result[0]}" if scene.last_result else f"{scene.user[:80]!r}"
        raise ModelFailed(
            f"{self._script.origin} of model '{self.name}' has no turn left for {last}. "
            "Add one, or an [otherwise] that always fits.",
            code="script_error",
        )


def _deltas(turn: ScriptTurn, blanks: Blanks) -> Iterator[Delta]:
    yield from (ReasoningDelta(piece) for piece in _pieces(turn.think, blanks))
    yield from (TextDelta(piece) for piece in _pieces(turn.say, blanks))
    yield from (RefusalDelta(piece) for piece in _pieces(turn.refuse, blanks))
    for index, call in enumerate(turn.calls):
        yield from _call(index, call, blanks)


def _pieces(words: Words, blanks: Blanks) -> list[str]:
    if isinstance(words, str):
        return _PIECE.findall(blanks.text(words))
    return [blanks.text(piece) for piece in words]


def _call(index: int, call: ScriptedCall, blanks: Blanks) -> Iterator[Delta]:
    yield CallBegun(index, call.id or f"call_{uuid4().hex[:24]}", call.tool)
    text = call.raw if call.raw is not None else msgspec.json.encode(blanks.value(call.arguments)).decode()
    for start in range(0, len(text), ARGUMENT_PIECE):
        yield CallArguments(index, text[start : start + ARGUMENT_PIECE])


def _failure(failure: ScriptedFailure | str, *, before_first_token: bool) -> ModelFailed:
    fault = ScriptedFailure(message=failure) if isinstance(failure, str) else failure
    return ModelFailed(
        fault.message,
        code=fault.code,
        status=fault.status,
        retry_after=fault.retry_after,
        before_first_token=before_first_token,
    )
