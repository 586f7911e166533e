"""Who may see, answer and stop a call: the one place for these rules.

A key has its own calls. Beside them it sees those that wait, or waited, for an answer that it may give. Pure.
Above: answers, the executor and the handlers. Below: the model.
"""

from typing import Protocol

from jackfield.catalog.globs import compiled
from jackfield.model.call import LoginWait
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import CALLER, PROGRAMS

_AGENT = "agent:"


class Subject(Protocol):
    """What the rules look at: a call, or an event of one."""

    @property
    def principal(self) -> str: ...

    @property
    def tool(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def for_others(self) -> bool: ...


def may_see(principal: Principal, call: Subject) -> bool:
    """Whether the record and the events of this call are shown to this key."""
    return may_stop(principal, call) or (call.for_others and may_answer(principal, call))


def may_answer(principal: Principal, call: Subject) -> bool:
    """Whether results of this call are taken from this key. Relayed calls are their session's owner's alone; that of a
    program is settled by its program, and by nobody else.
    """
    if call.source == PROGRAMS:
        return False
    if call.source == CALLER:
        return principal.name == call.principal
    return in_reach(principal, call) and (principal.may(Scope.ANSWER) or principal.may_serve(call.tool))


def may_allow(principal: Principal, call: Subject) -> bool:
    """Whether this key may say yes or no to a call that waits for that."""
    return principal.may(Scope.ANSWER) and in_reach(principal, call)


def asked_for(principal: Principal, call: Subject) -> bool:
    """Whether the call was made with this key, or in its name."""
    return principal.on_record == call.principal


class WaitsForLogin(Protocol):
    """A call that may wait for a login, or an event of one."""

    @property
    def login(self) -> LoginWait | None: ...


def may_log_in(principal: Principal, call: WaitsForLogin) -> bool:
    """Whether the login that this call waits for is this principal's to make: its own; an administrator's, where it
    is one for all or an agent's own.
    """
    if call.login is None:
        return False
    whose = call.login.principal
    if whose is None or whose.startswith(_AGENT):
        is_agent = whose is not None and whose.removeprefix(_AGENT) in principal.named("agent")
        return is_agent or (principal.is_admin and not principal.is_limited)
    return principal.on_record == whose


def may_stop(principal: Principal, call: Subject) -> bool:
    """Whether this key may cancel the call: it made it, or is an administrator's."""
    return principal.is_admin or principal.on_record == call.principal


def in_reach(principal: Principal, call: Subject) -> bool:
    """Whether the call's tool is one of those that the key is limited to."""
    return all(
        compiled(patterns).match(call.tool, source=call.source, foreign=call.tool) for patterns in principal.limits
    )
