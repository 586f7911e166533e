"""McpSessions are bounded, forgotten when nobody uses them, and never while somebody does."""

import pytest

from jackfield.catalog.changes import ListFollower
from jackfield.catalog.view import Visibility
from jackfield.errors import Unavailable
from jackfield.mcp.sessions import IDLE_SECONDS, MAX_FOUND, McpSession, McpSessions
from jackfield.model.principal import Principal
from tests.clock import Clock

ADA = Principal(name="ada", scopes=frozenset({"call"}))
BOB = Principal(name="bob", scopes=frozenset({"call"}))


def opened(sessions: McpSessions, principal: Principal = ADA) -> McpSession:
    return sessions.open(principal, revision="2025-11-25", capabilities={})


def test_a_session_is_found_by_its_own_key_only() -> None:
    sessions = McpSessions()
    session = opened(sessions)
    assert sessions.find(session.id, ADA) is session
    assert sessions.find(session.id, BOB) is None
    assert sessions.find("other", ADA) is None
    assert len(session.id) >= 32


def test_a_session_that_nobody_uses_is_forgotten_and_use_keeps_it() -> None:
    clock = Clock()
    sessions = McpSessions(clock=clock)
    idle, used = opened(sessions), opened(sessions)
    clock.now += IDLE_SECONDS - 1
    assert sessions.find(used.id, ADA) is used
    clock.now += 2
    assert sessions.find(idle.id, ADA) is None
    assert sessions.find(used.id, ADA) is used
    assert len(sessions) == 1


def test_a_session_with_an_open_stream_is_in_use_however_quiet_it_is() -> None:
    clock = Clock()
    sessions = McpSessions(clock=clock)
    session = opened(sessions)
    follower = ListFollower(Visibility(all_tools=True))
    session.follow(follower)
    clock.now += 10 * IDLE_SECONDS
    assert sessions.find(session.id, ADA) is session
    session.unfollow(follower)
    clock.now += IDLE_SECONDS + 1
    assert sessions.find(session.id, ADA) is None


def test_a_new_session_takes_the_place_of_the_one_that_was_idle_longest() -> None:
    sessions = McpSessions(limit=2)
    first, second = opened(sessions), opened(sessions)
    sessions.find(first.id, ADA)
    third = opened(sessions)
    assert [sessions.find(session.id, ADA) for session in (first, second, third)] == [first, None, third]


def test_when_all_sessions_are_in_use_a_new_one_is_refused() -> None:
    sessions = McpSessions(limit=1)
    opened(sessions).follow(ListFollower(Visibility(all_tools=True)))
    with pytest.raises(Unavailable, match="1 MCP sessions are open"):
        opened(sessions)


def test_what_was_found_is_bounded_too() -> None:
    session = opened(McpSessions())
    assert session.remember(["a", "b"])
    assert not session.remember(["b"])
    assert session.remember([f"tool_{number}" for number in range(MAX_FOUND)])
    assert len(session.found) == MAX_FOUND
    assert "a" not in session.found
