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
    code = "outgoing_error"


class OutgoingRefused(OutgoingError):
    code = "outgoing_refused"


class OutgoingFailed(OutgoingError):
    code = "outgoing_failed"


class OutgoingBadUrl(OutgoingFailed):
    code = "invalid_url"


class OutgoingUnreachable(OutgoingFailed):
    code = "unreachable"


class OutgoingNotSent(OutgoingUnreachable):
    """There was no connection to send on."""


class OutgoingTimedOut(OutgoingFailed):
    code = "timeout"


class OutgoingBadAnswer(OutgoingFailed):
    code = "bad_response"
