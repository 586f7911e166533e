"""For programs that use a gateway, or serve tools to one: its tools, calls and agents, from Python.

    async with Client() as client:
        total = await client.tools.call("add", a=1, b=2)

    with SyncClient() as client:
        total = client.tools.call("add", a=1, b=2)

    def add(a: int, b: int) -> int: return a + b
    SyncClient().tools.serve([add], declare="maths")        # answers calls of `add` until Ctrl-C

Without arguments a client finds the gateway by `JACKFIELD_URL` and `JACKFIELD_KEY`, else the local one and its
key file. May import: `errors`, whose classes it raises again by their codes. Never: any other room of ours, so
that a program needs no gateway code to talk to one.
"""

from jackfield.errors import (
    AgentNotFound,
    AlreadyResolved,
    BadRequest,
    CallNotFound,
    Conflict,
    DefinitionChanged,
    EventsPurged,
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
    SessionNotFound,
    SourceUnavailable,
    SpaceNotFound,
    StoreBusy,
    TooLarge,
    ToolDisabled,
    ToolNotFound,
    Unauthenticated,
    Unavailable,
    WrongMediaType,
)
from jackfield.sdk.agent_types import (
    AgentInfo,
    CycleInfo,
    CyclePage,
    Goal,
    Memory,
    Plan,
    RunEvent,
    RunInfo,
    RunPage,
    RunStep,
)
from jackfield.sdk.client import Client
from jackfield.sdk.failures import CallPending, GatewayFault, GatewayUnreachable, NoAnswer, ToolFailed
from jackfield.sdk.functions import ServedTool
from jackfield.sdk.lending import SessionEvent
from jackfield.sdk.pins import DefinitionDiff
from jackfield.sdk.progress import progress
from jackfield.sdk.sessions import Session, SessionFailed, SessionInfo
from jackfield.sdk.space_types import SpaceEvent, SpaceInfo, SpaceMember, SpaceMessage, SpaceMessages, SpaceRead
from jackfield.sdk.sync import SyncClient
from jackfield.sdk.sync_sessions import SyncSession
from jackfield.sdk.types import (
    CallAnswer,
    CallError,
    CallEvent,
    CallPage,
    CallRecord,
    EffectiveTool,
    Identity,
    InboxEvent,
    InboxPage,
    LargeResult,
    Notice,
    Progress,
    Readiness,
    Receipt,
    ResultPage,
    SourceReport,
    ToolInfo,
    ToolMetadata,
    ToolsChanged,
    Triggered,
)

__all__ = [
    "AgentInfo",
    "AgentNotFound",
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
    "CycleInfo",
    "CyclePage",
    "DefinitionChanged",
    "DefinitionDiff",
    "EffectiveTool",
    "EventsPurged",
    "Expired",
    "Forbidden",
    "GatewayFault",
    "GatewayUnreachable",
    "Goal",
    "Identity",
    "InboxEvent",
    "InboxPage",
    "InvalidArguments",
    "JackfieldError",
    "LargeResult",
    "Memory",
    "Misdirected",
    "NoAnswer",
    "NotFound",
    "NotReady",
    "Notice",
    "Plan",
    "Progress",
    "RateLimited",
    "Readiness",
    "Receipt",
    "Refused",
    "ResultPage",
    "RunEvent",
    "RunInfo",
    "RunNotFound",
    "RunPage",
    "RunStep",
    "ServedTool",
    "Session",
    "SessionEvent",
    "SessionFailed",
    "SessionInfo",
    "SessionNotFound",
    "SourceReport",
    "SourceUnavailable",
    "SpaceEvent",
    "SpaceInfo",
    "SpaceMember",
    "SpaceMessage",
    "SpaceMessages",
    "SpaceNotFound",
    "SpaceRead",
    "StoreBusy",
    "SyncClient",
    "SyncSession",
    "TooLarge",
    "ToolDisabled",
    "ToolFailed",
    "ToolInfo",
    "ToolMetadata",
    "ToolNotFound",
    "ToolsChanged",
    "Triggered",
    "Unauthenticated",
    "Unavailable",
    "WrongMediaType",
    "progress",
]
