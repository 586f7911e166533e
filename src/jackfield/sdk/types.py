"""Records of tools, calls and the gateway's state, as the API returns them.

Unknown fields are ignored and fields that an older gateway does not send have a default, so that the SDK and the
gateway may differ in version. Enumerations that may grow (a status, a cost estimate) are strings for the same reason;
type checkers are told the statuses of today. Times are ISO 8601, UTC, as they were sent; those of the records that
programs compute with are also there as `datetime`.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from jackfield.model.call import CallError
from jackfield.protocol.records import LogNote, Progress

CallStatusName = Literal[
    "running",
    "waiting",
    "pending",
    "pending_approval",
    "pending_login",
    "completed",
    "failed",
    "rejected",
    "expired",
    "cancelled",
    "refused",
]
"""The statuses of a call."""
RunStatusName = Literal[
    "queued", "running", "parked", "completed", "incomplete", "failed", "cancelled", "interrupted", ""
]
"""The statuses of a run; empty for the bare calls of a run id."""
if TYPE_CHECKING:
    AnyCallStatus = CallStatusName
    AnyRunStatus = RunStatusName
else:
    AnyCallStatus = AnyRunStatus = str  # a newer gateway may have more
UNSETTLED = frozenset({"running", "waiting", "pending", "pending_approval", "pending_login"})
"""Statuses of a call without an outcome; every other one is final."""
FOR_OTHERS = ("pending_approval", "pending_login", "pending", "waiting")
"""Statuses of a call that waits for an approval, a login or an answer from outside."""


def time_of(text: str | None) -> datetime | None:
    """A time of a record, with its zone. None: there is none, or it is not one."""
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None


class ToolMetadata(Struct, frozen=True, kw_only=True):
    """Seed 004's ToolMetadata."""

    enabled_by_default: bool = True
    requires_approval: bool = False
    timeout_seconds: int | None = None
    rate_limit_per_minute: int | None = None
    cost_estimate: str | None = None
    long_running: bool | None = None
    idempotent: bool | None = None
    tags: tuple[str, ...] | None = None
    examples: tuple[dict[str, Any], ...] | None = None


class ToolInfo(Struct, frozen=True, kw_only=True):
    """One tool of the manifest."""

    name: str
    description: str = ""
    category: str | None = None
    parameters: dict[str, Any] = {}
    metadata: ToolMetadata = ToolMetadata()
    version: str = ""
    """Digest of the definition: another version is another definition."""
    source: str = ""


class SwitchInfo(Struct, frozen=True, kw_only=True):
    """How something is switched for everybody; `reason`, `by` and `at` (ISO 8601, UTC) where it is off."""

    kind: str
    name: str
    source: str | None = None
    """Of a tool."""
    enabled: bool
    reason: str | None = None
    by: str | None = None
    at: str | None = None


class EffectiveTool(Struct, frozen=True, kw_only=True):
    """A tool with this key's preferences applied, everywhere or in one chat."""

    tool: ToolInfo
    scenario: str = ""
    enabled: bool = True
    source: str = ""
    """Where `enabled` comes from: `chat`, `global`, or empty for the tool's own metadata."""
    requires_approval: bool = False
    approval_source: str = ""
    approval_override: str = ""
    """`require`, `skip`, or empty when nothing overrides the metadata."""
    switched_off: SwitchInfo | None = None
    """What an administrator has switched off for everybody: the tool, its source, or the key."""


class ScenarioState(Struct, frozen=True, kw_only=True):
    """The state of one source of tools."""

    scenario: str
    available: bool = False
    last_checked: str | None = None
    tool_count: int = 0
    error: str | None = None


