"""For programs that use a gateway: its tools and its calls, from Python.

    async with Client() as client:
        total = await client.tools.call("add", a=1, b=2)

    with SyncClient() as client:
        total = client.tools.call("add", a=1, b=2)

Without arguments a client finds the gateway by `JACKFIELD_URL` and `JACKFIELD_KEY`, else the local one and its
key file. May import: `errors`, whose classes it raises again by their codes. Never: any other room of ours, so
that a program needs no gateway code to talk to one.
"""

from jackfield.errors import (
    AlreadyResolved,
    BadRequest,
    CallNotFound,
    Conflict,
    DefinitionChanged,
    Expired,
    Forbidden,
    InvalidArguments,
    JackfieldError,
    Misdirected,
    NotFound,
    NotReady,
    RateLimited,
    Refused,
    RunNotFound,
    SourceUnavailable,
    StoreBusy,
    TooLarge,
    ToolDisabled,
    ToolNotFound,
    Unauthenticated,
    Unavailable,
    WrongMediaType,
)
from jackfield.sdk.client import Client
from jackfield.sdk.failures import CallPending, GatewayFault, GatewayUnreachable, NoAnswer, ToolFailed
from jackfield.sdk.sync import SyncClient
from jackfield.sdk.types import (
    CallAnswer,
    CallError,
    CallEvent,
    CallPage,
    CallRecord,
    Notice,
    Progress,
    Readiness,
    SourceReport,
    ToolInfo,
    ToolMetadata,
    ToolsChanged,
)

__all__ = [
    "AlreadyResolved",
    "BadRequest",
    "CallAnswer",
    "CallError",
    "CallEvent",
    "CallNotFound",
    "CallPage",
    "CallPending",
    "CallRecord",
    "Client",
    "Conflict",
    "DefinitionChanged",
    "Expired",
    "Forbidden",
    "GatewayFault",
    "GatewayUnreachable",
    "InvalidArguments",
    "JackfieldError",
    "Misdirected",
    "NoAnswer",
    "NotFound",
    "NotReady",
    "Notice",
    "Progress",
    "RateLimited",
    "Readiness",
    "Refused",
    "RunNotFound",
    "SourceReport",
    "SourceUnavailable",
    "StoreBusy",
    "SyncClient",
    "TooLarge",
    "ToolDisabled",
    "ToolFailed",
    "ToolInfo",
    "ToolMetadata",
    "ToolNotFound",
    "ToolsChanged",
    "Unauthenticated",
    "Unavailable",
    "WrongMediaType",
]
