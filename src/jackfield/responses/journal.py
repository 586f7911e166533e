"""The journal of a response that outlives its gateway: its steps, its calls and its events, written under one epoch.

A step is put on record together with all events up to it, so that whoever goes on knows what was told of it. The stream
of a response in the background is read from there; one that is made for a waiting client is told to it at once, and is
on record up to its last step. Above: `run.py` and the loop. Below: `transactions.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import Unavailable
from jackfield.model.call import Call
from jackfield.model.principal import GroupLimit, Principal
from jackfield.model.response_request import CreateResponse, EventNames, McpTool
from jackfield.responses import transactions as response_tx
from jackfield.responses.position import items_in, position_after, split_at_step
from jackfield.responses.resource import ResponseResource
from jackfield.responses.storage import FrameLog, ResponseRow, chunk_of, ending_of, retried, tokens_of
from jackfield.responses.wire import Frame
from jackfield.responses.writer import StreamPosition
from jackfield.runs import transactions as run_tx
from jackfield.runs.state import LoopState
from jackfield.runs.transactions import Fenced, Run, RunStep, Tokens
from jackfield.store import Store
from jackfield.store.scripts import Script

log = logging.getLogger(__name__)

MOST_HELD = 1_000
"""Events of a response for a waiting client that are held in memory until its next step."""


class KeptRequest(Struct, frozen=True, kw_only=True):
    """What a response was asked for, as it is kept until the response is over. Its input is in the response's row."""

    body: dict[str, Any]
    event_names: EventNames | None
    rights: str
    """What the key was allowed: with other rights the response does not go on."""


class StepMessage(Struct, frozen=True, kw_only=True):
    """What the journal has of one step."""

    state: LoopState
    sequence: int
    """The number of the first event after it."""


class Resumption(Struct, frozen=True, kw_only=True):
    """All that is on record of a response that is taken over."""

    states: tuple[LoopState, ...]
    position: StreamPosition
    """Where its stream stood at the last step on record, and what came of that step's calls."""
    told: tuple[Frame, ...] = ()
    """Events of a step that is not on record: the model is asked for it again."""
    frames: tuple[Frame, ...] = ()
    """All of its events."""


_decode_step = msgspec.json.Decoder(StepMessage).decode
_decode_kept = msgspec.json.Decoder(KeptRequest).decode
_encode = msgspec.json.Encoder().encode


def may_be_kept(request: CreateResponse) -> bool:
    """Whether a request can be kept until its response is over: credentials that it brings are not written down."""
    return request.store and not any(
        isinstance(tool, McpTool) and (tool.authorization or tool.headers) for tool in request.tools
    )


def kept_request(body: Mapping[str, Any], request: CreateResponse, principal: Principal) -> str:
    kept = {key: value for key, value in body.items() if key != "input"}
    return _encode(KeptRequest(body=kept, event_names=request.event_names, rights=rights_of(principal))).decode()


def read_kept(text: str) -> KeptRequest:
    return _decode_kept(text)


def rights_of(principal: Principal) -> str:
    """What a principal may do, to compare."""

    def names(limit: GroupLimit | None) -> object:
        return None if limit is None else limit.names

    rights = (sorted(principal.scopes), principal.tools, names(principal.groups), names(principal.group))
    rest = (principal.agents, principal.spaces, principal.budget, principal.grant, principal.owner)
    return _encode((*rights, *rest)).decode()


def resumption(steps: Sequence[RunStep], frames: Sequence[Frame]) -> Resumption:
    """Where to go on, from what is on record."""
    messages = [_decode_step(step.message) for step in steps]
    if not messages:
        return Resumption(states=(), position=position_after(frames), frames=tuple(frames))
    known, told = split_at_step(frames, recorded=messages[-1].sequence)
    return Resumption(
        states=tuple(message.state for message in messages),
        position=position_after(known),
        told=tuple(told),
        frames=tuple(frames),
    )


def told_items(resumed: Resumption) -> Mapping[int, Any]:
    return items_in(resumed.told)


