"""What a gateway answers, as frozen objects. Fields that this version does not know are ignored, and fields that
an older gateway does not send have a default, so that the two sides may differ in age.

Words that may grow (a status, a cost estimate) stay strings for the same reason.
"""

from typing import Any

from msgspec import Struct

UNSETTLED = frozenset({"running", "waiting", "pending", "pending_approval"})
"""The statuses of a call that has no outcome yet; every other one is final."""
FOR_OTHERS = ("pending_approval", "pending", "waiting")
"""The statuses of a call that somebody outside the gateway must allow or answer."""


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


class EffectiveTool(Struct, frozen=True, kw_only=True):
    """A tool as it stands for this key: everywhere, or in one chat."""

    tool: ToolInfo
    scenario: str = ""
    enabled: bool = True
    source: str = ""
    """Where `enabled` comes from: `chat`, `global`, or empty for the tool's own metadata."""
    requires_approval: bool = False
    approval_source: str = ""
    approval_override: str = ""
    """`require`, `skip`, or empty when nothing overrides the metadata."""


class ScenarioState(Struct, frozen=True, kw_only=True):
    """How one source of tools is."""

    scenario: str
    available: bool = False
    last_checked: str | None = None
    tool_count: int = 0
    error: str | None = None


class Refreshed(Struct, frozen=True, kw_only=True):
    """What there is after every source was read anew; no success when one of them could not be."""

    success: bool = False
    scenarios_count: int = 0
    tools_count: int = 0


class ToolsChanged(Struct, frozen=True, kw_only=True):
    """What is different in the catalog as this key sees it; names only."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    version: str = ""


class CallError(Struct, frozen=True, kw_only=True):
    """Why a call failed."""

    code: str
    message: str


class CallAnswer(Struct, frozen=True, kw_only=True):
    """What execute answers: the outcome, or that there is none yet."""

    success: bool = False
    call_id: str
    run_id: str | None = None
    status: str
    result: Any = None
    error: CallError | None = None
    execution_time_ms: float | None = None

    @property
    def is_settled(self) -> bool:
        return self.status not in UNSETTLED


class CallRecord(Struct, frozen=True, kw_only=True):
    """One call as the gateway keeps it. Times are ISO 8601, UTC."""

    id: str
    tool: str
    status: str
    run_id: str | None = None
    source: str | None = None
    tool_version: str | None = None
    arguments: dict[str, Any] = {}
    asked_arguments: dict[str, Any] = {}
    """What was asked for; an approval may have put other `arguments` in its place."""
    principal: str | None = None
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
    result: Any = None
    error: CallError | None = None
    delivery: str | None = None
    attempt: int = 0
    callback_url: str | None = None
    """While the call waits for an answer: who posts to this url answers it, once and without a key."""
    created_at: str | None = None
    finished_at: str | None = None
    deadline: str | None = None
    expires_at: str | None = None
    execution_time_ms: float | None = None

    decision: str | None = None
    """What became of a call that a person had to allow: `approved`, `rejected` or `expired`."""
    decided_by: str | None = None
    decided_at: str | None = None
    waits_for: str | None = None
    """`question`: its tool has asked something, and goes on when that is answered."""
    trace: str | None = None
    """Where a tool file failed; from `calls.get`, for administrators alone."""

    @property
    def is_settled(self) -> bool:
        return self.status not in UNSETTLED


class LargeResult(Struct, frozen=True, kw_only=True):
    """What stands in place of a result that is too large to travel; `client.calls.result(call_id)` reads it whole."""

    call_id: str
    size: int
    """Bytes of its JSON text in UTF-8."""
    digest: str
    """`sha256:…` of that text."""
    preview: str = ""
    """Its beginning."""
    url: str = ""
    """The path where its pages are."""


class ResultPage(Struct, frozen=True, kw_only=True):
    """A piece of the JSON text of a result. Offsets are bytes; `size` and `digest` are those of the whole."""

    text: str
    size: int
    digest: str
    call_id: str = ""
    offset: int = 0
    next_offset: int | None = None
    """Where the next page begins; None: this was the last."""


class CallPage(Struct, frozen=True, kw_only=True):
    """Some calls, newest first, and where the next ones begin."""

    calls: tuple[CallRecord, ...] = ()
    next_cursor: str | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far a running call has come."""

    progress: float
    total: float | None = None
    message: str | None = None


class LogNote(Struct, frozen=True, kw_only=True):
    """Something that a tool's server said while the call ran."""

    level: str = "info"
    message: str = ""
    logger: str | None = None


class CallEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a call: `call.started`, `call.progress`, `call.settled` and the like."""

    type: str
    call_id: str = ""
    run_id: str | None = None
    tool: str = ""
    agent: str | None = None
    status: str | None = None
    progress: Progress | None = None
    log: LogNote | None = None
    """What the tool's server said, for `call.log`."""
    execution_time_ms: float | None = None
    error: CallError | str | None = None
    """Why a settled call has no result; some gateways send only the sentence."""
    at: str | None = None


class Receipt(Struct, frozen=True, kw_only=True, rename={"call_id": "callId", "agent": "agentEntityId"}):
    """What the gateway says to an answer: it is on disk, and how it reaches whoever made the call."""

    call_id: str
    agent: str | None = None
    delivery: str | None = None
    """`inline`: somebody waits for it; `inbox`: an agent finds it there. None: the record alone has it."""


class InboxEvent(Struct, frozen=True, kw_only=True, rename={"event_id": "eventId"}):
    """Something that waits for an agent: `tool_result`, `space_message`, `plan` or `service`."""

    event_id: str
    type: str
    timestamp: str | None = None
    status: str | None = None
    data: dict[str, Any] = {}


class InboxPage(Struct, frozen=True, kw_only=True):
    """Some events of one inbox, oldest first, and where the next ones begin."""

    events: tuple[InboxEvent, ...] = ()
    next_cursor: str | None = None


class Triggered(Struct, frozen=True, kw_only=True, rename={"agent": "agentEntityId", "event_id": "eventId"}):
    """What a trigger put into an agent's inbox."""

    success: bool = True
    agent: str | None = None
    event_id: str | None = None


class SourceReport(Struct, frozen=True, kw_only=True):
    """The state of one source, from `/readyz`."""

    name: str
    kind: str = ""
    status: str = ""
    error: str | None = None
    tools: int = 0
    faults: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Its tools that wait for a person to accept their new definition."""
    doing: str | None = None
    stderr: tuple[str, ...] = ()
    """For administrators: the last lines that the process of a source that is not up said."""


class Notice(Struct, frozen=True, kw_only=True):
    """Something about a tool's name that its owner should know, with the cure."""

    name: str = ""
    sources: tuple[str, ...] = ()
    message: str = ""


class Identity(Struct, frozen=True, kw_only=True):
    """Who one is, by one's key."""

    principal: str
    scopes: tuple[str, ...] = ()

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes


class Readiness(Struct, frozen=True, kw_only=True):
    """What `/readyz` says."""

    status: str
    store: str = ""
    sources: tuple[SourceReport, ...] = ()
    notices: tuple[Notice, ...] = ()
    version: str = ""

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"
