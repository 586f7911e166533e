"""The HTTP client of the gateway: requests to servers that others run, guarded against private networks.

`client.py` sends requests and follows redirects, `pool.py` keeps the connections, `guard.py` decides by the resolved
address whether a host may be reached, `urls.py` parses urls, `errors.py` has the errors, `answers.py` notes on them
what a server answered.
"""

from jackfield.outgoing.answers import answers_noted_on, with_answer
from jackfield.outgoing.client import MAX_BYTES, Outgoing, OutgoingResponse
from jackfield.outgoing.errors import (
    OutgoingBadAnswer,
    OutgoingBadUrl,
    OutgoingError,
    OutgoingFailed,
    OutgoingNotSent,
    OutgoingRefused,
    OutgoingTimedOut,
    OutgoingUnreachable,
)
from jackfield.outgoing.pool import StreamedResponse

__all__ = [
    "MAX_BYTES",
    "Outgoing",
    "OutgoingBadAnswer",
    "OutgoingBadUrl",
    "OutgoingError",
    "OutgoingFailed",
    "OutgoingNotSent",
    "OutgoingRefused",
    "OutgoingResponse",
    "OutgoingTimedOut",
    "OutgoingUnreachable",
    "StreamedResponse",
    "answers_noted_on",
    "with_answer",
]
