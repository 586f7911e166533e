"""The one way out: every request that the gateway makes to a url goes through `Outgoing`.

Where a url leads is decided by the address it resolves to, at the moment of connecting, so that neither a
spelling nor a second DNS answer gets around it. `errors.py` the ways it ends badly, `addresses.py` which
addresses are closed, `urls.py` what a usable url is, `network.py` connects, `transport.py` follows
redirects, `lines.py` keeps plain connections for who asks often, `client.py` is what the sources hold. May
import: errors. Never: a source, or anything above.
"""

from jackfield.sources.outgoing.client import MAX_BYTES, Answer, Outgoing, StreamedAnswer
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

__all__ = [
    "MAX_BYTES",
    "Answer",
    "Outgoing",
    "OutgoingBadAnswer",
    "OutgoingBadUrl",
    "OutgoingError",
    "OutgoingFailed",
    "OutgoingNotSent",
    "OutgoingRefused",
    "OutgoingTimedOut",
    "OutgoingUnreachable",
    "StreamedAnswer",
]
