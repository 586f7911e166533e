"""Which targets an event is for, and what it tells them. Pure: a store runs this inside the event's transaction.

Above: `service.py`, which gives it to the store. Below: the scripts of the outbox.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from jackfield.model.call import Call, CallError, CallStatus
from jackfield.model.event import Event
from jackfield.model.ids import new_id
from jackfield.model.text import iso_time
from jackfield.notify.transactions import put_notification
from jackfield.notify.types import Target
from jackfield.store.scripts import EventRecorder, Script

_encode = msgspec.json.Encoder().encode
LARGEST_ARGUMENTS = 100_000
"""Bytes of a call's arguments that a notification carries; larger ones are on the record alone."""


class CallData(Struct, frozen=True, kw_only=True):
    """What is told of a call."""

    call_id: str
    run_id: str
    tool: str
    source: str
    kind: str
    principal: str
    agent: str | None
    status: CallStatus
    arguments: Raw | None
    """None: too large; the record has them."""
    error: CallError | None
    created_at: str
    expires_at: str | None
    login_source: str | None
    reason: str | None
    """Why hooks asked for an approval."""


def recorder_of(targets: Iterable[Target]) -> EventRecorder | None:
    """What writes the outbox; None: nobody wants to be told of anything."""
    known = tuple(targets)
    types = frozenset(type_ for target in known for type_ in target.settings.on)

    def script(event: Event) -> Script[None]:
        wanting = [target for target in known if target.wants(event)]
        data = data_of(event) if wanting else ""
        for target in wanting:
            yield from put_notification(
                new_id("msg"), target=target.name, type=event.type, data=data, event_key=event.key
            )

    return EventRecorder(types=types, script=script) if types else None


def data_of(event: Event) -> str:
    """The `data` of an event."""
    return _encode(event.details if event.call is None else _call_data(event.call)).decode()


def _call_data(call: Call) -> CallData:
    return CallData(
        call_id=call.id,
        run_id=call.run_id,
        tool=call.tool,
        source=call.source,
        kind=call.kind.value,
        principal=call.principal,
        agent=call.agent,
        status=call.status,
        arguments=call.arguments if len(bytes(call.arguments)) <= LARGEST_ARGUMENTS else None,
        error=call.error,
        created_at=iso_time(call.created_at),
        expires_at=None if call.expires_at is None else iso_time(call.expires_at),
        login_source=None if call.login is None else call.login.source,
        reason=call.asked_because,
    )