class JournalWriter:
    """Persists a response that any gateway can go on with."""

    def __init__(
        self,
        store: Store,
        row: ResponseRow,
        *,
        request: str | None = None,
        run: Run | None = None,
        next_event: int = 0,
    ) -> None:
        self.now = row.now
        self.lost: Callable[[], None] = lambda: None
        """Called when another gateway has the run."""
        self.in_background = row.request.background
        self.is_stopped = not self.in_background
        self._store = store
        self._row = row
        self._request = request
        self._run = run
        self._next_event = next_event
        self._spent = Tokens() if run is None else Tokens(input=run.input_tokens, output=run.output_tokens)
        self._begun: asyncio.Future[Run] | None = None
        self._end: Callable[[], Script[Any]] | None = None
        self._has_events = False
        self._log: FrameLog | None = None
        if run is not None:
            self._log = FrameLog(run.id, self._append)

    @property
    def unwritten(self) -> Callable[[], Script[Any]] | None:
        """What is to be written when the store is back: its end, or that anybody may go on; None: nothing."""
        if self._end is not None:
            return self._end
        return None if self._run is None else partial(run_tx.park, self._run)

    def begin(self, resource: ResponseResource) -> "asyncio.Future[Any]":
        assert self._request is not None
        row = self._row.stored(resource)
        script = partial(response_tx.begin_journaled, row, request=self._request)
        self._begun = self._store.write(script)
        self._log = FrameLog(resource.id, self._append, at_least=1 if self.in_background else MOST_HELD)
        return self._begun

    async def on_disk(self) -> None:
        """Wait until the response is on record."""
        await self._held()

    async def _held(self) -> Run:
        if self._run is None:
            assert self._begun is not None
            self._run = await asyncio.shield(self._begun)
        return self._run

    def put(self, frames: list[Frame]) -> None:
        assert self._log is not None
        if frames:
            self._next_event = frames[-1].sequence_number + 1
        self._log.put(frames)

    async def _append(self, frames: list[Frame]) -> None:
        chunk = chunk_of(frames)
        if chunk is None:
            return
        run = await self._held()
        if not await self._store.write(partial(response_tx.append_journaled, run, chunk)):
            self.lost()
            raise Fenced
        self._has_events = True

    async def record(self, state: LoopState, calls: Mapping[int, Call]) -> Mapping[int, Call]:
        """T1, with the events up to here."""
        assert self._log is not None
        run, places = await self._held(), sorted(calls)
        message = _encode(StepMessage(state=state, sequence=self._next_event)).decode()
        total = tokens_of(state.usage)
        spent = Tokens(input=total.input - self._spent.input, output=total.output - self._spent.output)

        async def write(frames: list[Frame]) -> Mapping[int, Call]:
            step = partial(
                response_tx.record_step,
                run,
                n=state.steps,
                message=message,
                calls={place: calls[place] for place in places},
                chunk=chunk_of(frames),
                tokens=spent,
            )
            written = await self._store.write(step)
            if written is None:
                raise Fenced
            self._has_events, self._spent = True, total
            return written

        return await self._log.with_rest(write)

    async def add(self, call: Call, *, step: int, place: int) -> Call:
        run = await self._held()
        written = await self._store.write(partial(run_tx.add_call, run, call, n=step, idx=place))
        if written is None:
            raise Fenced
        return written

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None:
        assert self._log is not None
        rest = await self._log.close()
        run = await self._held()
        is_failed = resource.status == "failed"
        parts = [rest, last] if is_failed else [[*rest, *last]]
        is_read_again = self.in_background or is_failed
        ending = ending_of(
            resource, *(parts if is_read_again else ()), forgets_events=self._has_events and not is_read_again
        )
        reason = None if resource.error is None else resource.error.message
        self._end = script = partial(response_tx.settle_journaled, run, ending, reason=reason)
        if not await retried(resource.id, partial(self._store.write, script)):
            raise Fenced

    async def park(self) -> bool:
        """Let go of the response until it is answered. False: it is to be stopped instead."""
        assert self._log is not None
        rest = await self._log.close()
        script = partial(response_tx.park_response, await self._held(), chunk_of(rest))
        return await self._store.write(script)

    async def leave(self) -> None:
        """Stop writing; another gateway goes on."""
        if self._log is None:
            return
        rest = await self._log.close()
        try:
            await self._append(rest)
        except (Fenced, Unavailable) as fault:
            log.info("the last events of response %s are not kept, it goes on elsewhere: %r", self._log.name, fault)
