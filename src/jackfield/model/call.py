"""One use of a tool: its states, the moves between them, and how it may end.

The table of legal moves here is the only one; the store's statements are written from
`pending-protocol.md` and a test holds the two together.
"""

from enum import Enum
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from jackfield.model.tool import LONGEST_SECONDS, CallKind

_encode = msgspec.json.Encoder().encode


class CallStatus(Enum):
    """Where a call is in its life. The words of contract §14 and §16."""

    RUNNING = "running"
    """A gateway executes it now."""
    WAITING = "waiting"
    """Somebody else answers, and a waiter is here until the deadline."""
    PENDING = "pending"
    """Somebody else answers, and nobody waits; the answer goes to the inbox."""
    PENDING_APPROVAL = "pending_approval"
    """A person must allow it first."""
    PENDING_LOGIN = "pending_login"
    """Somebody must log in at its source first; the source refused it before it acted."""
    COMPLETED = "completed"
    """It has a result."""
    FAILED = "failed"
    """It ended with an error, which is a result too."""
    REJECTED = "rejected"
    """A person refused it."""
    EXPIRED = "expired"
    """Nobody answered in time."""
    CANCELLED = "cancelled"
    """Somebody stopped it."""
    REFUSED = "refused"
    """It was not carried out at all; the error says why. Final from the start."""

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset(
    {
        CallStatus.COMPLETED,
        CallStatus.FAILED,
        CallStatus.REJECTED,
        CallStatus.EXPIRED,
        CallStatus.CANCELLED,
        CallStatus.REFUSED,
    }
)

_ANSWERED = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.CANCELLED})
MOVES: dict[CallStatus, frozenset[CallStatus]] = {
    CallStatus.RUNNING: _ANSWERED | {CallStatus.PENDING, CallStatus.PENDING_LOGIN},
    CallStatus.WAITING: _ANSWERED | {CallStatus.PENDING},
    CallStatus.PENDING: _ANSWERED | {CallStatus.EXPIRED, CallStatus.RUNNING},
    CallStatus.PENDING_APPROVAL: frozenset(
        {
            CallStatus.RUNNING,
            CallStatus.PENDING,
            CallStatus.REJECTED,
            CallStatus.EXPIRED,
            CallStatus.CANCELLED,
        }
    ),
    CallStatus.PENDING_LOGIN: frozenset(
        {CallStatus.RUNNING, CallStatus.REJECTED, CallStatus.EXPIRED, CallStatus.CANCELLED}
    ),
    **dict.fromkeys(FINAL, frozenset[CallStatus]()),
}
"""From each state, the states a call may move to. A final state has none."""


class Delivery(Enum):
    """Which of its two ways an outcome takes to the agent. Undecided is None."""

    INLINE = "inline"
    """It is what the tool call returns."""
    INBOX = "inbox"
    """It is an event `tr:<call>` in the agent's inbox."""


class Decision(Enum):
    """What became of a call that a person had to allow."""

    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    """Nobody decided in time."""


class FirstReply(Enum):
    """What the inline slot says when the outcome goes to the inbox."""

    PENDING = "pending"
    TIMEOUT = "timeout"


Doubt = Literal["interrupted", "timeout"]
"""Why nobody knows whether a call took effect: its gateway stopped, or its time was over."""
MOST_VERIFICATIONS = 3
"""How often it is asked whether a call took effect, where whoever asks dies."""


class LoginWait(Struct, frozen=True, kw_only=True):
    """The login that a call waits for, or waited for last."""

    source: str
    """Where; the tool's own source, or the one whose login the tool uses."""
    principal: str | None = None
    """Whose, by the name on record; None: the one login for all, which an administrator makes."""
    scopes: tuple[str, ...] = ()
    """What it has to allow, where the source said so."""
    times: int = 0
    """How often the call has waited for a login."""
    since: int | None = None
    """Since when it waited for the last one."""


class HookNote(Struct, frozen=True, kw_only=True):
    """What one hook did to a call."""

    name: str
    on: Literal["before_call", "after_call"]
    decision: Literal["allow", "deny", "ask", "replace", "withhold"]
    """For a hook that failed: what its `on_failure` made of that."""
    reason: str | None = None
    ms: float


