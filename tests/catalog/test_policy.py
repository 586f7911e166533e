"""May this call be made: every refusal, its order, and that nothing unclear gets through."""

import json
from itertools import combinations
from typing import Any

import pytest

from jackfield.catalog.policy import Allow, Ask, Decision, Deny, Refuse, acting_agent, decide
from jackfield.errors import Forbidden, RateLimited, Refused, ToolDisabled, status_of
from jackfield.model.principal import Principal
from jackfield.model.tool import Metadata
from tests.catalog.given import entry, key


def decision(
    principal: Principal | None = None,
    *,
    agent: str | None = None,
    space_id: str | None = None,
    enabled: bool = True,
    retry_after: float = 0.0,
    **tool: Any,
) -> Decision:
    found = entry(**tool)
    return decide(
        found,
        principal=principal or key("call"),
        agent=agent,
        space_id=space_id,
        enabled=enabled,
        requires_approval=found.tool.metadata.requires_approval,
        retry_after=retry_after,
    )


def refusal(decided: Decision) -> Refused:
    assert isinstance(decided, Deny)
    return decided.error


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        (("admin",), True),
        (("call",), True),
        (("read", "call"), True),
        (("agent:concierge",), True),
        (("read",), False),
        (("answer",), False),
        (("worker:*",), False),
        (("session:s1",), False),
        (("read", "answer", "worker:*", "session:s1"), False),
        ((), False),
    ],
)
def test_only_a_key_that_may_call_calls(*, scopes: tuple[str, ...], may: bool) -> None:
    decided = decision(key(*scopes))
    if may:
        assert decided == Allow()
    else:
        error = refusal(decided)
        assert type(error) is Forbidden
        assert "'ops' may not call tools" in error.message


@pytest.mark.parametrize(
    ("scopes", "agent", "may"),
    [
        (("call",), "concierge", True),
        (("admin",), "concierge", True),
        (("agent:concierge",), "concierge", True),
        (("agent:concierge",), "butler", False),
        (("agent:concierge", "agent:butler"), "butler", True),
        (("agent:concierge", "agent:butler"), None, False),
        (("agent:concierge", "call"), "butler", False),
        (("agent:concierge", "call"), None, True),
        (("agent:concierge",), "", False),
    ],
)
def test_a_key_of_an_agent_acts_as_that_agent_alone(*, scopes: tuple[str, ...], agent: str | None, may: bool) -> None:
    decided = decision(key(*scopes), agent=agent)
    assert isinstance(decided, Allow if may else Deny)


@pytest.mark.parametrize(
    ("scopes", "given", "acting"),
    [
        (("call",), None, None),
        (("call",), "butler", "butler"),
        (("agent:concierge",), None, "concierge"),
        (("agent:concierge", "call"), None, None),
        (("agent:concierge", "agent:butler"), None, None),
    ],
)
def test_a_key_of_one_agent_is_that_agent_without_saying_so(
    scopes: tuple[str, ...], given: str | None, acting: str | None
) -> None:
    assert acting_agent(key(*scopes), given) == acting


@pytest.mark.parametrize(
    ("tools", "may"),
    [
        (None, True),
        ((), False),
        (("weather",), True),
        (("acme:*",), True),
        (("other", "wea*"), True),
        (("local:*",), False),
    ],
)
def test_a_key_that_is_limited_to_tools_calls_no_other(*, tools: tuple[str, ...] | None, may: bool) -> None:
    decided = decision(key("admin", tools=tools))
    assert isinstance(decided, Allow if may else Deny)
    if not may:
        assert "'ops' may not call 'weather'" in refusal(decided).message


def test_a_tool_that_is_switched_off_is_not_called() -> None:
    error = refusal(decision(enabled=False))
    assert type(error) is ToolDisabled
    assert (error.code, status_of(error)) == ("disabled", 403)


def test_a_visible_tool_needs_a_space_when_an_agent_calls() -> None:
    decided = decision(agent="concierge", visible=True)
    assert isinstance(decided, Refuse)
    text = 'Tool "weather" is visible but you are not in a space. Call enter_space first.'
    assert (decided.outcome.code, decided.outcome.message) == ("no_space", text)
    assert decided.outcome.result is not None
    assert json.loads(bytes(decided.outcome.result)) == {"error": text}


def test_an_agents_own_key_cannot_go_around_the_space_by_leaving_the_agent_out() -> None:
    assert isinstance(decision(key("agent:concierge"), visible=True), Refuse)


@pytest.mark.parametrize(
    ("agent", "space_id", "visible"),
    [("concierge", "lobby", True), (None, None, True), ("concierge", None, False), (None, "lobby", True)],
)
def test_no_space_is_needed_otherwise(*, agent: str | None, space_id: str | None, visible: bool) -> None:
    assert decision(agent=agent, space_id=space_id, visible=visible) == Allow()


def test_an_empty_space_is_no_space() -> None:
    assert isinstance(decision(agent="concierge", space_id="", visible=True), Refuse)


def test_a_call_past_the_limit_is_refused_with_the_time_to_wait() -> None:
    error = refusal(decision(retry_after=12.2, metadata=Metadata(rate_limit_per_minute=5)))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 12.2
    assert error.message == "Tool 'weather' takes 5 calls a minute. Try again in 13 s."


def test_a_wait_that_is_no_number_opens_nothing() -> None:
    error = refusal(decision(retry_after=float("nan")))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 60.0


def test_a_tool_that_requires_approval_asks() -> None:
    decided = decision(metadata=Metadata(requires_approval=True))
    assert decided == Ask("Tool 'weather' needs a person's approval before each call.")


HURDLES: dict[str, dict[str, Any]] = {
    "scope": {"principal": key("read", tools=("weather",))},
    "tools": {"principal": key("call", tools=("other",))},
    "disabled": {"enabled": False},
    "no_space": {"visible": True, "agent": "concierge"},
    "rate": {"retry_after": 5.0},
    "approval": {"metadata": Metadata(requires_approval=True)},
}


def hurdle_met(decided: Decision) -> str:
    if isinstance(decided, Ask):
        return "approval"
    if isinstance(decided, Refuse):
        return decided.outcome.code
    error = refusal(decided)
    if isinstance(error, ToolDisabled | RateLimited):
        return "disabled" if isinstance(error, ToolDisabled) else "rate"
    return "scope" if "may not call tools" in error.message else "tools"


@pytest.mark.parametrize(("first", "second"), list(combinations(HURDLES, 2)))
def test_of_two_hurdles_the_earlier_one_is_told(first: str, second: str) -> None:
    assert hurdle_met(decision(**{**HURDLES[second], **HURDLES[first]})) == first
