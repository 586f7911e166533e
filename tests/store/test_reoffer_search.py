"""Offers to tool servers, searched exhaustively: a call that may not run twice is begun by one server at most.

Two servers that follow the protocol (as the SDK does), one call. Streams break at any moment, processes die and come
back under their id, a request to begin may arrive late, twice or after its sender's death, its reply may be lost, the
gateway may die, and ten seconds may pass at any time. The moves of the row are those of `protocol.py`, which
`test_moves_machine.py` plays against every store.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.requirement import requirement
from tests.store import protocol
from tests.store.protocol import Row, World

IDS = ("ops/x", "ops/y")
MOST_OFFERS = 3
MOST_CRASHES = 1
CALL = "call_1"

Report = Callable[..., World | None]


class Server(Struct, frozen=True):
    """One tool server as it is now. `claim` is the offer that it asks to begin under, `newest` the last it heard of."""

    is_connected: bool = True
    is_restarted: bool = False
    """A process that is younger than the call, which it does not know."""
    given: bool = False
    """Whether this connection had the call already."""
    claim: int = 0
    newest: int = 0
    has_begun: bool = False
    is_waiting: bool = False
    """For the reply to its request."""


class State(Struct, frozen=True):
    """Everything that matters, at one moment."""

    row: Row
    servers: tuple[Server, Server] = (Server(), Server())
    frames: frozenset[tuple[int, int]] = frozenset()
    """Offers on their way: server and number."""
    asking: frozenset[tuple[int, int]] = frozenset()
    """Requests to begin on their way, and those that a dead process has sent."""
    replies: frozenset[tuple[int, int, bool]] = frozenset()
    begun: int = 0
    crashes: int = 0


def fresh_row() -> Row:
    return Row(
        id=CALL,
        tool="pay",
        agent=None,
        idempotent=False,
        waiter=None,
        timeout=10,
        expires_in=10,
        created=0,
        arguments="{}",
        status="pending",
        delivery="inbox",
        first_reply="pending",
    )


def world_of(row: Row) -> World:
    return World(now=0, rows={row.id: row}, gateways={"gw": protocol.Lease(1)})


def with_server(state: State, place: int, **changes: object) -> State:
    servers = list(state.servers)
    servers[place] = replace(servers[place], **changes)
    return replace(state, servers=tuple(servers))


def after_offer(state: State, place: int) -> Iterator[State]:
    server = state.servers[place]
    if not server.is_connected or server.given or state.row.offers >= MOST_OFFERS:
        return
    world = protocol.offer(world_of(state.row), state.row, client=IDS[place], gateway="gw")
    if world is not None:
        row = world.rows[CALL]
        frames = state.frames | {(place, row.offers)}
        yield replace(with_server(state, place, given=True), row=row, frames=frames)


def after_frame(state: State, place: int, number: int) -> Iterator[State]:
    """What the SDK does with an offer (`serving.py`): know it, refuse it, or ask to begin."""
    server = state.servers[place]
    heard = replace(state, frames=state.frames - {(place, number)})
    if server.has_begun:
        yield heard
    elif server.claim:
        yield with_server(heard, place, newest=max(server.newest, number))
    elif server.is_restarted and number > 1:
        yield replace(heard, row=replace(state.row, status="failed"))  # answered as interrupted
    else:
        asks = with_server(heard, place, claim=number, newest=number, is_waiting=True)
        yield replace(asks, asking=asks.asking | {(place, number)})


def after_request(state: State, place: int, number: int, *, report: Report) -> Iterator[State]:
    """The request reaches the store; it may still be on its way a second time."""
    row, is_taken = state.row, False
    if row.is_open_to_answers:
        world = report(world_of(row), row, limit=0, holder=IDS[place], offer=number, begins=True)
        is_taken, row = world is not None, world.rows[CALL] if world else row
    for asking in (state.asking - {(place, number)}, state.asking):
        yield replace(state, row=row, asking=asking, replies=state.replies | {(place, number, is_taken)})


def after_reply(state: State, place: int, number: int, *, is_taken: bool) -> Iterator[State]:
    server = state.servers[place]
    heard = replace(state, replies=state.replies - {(place, number, is_taken)})
    yield heard  # lost
    if not server.is_waiting or server.claim != number or server.has_begun:
        return
    if is_taken:
        yield replace(with_server(heard, place, has_begun=True, is_waiting=False), begun=state.begun + 1)
    elif server.newest > number:
        again = with_server(heard, place, claim=server.newest)
        yield replace(again, asking=again.asking | {(place, server.newest)})
    else:
        yield with_server(heard, place, claim=0, newest=0, is_waiting=False)


def after_break(state: State, place: int) -> Iterator[State]:
    """The stream breaks: what was on its way over it is lost, and the gateway notices."""
    if state.servers[place].is_connected:
        frames = frozenset(frame for frame in state.frames if frame[0] != place)
        world = protocol.server_left(world_of(state.row), client=IDS[place], gateway="gw")
        broken = with_server(state, place, is_connected=False, given=False)
        yield replace(broken, row=world.rows[CALL], frames=frames)
    else:
        yield with_server(state, place, is_connected=True)


def after_crash(state: State, place: int) -> Iterator[State]:
    """The process dies and another begins under its id. What it had sent still arrives."""
    if state.crashes < MOST_CRASHES:
        [broken] = after_break(with_server(state, place, is_connected=True), place)
        servers = list(broken.servers)
        servers[place] = Server(is_restarted=True)
        replies = frozenset(reply for reply in broken.replies if reply[0] != place)
        yield replace(broken, servers=tuple(servers), replies=replies, crashes=state.crashes + 1)


def after_gateways_death(state: State) -> Iterator[State]:
    if state.crashes < MOST_CRASHES:
        world = replace(world_of(state.row), gateways={"gw": protocol.Lease(1, dead=True)})
        servers = tuple(replace(one, is_connected=False, given=False) for one in state.servers)
        row = protocol.release_all(world).rows[CALL]
        yield replace(
            state, row=row, servers=servers, frames=frozenset(), replies=frozenset(), crashes=state.crashes + 1
        )


def after_ten_seconds(state: State) -> Iterator[State]:
    world = replace(world_of(state.row), now=protocol.GONE_MS)
    row = protocol.release(world).rows[CALL]
    if row != state.row:
        yield replace(state, row=row)


def after_asking_again(state: State, place: int) -> Iterator[State]:
    """No reply has come: the server asks once more, under the same offer."""
    server = state.servers[place]
    if server.is_waiting and (place, server.claim) not in state.asking:
        yield replace(state, asking=state.asking | {(place, server.claim)})


def successors(state: State, *, report: Report) -> Iterator[State]:
    if not state.row.is_open_to_answers:
        return
    for place in range(len(IDS)):
        for move in (after_offer, after_break, after_crash, after_asking_again):
            yield from move(state, place)
    for frame in state.frames:
        yield from after_frame(state, *frame)
    for request in state.asking:
        yield from after_request(state, *request, report=report)
    for place, number, is_taken in state.replies:
        yield from after_reply(state, place, number, is_taken=is_taken)
    yield from after_gateways_death(state)
    yield from after_ten_seconds(state)


def search(report: Report = protocol.report) -> dict[State, list[State]]:
    """Every state that can be reached, each with those it leads to."""
    start = State(fresh_row())
    found: dict[State, list[State]] = {}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if state in found:
            continue
        assert state.begun <= 1, f"begun twice: {state}"
        found[state] = list(successors(state, report=report))
        waiting.extend(found[state])
    return found


@requirement("CON-stream-one-server")
def test_no_order_of_events_begins_a_call_twice_and_none_leaves_it_to_nobody() -> None:
    found = search()
    assert len(found) > 10_000, "the search saw too little to mean anything"
    assert any(state.begun for state in found)
    # Wherever nothing is begun and there are offers left to make, somebody still can begin or has answered.
    can_end = {state for state in found if state.begun or not state.row.is_open_to_answers}
    before: dict[State, list[State]] = {}
    for state, nexts in found.items():
        for after in nexts:
            before.setdefault(after, []).append(state)
    waiting = list(can_end)
    while waiting:
        for state in before.get(waiting.pop(), []):
            if state not in can_end:
                can_end.add(state)
                waiting.append(state)
    stuck = [
        state for state in found if state not in can_end and state.row.offers < MOST_OFFERS and not state.row.begun
    ]
    assert not stuck, stuck[0]


def _of_any_offer(world: World, row: Row, *, offer: int, **given: Any) -> World | None:
    """Spoilt: whoever asks is taken for the one that has the call now."""
    assert offer
    return protocol.report(world, row, offer=row.offers, **given)


def _unnoted(world: World, row: Row, *, offer: int, **given: Any) -> World | None:
    """Spoilt: that somebody has begun is not kept."""
    after = protocol.report(world, row, offer=offer, **given)
    return after and after.with_row(replace(after.rows[CALL], begun=0))


@pytest.mark.parametrize("spoilt", [_of_any_offer, _unnoted])
def test_the_search_finds_a_store_that_lets_two_begin(spoilt: Report) -> None:
    with pytest.raises(AssertionError, match="begun twice"):
        search(spoilt)
