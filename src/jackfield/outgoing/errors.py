"""Every way an outgoing request ends without an answer.

OutgoingError
├── OutgoingRefused         outgoing_refused    the address check refused it; nothing was sent
└── OutgoingFailed          outgoing_failed     it was tried
    ├── OutgoingBadUrl      invalid_url         the url is not one that HTTP can reach
    ├── OutgoingUnreachable unreachable         no such host, nobody listens, TLS or connection broke
    │   └── OutgoingNotSent                     and nothing was sent
    ├── OutgoingTimedOut    timeout             no complete response in time
    └── OutgoingBadAnswer   bad_response        too large, too many redirects, or not HTTP
"""

from jackfield.errors import JackfieldError


class OutgoingError(JackfieldError):
    """A request to another server got no answer."""

    code = "outgoing_error"


class OutgoingRefused(OutgoingError):
    """The address check refused it; nothing was sent."""

    code = "outgoing_refused"


class OutgoingFailed(OutgoingError):
    """The request was tried and failed."""

    code = "outgoing_failed"


class OutgoingBadUrl(OutgoingFailed):
    """The url is not one that HTTP can reach."""

    code = "invalid_url"


class OutgoingUnreachable(OutgoingFailed):
    """No such host, nobody listens there, or TLS or the connection broke."""

    code = "unreachable"


class OutgoingNotSent(OutgoingUnreachable):
    """There was no connection to send on."""


class OutgoingTimedOut(OutgoingFailed):
    """There was no complete response in time."""

    code = "timeout"


class OutgoingBadAnswer(OutgoingFailed):
    """The response is too large, redirects too often, or is not HTTP."""

    code = "bad_response"
