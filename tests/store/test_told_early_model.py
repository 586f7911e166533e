"""A program that is told of an outcome before it is on record, searched exhaustively: crashes, pauses and cancelling at
any point.

It makes two calls, one after another, and returns what it was told. `settle_and_take_step` writes an outcome and the
step that followed from it, or neither; `tests/contracts/test_runs.py` holds the stores to that. Here everything around
it is played in every order: the tool ends, the program is told, the write, others who settle, the next gateway.
"""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.requirement import requirement

CALLS = 2


class Mind(Struct, frozen=True):
    """A program in a process: what it was told so far, and the outcome among that which is not on record yet."""

    epoch: int
    told: tuple[str, ...] = ()
    held: bool = False
    tool_ended: bool = False
    """The tool of its open call has done its work, and its process knows."""


class State(Struct, frozen=True, kw_only=True):
    """The database, and the processes of two gateways."""

    outcomes: tuple[str | None, ...] = ()
    """Of the calls on record."""
    because: tuple[tuple[str, ...], ...] = ()
    """For each call what the program had been told when it made it."""
    result: tuple[str, ...] | None = None
    epoch: int = 1
    dead: bool = False
    """Of gateway `a`, which may live on."""
    minds: dict[str, Mind] = {}


def with_outcome(state: State, n: int, outcome: str) -> State:
    return replace(state, outcomes=(*state.outcomes[:n], outcome, *state.outcomes[n + 1 :]))


def does(state: State, gateway: str, mind: Mind | None) -> State:
    others = {name: one for name, one in state.minds.items() if name != gateway}
    return replace(state, minds=others if mind is None else others | {gateway: mind})


def write(state: State, mind: Mind) -> State | None:
    """The outcome that is held and what the program does next, in one transaction. None: told wrong, or fenced."""
    n = len(mind.told)
    if mind.held:
        if state.outcomes[n - 1] is not None:
            return None
        state = with_outcome(state, n - 1, mind.told[-1])
    if mind.epoch != state.epoch or state.result is not None or len(state.outcomes) > n:
        return state if mind.held else None
    if n == CALLS:
        return replace(state, result=mind.told)
    return replace(state, outcomes=(*state.outcomes, None), because=(*state.because, mind.told))


def by_program(state: State, gateway: str) -> Iterator[State]:
    """The next thing that the process of a program does."""
    mind = state.minds[gateway]
    waits_for = len(mind.told)
    if waits_for == len(state.outcomes) or mind.held:  # it has something to ask for, or to say at its end
        after = write(state, mind)
        if after is None:
            yield does(state, gateway, None if mind.epoch != state.epoch else Mind(mind.epoch))
        else:
            yield does(after, gateway, replace(mind, held=False, tool_ended=False))
        return
    if waits_for > len(state.outcomes):
        return
    known = state.outcomes[waits_for]
    if known is not None:
        yield does(state, gateway, replace(mind, told=(*mind.told, known), tool_ended=False))
    elif not mind.tool_ended:
        yield does(state, gateway, replace(mind, tool_ended=True))
    else:
        yield does(state, gateway, replace(mind, told=(*mind.told, f"done {waits_for}"), held=True))


def by_others(state: State) -> Iterator[State]:
    """What happens at any time: an open call is cancelled, `a` dies or is taken for dead, `b` takes over."""
    for n, outcome in enumerate(state.outcomes):
        if outcome is None:
            yield with_outcome(state, n, "cancelled")
            if state.dead:
                yield with_outcome(state, n, "interrupted")
    if not state.dead:
        yield replace(state, dead=True)
        yield does(replace(state, dead=True), "a", None)
    elif state.epoch == 1 and None not in state.outcomes:
        yield does(replace(state, epoch=2), "b", Mind(2))
    for gateway, mind in state.minds.items():  # its process ends: the program goes on from its journal
        if mind.told and not mind.held:
            yield does(state, gateway, Mind(mind.epoch))


def search() -> tuple[int, list[State]]:
    """How many states can be reached, and those in which the program is over."""
    first = State(minds={"a": Mind(1)})
    seen, to_look_at, ends = {msgspec.json.encode(first, order="sorted")}, [first], []
    while to_look_at:
        state = to_look_at.pop()
        if state.result is not None:
            ends.append(state)
        afters = [after for gateway in state.minds for after in by_program(state, gateway)]
        for after in (*afters, *by_others(state)):
            check(state, after)
            key = msgspec.json.encode(after, order="sorted")
            if key not in seen:
                seen.add(key)
                to_look_at.append(after)
    return len(seen), ends


def check(before: State, after: State) -> None:
    """What is on record follows only from what is on record, and does not change."""
    for n, outcome in enumerate(before.outcomes):
        assert outcome is None or after.outcomes[n] == outcome, "an outcome changed"
    for told in after.because:
        assert after.outcomes[: len(told)] == told, "a call was made because of something that is not on record"
    if after.result is not None:
        assert after.outcomes == after.result, "the program returned something that is not on record"


@requirement("RUN-told-early-model")
def test_nothing_that_a_program_was_told_early_shows_before_it_is_on_record() -> None:
    reached, ends = search()
    assert reached > 100
    results = {end.result for end in ends}
    assert ("done 0", "done 1") in results
    assert ("cancelled", "done 1") in results
    assert ("interrupted", "done 1") in results


def _step_first(state: State, mind: Mind) -> State | None:
    """The step in a transaction before the outcome's."""
    return _write(state, replace(mind, held=False)) if mind.held else _write(state, mind)


def _whoever_settled(state: State, mind: Mind) -> State | None:
    """The step also where somebody else had settled the call."""
    is_late = mind.held and state.outcomes[len(mind.told) - 1] is not None
    return _write(state, replace(mind, held=False)) if is_late else _write(state, mind)


_write = write


@requirement("RUN-told-early-model")
@pytest.mark.parametrize("broken", [_step_first, _whoever_settled])
def test_the_search_finds_what_is_wrong(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.write", broken)
    with pytest.raises(AssertionError):
        search()