class Done(Struct, frozen=True, tag="done"):
    """The tool answered. The result is JSON as it came, not parsed here."""

    result: Raw


class Failed(Struct, frozen=True, tag="failed"):
    """The tool, or the path to it, failed; what the caller and the model are told."""

    code: str
    message: str
    result: Raw | None = None
    """What an agent sees as the tool's result, where that is more than the message."""


FAILURES: dict[str, str] = {
    "bad_response": "the service answered with something that is no valid result",
    "bad_result": "the result does not match the tool's output schema, or is not JSON",
    "caller_disconnected": "the caller of a session, who lends the tool, was not connected",
    "cancelled": "somebody cancelled the call, or the run that made it",
    "definition_changed": "the tool's definition changed before the call could run",
    "expired": "nobody approved or answered the call in time",
    "forbidden": "the principal in whose name the call was made may not make it any more",
    "http_error": "the service answered with an HTTP error status",
    "internal_error": "a fault of the gateway; its log has the details",
    "interrupted": "the gateway or worker stopped while the call ran, so it may or may not have taken effect",
    "invalid_arguments": "the arguments do not fit; of calls that models make in a response or a cycle",
    "invalid_request": "the gateway and a worker do not understand each other",
    "login_needed": "nobody logged in at the source in time",
    "mcp_error": "the MCP server answered with an error when a resource or a prompt was read",
    "missing_capability": "the MCP server wants something that the caller's client cannot do",
    "no_space": "an agent called a visible tool without being in a space",
    "nondeterministic": "a program made other calls when it was run again than the first time",
    "not_executed_here": "the tool is answered by somebody else and cannot be run by the gateway",
    "not_found": "the file of a skill is not there",
    "program_failed": "a program raised, or could not be run; its log says why",
    "refused": "a model's call was not allowed, for example a tool outside `allowed_tools`",
    "rejected": "a person rejected the call; the message has the reason",
    "session_ended": "the session that lends the tool has ended",
    "source_unavailable": "the tool's source is down",
    "store_unavailable": "a response could not be stored",
    "task_failed": "the MCP server's task failed",
    "task_lost": "the MCP server does not know its task any more",
    "timeout": "the tool did not answer within its timeout",
    "too_deep": "tools call each other too deeply",
    "too_large": "the result has too many bytes to pass on",
    "too_many_calls": "a program made more calls than `[programs] max_calls`",
    "too_many_requests": "an agent asked the caller of its session too many things at once",
    "tool_choice_not_honoured": "the model did not call a tool although `tool_choice` asks for one",
    "tool_error": "the tool raised or reported an error; the message is the tool's own",
    "tool_not_found": "the tool is gone, or a program called one that it may not use",
    "tool_stuck": "earlier calls of a tool without `async` hang and occupy all threads of its file",
    "unknown_function": "a worker does not have the function; its file has just changed",
    "unreachable": "the service could not be reached",
    "url_required": "the MCP server wants a person to open a link first",
    "verification_failed": "a file of a skill differs from what its server promised",
    "withheld_by_hook": "a hook withheld the result",
    "worker_crashed": "the process of the tool file ended while the call ran",
}
"""The codes of calls that ended without a result, each with when it is given. A test compares them with the code."""


class Pending(Struct, frozen=True, tag="pending"):
    """Somebody else will answer; `status` is where the call waits."""

    status: CallStatus


Outcome = Done | Failed | Pending

NULL = Raw(b"null")
SIGNED_LINK = "signed link"
"""Who decided, where that was whoever held the call's approval url."""


def on_one_line(json: bytes | Raw) -> Raw:
    """The same JSON without line breaks: results travel in formats where one ends the message."""
    data = bytes(json)
    return Raw(msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data)


def done(value: Any) -> Done:
    """A result from a Python value. Raises `TypeError` for what JSON cannot hold."""
    return Done(Raw(_encode(value)))


class CallError(Struct, frozen=True):
    """The error of a failed call as the API shows it."""

    code: str
    message: str


