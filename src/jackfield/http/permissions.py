"""What a key must be good for where no single scope says it. Pure.

Above: `routes.py`, whose routes name one, and `authentication.py`, which asks. Below: the principal.
"""

from collections.abc import Callable

from msgspec import Struct

from jackfield.model.principal import Principal, Scope


class Permission(Struct, frozen=True):
    """A rule about keys, and how it is told."""

    says: str
    """The scopes that are enough, as they stand in a sentence after "needs"."""
    holds: Callable[[Principal], bool]


def _sees_calls(principal: Principal) -> bool:
    return principal.may(Scope.READ) or principal.may(Scope.ANSWER)


def _answers(principal: Principal) -> bool:
    return principal.may(Scope.ANSWER) or bool(principal.named("worker"))


def _serves(principal: Principal) -> bool:
    return principal.is_admin or bool(principal.named("worker"))


def _has_inbox(principal: Principal) -> bool:
    return principal.is_admin or bool(principal.named("agent"))


def _sees_spaces(principal: Principal) -> bool:
    return principal.may(Scope.READ) and not principal.only_serves


def _speaks(principal: Principal) -> bool:
    return principal.may(Scope.CALL)


ANYBODY_KNOWN = Permission("a key", lambda principal: bool(principal.name))
"""Whoever is signed in, whatever for."""
SEES_CALLS = Permission("the scope 'read' or 'answer'", _sees_calls)
"""Everybody with calls of their own, and who answers those of others."""
ANSWERS = Permission("the scope 'answer' or 'worker:TOOL'", _answers)
"""Whose results are taken; of which calls, the call decides."""
SERVES = Permission("the scope 'worker:TOOL'", _serves)
"""A tool server."""
HAS_INBOX = Permission("the scope 'agent:NAME'", _has_inbox)
"""An agent; which one, the handler asks."""
SEES_SPACES = Permission("the scope 'read' or 'agent:NAME'", _sees_spaces)
"""Who lists, reads and follows spaces; an agent those that it is in."""
SPEAKS = Permission("the scope 'call' or 'agent:NAME'", _speaks)
"""Who says something in spaces, as itself."""
