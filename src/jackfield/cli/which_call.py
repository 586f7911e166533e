"""Which call a person means by an id, or by the beginning of one; and how to say that it does not wait any more.

Above: `approve.py`, `reject.py` and `answer.py`. Below: the SDK.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jackfield.cli.usage import UsageError
from jackfield.errors import CallNotFound, Conflict, Expired
from jackfield.sdk import CallRecord, Client

PREFIX = "call_"
FEWEST = 4
"""Characters that must be given of an id: one slip of the finger must not allow a call."""
_SHOWN = 5
_SEE = "'jackfield pending' lists what waits."


async def find_call(client: Client, text: str) -> CallRecord:
    """The call with this id, else the one waiting call whose id begins so."""
    try:
        return await client.calls.get(text)
    except CallNotFound:
        beginning = PREFIX + text.removeprefix(PREFIX)
    if len(beginning) < len(PREFIX) + FEWEST:
        raise UsageError(f"'{text}' is too little of an id. Give more of it; {_SEE}")
    found = [call for call in await client.calls.pending() if call.id.startswith(beginning)]
    if not found:
        raise CallNotFound(f"There is no call '{text}', and none that waits begins so. {_SEE}", param="id")
    if len(found) > 1:
        shown = ", ".join(f"{call.id} ({call.tool})" for call in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(f"'{text}' is the beginning of several calls that wait: {shown}{more}. Give more of it.")
    return found[0]


def check_waits_for(call: CallRecord, *, approval: bool) -> None:
    """Say how to go about a call that waits for the other of the two: a permission, or an answer."""
    if approval and call.status in ("pending", "waiting"):
        raise UsageError(
            f"Call {call.id} of '{call.tool}' needs no permission but an answer: jackfield answer {call.id} JSON."
        )
    if not approval and call.status == "pending_approval":
        raise UsageError(
            f"Call {call.id} of '{call.tool}' must be allowed before it can be answered: jackfield approve {call.id}."
        )


@contextmanager
def too_late_is_said(call: CallRecord) -> Iterator[None]:
    """A refusal because the call is over or gone, with the call's tool and what to do."""
    try:
        yield
    except Expired:
        raise Expired(
            f"Call {call.id} of '{call.tool}' has expired: nobody answered in time. It must be called again."
        ) from None
    except Conflict as fault:
        raise type(fault)(f"{fault.message} Nothing was changed. {_SEE}", param=fault.param) from None