class Call(Struct, frozen=True, kw_only=True):
    """One call as the store keeps it. Times are milliseconds since 1970, by the database's clock."""

    id: str
    run_id: str
    tool: str
    source: str
    tool_version: str
    arguments: Raw
    principal: str
    status: CallStatus
    kind: CallKind = CallKind.TOOL
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
    cycle_id: str | None = None
    """The run whose journal has it, with its place there."""
    step: int | None = None
    idx: int | None = None
    awaited_by: str | None = None
    """The run that goes on when its slot is decided: a response or a program. Agents' cycles wait by themselves."""
    answer: int | None = None
    """The how manyth of that run's answers it was."""
    delivery: Delivery | None = None
    result: Raw | None = None
    error: CallError | None = None
    first_reply: FirstReply | None = None
    idempotent: bool = False
    verify: str | None = None
    """The tool that can say whether it took effect."""
    verifying: Doubt | None = None
    """Why that is asked, or was."""
    verifications: int = 0
    """How often."""
    verified_by: str | None = None
    """The call whose answer settled it."""
    attempt: int = 0
    owner: str | None = None
    waiter: str | None = None
    sent_at: int | None = None
    deadline: int | None = None
    expires_at: int | None = None
    timeout_ms: int = 30_000
    expires_in_ms: int = 86_400_000
    """How long it may wait for somebody's answer; 0 means for ever."""
    offered_to: str | None = None
    """The tool server that has it, by its own id."""
    offers: int = 0
    offered_at: int | None = None
    """When it was, last."""
    begun_at: int | None = None
    """When a tool server first said that it works on it."""
    answered_by: str | None = None
    decision: Decision | None = None
    decided_by: str | None = None
    """The key that allowed or refused it, or `SIGNED_LINK`."""
    decided_at: int | None = None
    asked_arguments: Raw | None = None
    """What was asked, where a hook or the approval put other arguments in its place."""
    shown: str | None = None
    """Whether its space sees it: `whole`, or `without_result` where the tool's output is sensitive."""
    login: LoginWait | None = None
    """The login that it waits for while it is `pending_login`, and afterwards waited for."""
    count: int = 1
    """Of a refused call: how often it was made and refused, within a minute."""
    hooks: tuple[HookNote, ...] = ()
    """What hooks did to it, in their order."""
    trace_id: str | None = None
    """The trace (W3C) that it is part of."""
    replay_of: str | None = None
    """The call that somebody made again with this one, perhaps with other arguments."""
    created_at: int = 0
    finished_at: int | None = None
    duration_ms: float | None = None

    def __str__(self) -> str:
        return f"{self.tool}[{self.id}] {self.status.value}"

    @property
    def for_others(self) -> bool:
        """Whether somebody outside the gateway is or was asked, to answer it or to allow it."""
        return self.attempt == 0 or self.first_reply is not None

    @property
    def may_be_verified(self) -> bool:
        """Whether it can still be asked if it took effect."""
        return self.verify is not None and self.verifications < MOST_VERIFICATIONS

    @property
    def is_withheld(self) -> bool:
        """Whether a hook keeps its result from everybody but administrators."""
        return any(note.decision == "withhold" for note in self.hooks)

    @property
    def asked_because(self) -> str | None:
        """Why hooks asked for an approval, for whoever decides about it."""
        asked = (f"Hook '{note.name}': {note.reason}" for note in self.hooks if note.decision == "ask" and note.reason)
        return " ".join(dict.fromkeys(asked)) or None

    @property
    def longest_wait_ms(self) -> int:
        """`expires_in_ms` as a length of time; one that never ends is taken for a year."""
        return self.expires_in_ms or LONGEST_SECONDS * 1000

    @property
    def is_parked(self) -> bool:
        """Whether it waits for somebody while a gateway holds what it takes to go on with it."""
        return self.status is CallStatus.PENDING and self.owner is not None

    @property
    def outcome(self) -> Outcome:
        """How it ended, or that it has not."""
        if self.status is CallStatus.COMPLETED:
            return Done(self.result if self.result is not None else NULL)
        if self.error is not None:
            return Failed(self.error.code, self.error.message, self.result)
        return Pending(self.status)
