"""What somebody wants called, and the row that such a call begins as. Pure.

Above: the pipeline, and whoever asks it for a call. Below: the model.
"""

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.calls.tool_servers import offer_topic
from jackfield.calls.transactions import Claim
from jackfield.catalog.catalog import Entry
from jackfield.model.call import Call, CallStatus, Delivery, Failed, FirstReply
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import CallKind
from jackfield.sources.base import TaskUse
from jackfield.sources.client import CallerClient

_sorted = msgspec.json.Encoder(order="sorted").encode


class CallRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants a tool called."""

    tool: str
    arguments: dict[str, object]
    principal: Principal
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
    run_id: str | None = None
    replay_of: str | None = None
    """The call that is made again."""
    idempotency_key: str | None = None
    digest: str = ""
    """Of the whole request, to tell a repeat from another request under the same idempotency key."""
    depth: int = 0
    within_ms: int | None = None
    """How long whoever asks will wait, where that is known; a call never takes longer than its tool may."""
    over_http: bool = False
    """An HTTP caller waits for this: what it does not get goes to the agent's inbox."""
    client_gone: Callable[[], Coroutine[Any, Any, bool]] | None = None
    """Comes back with True when that caller has hung up, with False when the gateway stops and cannot wait on."""
    client: CallerClient | None = None
    """The MCP client that made the request, if one did."""
    takes_pending: bool = False
    """Whoever asks can be told that the call is pending: a question to somebody then does not hold them up."""
    tasks: TaskUse = TaskUse.REQUIRED
    """Whether the call may go on as a task. Who follows tasks takes pending calls too."""
    begins_run: bool = False
    """`run_id` is a run of the gateway's own, which need not be on record yet."""
    asks_first: bool = False
    """The caller itself wants a person to allow it."""
    entry: Entry | None = None
    """A tool of this request alone, which no catalog has."""
    kind: CallKind = CallKind.TOOL
    """What is asked for, where there may be no entry that says it."""
    config: dict[str, Any] = {}
    """Options that the request gives the tool, by its type."""
    is_own: bool = False
    """It is of the agent's own servers, or lent to it, so that no list of tools has to name it."""
    needs: Scope | None = Scope.CALL
    """What the key must be allowed; None: whoever reaches the tool may use it."""
    only_reads: bool = False
    """A search or a poll: counted as every call is, and on record only if it fails."""
    verifies: bool = False
    """It asks how another call went: it is not verified itself, and waits for nobody."""
    within: tuple[str, ...] | None = None
    """Globs of the tools that the calling tool's source may call; None: no limit."""


class Prepared(Struct, frozen=True, kw_only=True):
    """A call that was found, checked and decided, with the row that it begins as."""

    request: CallRequest
    entry: Entry
    call: Call
    refusal: Failed | None = None
    """It is not carried out, and this is its outcome."""

    @property
    def wakes(self) -> str | None:
        """Who takes such calls off the record, and has to hear of this one."""
        is_handed = self.call.status in (CallStatus.WAITING, CallStatus.PENDING)
        return offer_topic(self.call.tool) if is_handed and self.entry.tool.is_offered else None


def asked_first(call: Call) -> Call:
    """The row of a call that a person has to allow first."""
    return msgspec.structs.replace(
        call,
        status=CallStatus.PENDING_APPROVAL,
        delivery=Delivery.INBOX,
        first_reply=FirstReply.PENDING,
        attempt=0,
        owner=None,
        waiter=None,
    )


def handed_over(call: Call, *, is_async: bool) -> Call:
    """The row of a call that somebody else answers: waited for, or pending at once."""
    handed = msgspec.structs.replace(call, status=CallStatus.WAITING, attempt=0, owner=None)
    if not is_async:
        return handed
    return msgspec.structs.replace(
        handed, status=CallStatus.PENDING, delivery=Delivery.INBOX, first_reply=FirstReply.PENDING, waiter=None
    )


def left_alone(call: Call) -> Call:
    """The row of a call that runs here and whose caller does not wait for it."""
    if call.agent is None:
        return msgspec.structs.replace(call, waiter=None)
    return msgspec.structs.replace(call, delivery=Delivery.INBOX, first_reply=FirstReply.PENDING, waiter=None)


class RequestBody(Struct, frozen=True, kw_only=True):
    """All that tells one request to call a tool from another, under the same idempotency key."""

    arguments: dict[str, Any] = {}
    agent: str | None = None
    space_id: str | None = None
    run_id: str | None = None
    chat_id: str | None = None


def request_digest(tool: str, arguments: dict[str, Any], **whose: str | None) -> str:
    """The same for requests that mean the same, however they are written and over whatever protocol they come."""
    return hashlib.sha256(_sorted((tool, RequestBody(arguments=arguments, **whose)))).hexdigest()


def claim_of(request: CallRequest) -> Claim | None:
    """The idempotency key that the request came with."""
    if request.idempotency_key is None:
        return None
    return Claim(principal=request.principal.name, key=request.idempotency_key, digest=request.digest)
