"""The Python SDK: use a gateway's tools, calls and agents, or serve functions to it as tools.

    async with Client() as client:
        total = await client.tools.call("add", a=1, b=2)

    with SyncClient() as client:
        total = client.tools.call("add", a=1, b=2)

    def add(a: int, b: int) -> int: return a + b
    SyncClient().tools.serve([add], declare="maths")        # answers calls of `add` until Ctrl-C

Without arguments a client uses `JACKFIELD_URL` and `JACKFIELD_KEY`, else the gateway of this machine and its key file.
Imports `jackfield.protocol`, `model` and `errors` only, so that no server code is loaded.
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
    KeyDisabled,
    Misdirected,
    NotFound,
    NotReady,
    PromptNotFound,
    RateLimited,
    Refused,
    ResourceNotFound,
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
    UpstreamFailed,
    WrongMediaType,
)
from jackfield.model.call import CallError
from jackfield.protocol.functions import ServedTool
from jackfield.protocol.large_results import LargeResult, ResultPage
from jackfield.protocol.records import Progress, ToolsChanged
from jackfield.sdk.agents import (
    AgentInfo,
    CycleInfo,
    CyclePage,
    Goal,
    InboxEvent,
    InboxPage,
    Memory,
    Plan,
    Triggered,
)
from jackfield.sdk.client import Client
from jackfield.sdk.config import ConfigChanges
from jackfield.sdk.connections import ConnectionInfo
from jackfield.sdk.errors import CallPending, GatewayFault, GatewayUnreachable, NoAnswer, SessionFailed, ToolFailed
from jackfield.sdk.groups import GroupInfo
from jackfield.sdk.keys import KeyInfo
from jackfield.sdk.progress import progress
from jackfield.sdk.reading import (
    PromptArgument,
    PromptInfo,
    PromptMessage,
    PromptResult,
    ResourceContents,
    ResourceInfo,
    ResourceTemplateInfo,
)
from jackfield.sdk.runs import RunCall, RunEvent, RunInfo, RunPage, RunStep, StepMessages
from jackfield.sdk.sessions import Session, SessionEvent, SessionInfo
from jackfield.sdk.sources import DefinitionDiff
from jackfield.sdk.spaces import SpaceEvent, SpaceInfo, SpaceMember, SpaceMessage, SpaceMessages, SpaceRead
from jackfield.sdk.sync import SyncClient, SyncSession
from jackfield.sdk.types import (
    CallAnswer,
    CallEvent,
    CallMoment,
    CallPage,
    CallRecord,
    CallStatusName,
    ConfigDifference,
    ConfigReport,
    EffectiveTool,
    HookNote,
    Identity,
    LoginInfo,
    Notice,
    Readiness,
    Receipt,
    RunStatusName,
    SourceReport,
    SwitchInfo,
    ToolInfo,
    ToolMetadata,
)
from jackfield.sdk.users import UserInfo
from jackfield.sdk.vault import Rotation, VaultInfo

__all__ = [
    "AgentInfo",
    "AgentNotFound",
    "AlreadyResolved",
    "BadRequest",
    "CallAnswer",
    "CallError",
    "CallEvent",
    "CallMoment",
    "CallNotFound",
    "CallPage",
    "CallPending",
    "CallRecord",
    "CallStatusName",
    "Client",
    "ConfigChanges",
    "ConfigDifference",
    "ConfigReport",
    "Conflict",
    "ConnectionInfo",
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
    "GroupInfo",
    "HookNote",
    "Identity",
    "InboxEvent",
    "InboxPage",
    "InvalidArguments",
    "JackfieldError",
    "KeyDisabled",
    "KeyInfo",
    "LargeResult",
    "LoginInfo",
    "Memory",
    "Misdirected",
    "NoAnswer",
    "NotFound",
    "NotReady",
    "Notice",
    "Plan",
    "Progress",
    "PromptArgument",
    "PromptInfo",
    "PromptMessage",
    "PromptNotFound",
    "PromptResult",
    "RateLimited",
    "Readiness",
    "Receipt",
    "Refused",
    "ResourceContents",
    "ResourceInfo",
    "ResourceNotFound",
    "ResourceTemplateInfo",
    "ResultPage",
    "Rotation",
    "RunCall",
    "RunEvent",
    "RunInfo",
    "RunNotFound",
    "RunPage",
    "RunStatusName",
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
    "StepMessages",
    "StoreBusy",
    "SwitchInfo",
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
    "UpstreamFailed",
    "UserInfo",
    "VaultInfo",
    "WrongMediaType",
    "progress",
]
