"""What a hook is told, what it answers, and what comes of that. Pure, but for the protocol `Asked`."""

from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import Call, CallError, Done, Failed, HookNote
from jackfield.protocol.json_bodies import UNREADABLE

On = Literal["before_call", "after_call"]
BEFORE: On = "before_call"
AFTER: On = "after_call"
MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes of what a hook is told, and of its answer."""
LONGEST_REASON = 1_000

_encode = msgspec.json.Encoder().encode


class HookFailed(Exception):
    """A hook gave no usable answer. The message is for the caller; `detail` is for the operator."""

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail or message


class _CallFacts(Struct, frozen=True, kw_only=True):
    id: str
    tool: str
    source: str
    principal: str
    agent: str | None
    run_id: str
    arguments: Raw
    result: Raw | UnsetType = UNSET
    error: CallError | UnsetType = UNSET


class _Event(Struct, frozen=True, kw_only=True):
    event: On
    call: _CallFacts
    options: dict[str, Any] | UnsetType = UNSET


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What a hook says."""

    decision: Literal["allow", "pass", "deny", "ask", "replace", "withhold"]
    reason: str | None = None
    arguments: dict[str, Any] | None = None
    result: Raw | UnsetType = UNSET


class Asked(Protocol):
    """Where a hook is: somebody who takes an event and answers in JSON."""

    async def ask(self, event: bytes, *, timeout: float) -> bytes:
        """The answer, unparsed. Raises `HookFailed`; cancelling stops the hook."""


class Decided(Struct, frozen=True, kw_only=True):
    """What the hooks before a call came to."""

    notes: tuple[HookNote, ...]
    arguments: dict[str, Any] | None = None
    """Others than were asked, already checked."""
    denied: str | None = None
    """Why the call is not made, as its caller is told."""
    asks: bool = False
    """A person has to allow it."""


class Reviewed(Struct, frozen=True, kw_only=True):
    """What the hooks after a call came to."""

    outcome: Done | Failed
    notes: tuple[HookNote, ...]
    withheld: Done | Failed | None = None


def event_of(on: On, call: Call, outcome: Done | Failed | None, options: dict[str, Any]) -> bytes:
    """What a hook is told of a call."""
    failed = outcome if isinstance(outcome, Failed) else None
    result = None if outcome is None else outcome.result
    facts = _CallFacts(
        id=call.id,
        tool=call.tool,
        source=call.source,
        principal=call.principal,
        agent=call.agent,
        run_id=call.run_id,
        arguments=call.arguments,
        result=UNSET if result is None else result,
        error=UNSET if failed is None else CallError(failed.code, failed.message),
    )
    event = _encode(_Event(event=on, call=facts, options=options or UNSET))
    if len(event) > MAX_MESSAGE:
        raise HookFailed(f"the call is larger than the {MAX_MESSAGE // 1024 // 1024} MB that a hook is given")
    return event


_ALLOWED: dict[On, frozenset[str]] = {
    BEFORE: frozenset({"allow", "deny", "ask", "replace"}),
    AFTER: frozenset({"allow", "pass", "replace", "withhold"}),
}
_decode = msgspec.json.Decoder(HookAnswer).decode


def answer_from(said: bytes, on: On) -> HookAnswer:
    """The answer, if it is one to this event. Raises `HookFailed`."""
    if len(said) > MAX_MESSAGE:
        raise HookFailed(f"it answered with more than {MAX_MESSAGE // 1024 // 1024} MB")
    try:
        answer = _decode(said)
    except UNREADABLE as fault:
        raise HookFailed("its answer is not a decision", detail=f"its answer is not a decision: {fault}") from None
    if answer.decision not in _ALLOWED[on]:
        raise HookFailed(f"it answered '{answer.decision}', which is no answer to {on}")
    if answer.decision == "replace" and (answer.arguments is None if on == BEFORE else answer.result is UNSET):
        missing = "arguments" if on == BEFORE else "a result"
        raise HookFailed(f"it answered 'replace' without {missing}")
    return answer
