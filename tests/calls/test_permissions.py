"""Who may see, answer and stop which call."""

import pytest

from jackfield.calls.permissions import may_answer, may_see, may_stop
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.model.tool import PROGRAMS
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call

RUN_HERE = a_call(principal="caller", tool="lookup")
WAITING = a_waiting_call(principal="caller", tool="lookup")
PENDING = a_pending_call(principal="caller", tool="lookup")
ASKING = a_call_for_approval(principal="caller", tool="lookup")


def key(name: str, *scopes: str, tools: tuple[str, ...] | None = None) -> Principal:
    return Principal(name=name, scopes=frozenset(scopes), tools=tools)


ADMIN, OWNER, RIVAL = key("admin", "admin"), key("caller", "call"), key("rival", "call", "read")
PERSON, SERVER, OTHER = key("person", "answer"), key("server", "worker:look*"), key("other", "worker:mail")
AGENT, LIMITED = key("ada", "agent:ada"), key("clerk", "answer", tools=("mail", "crm:*"))


@pytest.mark.parametrize(
    ("principal", "run_here", "for_others"),
    [
        (ADMIN, True, True),
        (OWNER, True, True),
        (RIVAL, False, False),
        (AGENT, False, False),
        (PERSON, False, True),
        (SERVER, False, True),
        (OTHER, False, False),
        (LIMITED, False, False),
    ],
    ids=lambda value: value.name if isinstance(value, Principal) else str(value),
)
def test_a_key_sees_its_own_calls_and_those_it_may_answer(
    principal: Principal, *, run_here: bool, for_others: bool
) -> None:
    assert may_see(principal, RUN_HERE) is run_here
    assert {may_see(principal, call) for call in (WAITING, PENDING, ASKING)} == {for_others}


@pytest.mark.parametrize(
    ("principal", "may"),
    [(ADMIN, True), (PERSON, True), (SERVER, True), (OWNER, False), (RIVAL, False), (OTHER, False), (LIMITED, False)],
    ids=lambda value: value.name if isinstance(value, Principal) else str(value),
)
def test_answers_are_taken_from_who_answers_or_serves_the_tool(principal: Principal, *, may: bool) -> None:
    assert may_answer(principal, PENDING) is may


@requirement("CONSOLE-waiting-programs")
def test_nobody_answers_the_call_that_started_a_program() -> None:
    program = a_pending_call(principal="caller", tool="run_program", source=PROGRAMS)
    assert not any(may_answer(principal, program) for principal in (ADMIN, OWNER, PERSON))
    assert [may_see(principal, program) for principal in (ADMIN, OWNER, PERSON)] == [True, True, False]


def test_a_limited_key_answers_the_tools_it_is_limited_to() -> None:
    assert may_answer(LIMITED, a_pending_call(tool="mail"))
    assert may_answer(LIMITED, a_pending_call(tool="anything", source="crm"))
    assert not may_answer(LIMITED, a_pending_call(tool="anything"))


@pytest.mark.parametrize("call", [RUN_HERE, WAITING, PENDING, ASKING], ids=lambda call: call.status.value)
def test_a_call_is_stopped_by_its_owner_and_an_administrator(call: Call) -> None:
    stoppers = (ADMIN, OWNER, RIVAL, PERSON, SERVER)
    assert [may_stop(principal, call) for principal in stoppers] == [True, True, False, False, False]
