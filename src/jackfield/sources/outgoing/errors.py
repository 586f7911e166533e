"""Every way an outgoing request ends without an answer.

    OutgoingError
    ├── OutgoingRefused         outgoing_refused    the guard said no; nothing was sent there
    └── OutgoingFailed          outgoing_failed     it was tried
        ├── OutgoingBadUrl      invalid_url         the url names no place that HTTP can reach
        ├── OutgoingUnreachable unreachable         no such host, nobody listens, TLS or connection broke
        │   └── OutgoingNotSent                     and nothing was sent
        ├── OutgoingTimedOut    timeout             no whole answer in time
        └── OutgoingBadAnswer   bad_response        too large, too many redirects, or not HTTP

They are httpx2 errors too, so that code which was written for httpx2 and is lent our client (the MCP SDK)
takes them for what they are: a request that failed.
"""

import httpx2

from jackfield.errors import JackfieldError


class OutgoingError(JackfieldError, httpx2.TransportError):
    code = "outgoing_error"


class OutgoingRefused(OutgoingError):
    code = "outgoing_refused"


class OutgoingFailed(OutgoingError):
    code = "outgoing_failed"


class OutgoingBadUrl(OutgoingFailed):
    code = "invalid_url"


class OutgoingUnreachable(OutgoingFailed, httpx2.NetworkError):
    code = "unreachable"


class OutgoingNotSent(OutgoingUnreachable):
    """There was no connection to send on."""


class OutgoingTimedOut(OutgoingFailed, httpx2.TimeoutException):
    code = "timeout"


class OutgoingBadAnswer(OutgoingFailed, httpx2.ProtocolError):
    code = "bad_response"
