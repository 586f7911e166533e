"""The HTTP client that every source uses: guarded against requests into private networks.

`client.py` sends requests and follows redirects, `pool.py` keeps the connections, `app.py` decides by the resolved
address whether a host may be reached, `urls.py` parses urls, `errors.py` has the errors.
"""

from jackfield.sources.outgoing.client import MAX_BYTES, Outgoing, OutgoingResponse
from jackfield.sources.outgoing.errors import (
    OutgoingBadAnswer,
    OutgoingBadUrl,
    OutgoingError,
    OutgoingFailed,
    OutgoingNotSent,
    OutgoingRefused,
    OutgoingTimedOut,
    OutgoingUnreachable,
)
from jackfield.sources.outgoing.pool import StreamedResponse

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
]