class Refreshed(Struct, frozen=True, kw_only=True):
    """The result of refreshing every source; no success when one of them failed."""

    success: bool = False
    scenarios_count: int = 0
    tools_count: int = 0


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The response to an execute: the outcome, or that the call is pending."""

    success: bool = False
    call_id: str
    run_id: str | None = None
    status: AnyCallStatus
    result: Any = None
    error: CallError | None = None
    execution_time_ms: float | None = None
    login_url: str | None = None
    """For `pending_login`: where to log in so that the call can run."""

    @property
    def is_settled(self) -> bool:
        return self.status not in UNSETTLED


class LoginInfo(Struct, frozen=True, kw_only=True):
    """The login that a call waits for."""

    source: str = ""
    principal: str | None = None
    """Whose; None: one for all, which an administrator makes."""
    scopes: tuple[str, ...] = ()


class HookNote(Struct, frozen=True, kw_only=True):
    """What one hook did to a call."""

    name: str = ""
    on: str = ""
    """`before_call` or `after_call`."""
    decision: str = ""
    """`allow`, `deny`, `ask`, `replace` or `withhold`."""
    reason: str | None = None
    ms: float = 0.0


class CallMoment(Struct, frozen=True, kw_only=True):
    """One thing that happened to a call."""

    step: str
    """`asked`, `decided`, `offered`, `started`, `settled`, `delivered` and others."""
    at: str | None = None
    """None: it is not on record when."""
    by: str | None = None
    """Who did it: a key, a person, an agent, a tool server, a gateway."""
    note: str | None = None


class CallRecord(Struct, frozen=True, kw_only=True):
    """One call. Times are ISO 8601, UTC."""

    id: str
    tool: str
    status: AnyCallStatus
    run_id: str | None = None
    source: str | None = None
    tool_version: str | None = None
    kind: str = "tool"
    """`tool`, `resource` (then `tool` is its URI) or `prompt`."""
    arguments: dict[str, Any] = {}
    asked_arguments: dict[str, Any] = {}
    """The arguments of the caller; an approval may have replaced them with `arguments`."""
    principal: str | None = None
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
    result: Any = None
    error: CallError | None = None
    delivery: str | None = None
    attempt: int = 0
    count: int = 1
    """Of a `refused` call: how often it was made and refused within a minute; `finished_at` is the last time."""
    callback_url: str | None = None
    """While the call waits for an answer: a POST to this url answers it, once and without a key."""
    created_at: str | None = None
    finished_at: str | None = None
    deadline: str | None = None
    expires_at: str | None = None
    execution_time_ms: float | None = None

    decision: str | None = None
    """Of a call that needed approval: `approved`, `rejected` or `expired`."""
    decided_by: str | None = None
    """The key, or `signed link`."""
    decided_at: str | None = None
    answered_by: str | None = None
    """The key whose answer is the result, where somebody else gave it, or `callback`."""
    verified_by: str | None = None
    """The call that found out whether this one took effect, where the gateway could not know."""
    waits_for: str | None = None
    """`question`: its tool asked something and continues once that is answered."""
    login: LoginInfo | None = None
    """While it is `pending_login`: the login that it waits for."""
    login_url: str | None = None
    """Where to make that login; for who may."""
    hooks: tuple[HookNote, ...] = ()
    """What hooks did to it, in their order."""
    approval_url: str | None = None
    """While it waits for approval, for who may approve it: a link that takes the decision, once and without a key."""
    answer_schema: dict[str, Any] | None = None
    """While it waits for an answer, for who may give it: JSON Schema of the result, where the tool has one."""
    timeline: tuple[CallMoment, ...] = ()
    """What happened to it, in order; only from `calls.get`."""
    trace_id: str | None = None
    """The trace (W3C) that it is part of."""
    replay_of: str | None = None
    """The call that was made again with this one."""
    trace: str | None = None
    """Traceback of a tool file that failed; only from `calls.get`, for administrators."""

    @property
    def is_settled(self) -> bool:
        """Whether it has its outcome, which never changes again."""
        return self.status not in UNSETTLED

    @property
    def created(self) -> datetime | None:
        """`created_at` as a time with its zone; likewise the others below."""
        return time_of(self.created_at)

    @property
    def finished(self) -> datetime | None:
        """`finished_at`: when it was settled."""
        return time_of(self.finished_at)

    @property
    def due(self) -> datetime | None:
        """`deadline`: until when its caller waits."""
        return time_of(self.deadline)

    @property
    def expires(self) -> datetime | None:
        """`expires_at`: until when it can be approved or answered."""
        return time_of(self.expires_at)


class CallPage(Struct, frozen=True, kw_only=True):
    """Calls, newest first, and the cursor of the next page."""

    calls: tuple[CallRecord, ...] = ()
    next_cursor: str | None = None


class CallEvent(Struct, frozen=True, kw_only=True):
    """An event of a call: `call.started`, `call.progress`, `call.settled` and others."""

    type: str
    call_id: str = ""
    run_id: str | None = None
    tool: str = ""
    agent: str | None = None
    status: str | None = None
    progress: Progress | None = None
    log: LogNote | None = None
    """Of `call.log`."""
    execution_time_ms: float | None = None
    error: CallError | str | None = None
    """Why a settled call has no result; some gateways send only the message."""
    at: str | None = None


class Receipt(Struct, frozen=True, kw_only=True, rename={"call_id": "callId", "agent": "agentEntityId"}):
    """Confirms that an answer is persisted, and says how it reaches the caller."""

    call_id: str
    agent: str | None = None
    delivery: str | None = None
    """`inline`: a caller waits for it; `inbox`: it is in an agent's inbox. None: only the record has it."""


class SourceReport(Struct, frozen=True, kw_only=True):
    """The state of one source, from `/readyz`."""

    name: str
    kind: str = ""
    status: str = ""
    error: str | None = None
    tools: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    faults: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Its tools, `prompt:NAME` and `template:TEMPLATE` whose new definition must be accepted first."""
    doing: str | None = None
    stderr: tuple[str, ...] = ()
    """For administrators: the last stderr lines of a source that is not up."""


class Notice(Struct, frozen=True, kw_only=True):
    """A warning about a tool's name, and how to fix it."""

    name: str = ""
    sources: tuple[str, ...] = ()
    message: str = ""


class Identity(Struct, frozen=True, kw_only=True):
    """Who this key belongs to, and what it may do."""

    principal: str
    name: str = ""
    """A person's name; else the key's."""
    email: str | None = None
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes


class ConfigDifference(Struct, frozen=True, kw_only=True):
    """Another gateway of the same database whose config is another one in these tables."""

    gateway: str
    sections: tuple[str, ...] = ()


class ConfigReport(Struct, frozen=True, kw_only=True):
    """The config in force at a gateway, for administrators."""

    read_at: str
    error: str | None = None
    """Why the file that was read last could not be used; None: it is in force."""
    restart_needed: tuple[str, ...] = ()
    """What the file says otherwise, and is in force only after a restart."""
    differs: tuple[ConfigDifference, ...] = ()


class Readiness(Struct, frozen=True, kw_only=True):
    """The state of the gateway, from `/readyz`."""

    status: str
    store: str = ""
    sources: tuple[SourceReport, ...] = ()
    notices: tuple[Notice, ...] = ()
    config: ConfigReport | None = None
    """None: the key is not an administrator's."""
    version: str = ""

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"
