"""The MCP client behind a call: what it can do, and what it is asked while the call runs.

Above: `/mcp`, which knows the client, and the executor, which lends it to the sources. Below: the model. A call that no
MCP client made has none; a question for a person is put to somebody all the same.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Raw, Struct

from jackfield.protocol.jsonrpc import RpcError


class ElicitRequest(Struct, frozen=True, kw_only=True):
    """A question that came up while a call runs, for the person behind it (MCP's elicitation)."""

    message: str
    schema: dict[str, Any] | None = None
    """What the answer's content must fit; None where the person is asked to open `url` instead."""
    url: str | None = None
    id: str = ""
    """What the server calls a `url` that is to be opened, where it is of 2025-11-25."""
    key: str = "question"
    """What whoever asks calls the question, among those it has in one call."""
    is_retried: bool = False
    """Its server has answered the call with the question, and is called again with the answer."""


class ElicitAnswer(Struct, frozen=True, kw_only=True):
    """What the person said."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    """For `accept`: what was filled in."""


class SampleRequest(Struct, frozen=True, kw_only=True):
    """A server wants an answer of the client's model (MCP's sampling)."""

    params: dict[str, Any]
    """As the server sent them."""
    key: str = "sampling"


class RootsRequest(Struct, frozen=True, kw_only=True):
    """A server wants to know the folders that the client works in (MCP's roots)."""

    key: str = "roots"


ClientRequest = ElicitRequest | SampleRequest | RootsRequest
ClientAnswer = ElicitAnswer | Raw | RpcError | None
"""A person's answer; the result that the client gave, or its error; None: there is no client that does this."""
AskClient = Callable[[tuple[ClientRequest, ...]], Awaitable[tuple[ClientAnswer, ...]]]
"""Puts requests to the client, all at once; the answers come in the same order."""

CANCELLED = ElicitAnswer(action="cancel")
MISSING_CAPABILITY = "missing_capability"
"""The error code of a call that failed because its client cannot do what the server needs."""
URL_REQUIRED = "url_required"
"""The error code of a call that a server takes only after a person has opened a url."""
_CAPABILITIES: dict[type[ClientRequest], str] = {
    ElicitRequest: "elicitation",
    SampleRequest: "sampling",
    RootsRequest: "roots",
}


class CallerClient(Struct, frozen=True, kw_only=True):
    """The client that made a call."""

    capabilities: dict[str, Any] = {}
    """As it declared them."""
    ask: AskClient | None = None
    """None: nothing can be put to it while the call runs."""
    is_waiting: Callable[[], bool] | None = None
    """For a client that follows tasks: whether its request is still open.

    A question that comes up later, or that its server does not retry, makes the call a task which needs input.
    """
    meta: dict[str, Any] = {}
    """The `_meta` of its request, as far as it is passed on."""
    log_level: str | None = None
    """The lowest level of log messages that it wants; None: none."""
    opened: Callable[[str], None] | None = None
    """Tells it that the url of this id was opened and what it is for is done (2025-11-25). Never blocks."""

    def takes(self, request: ClientRequest) -> bool:
        """Whether it declares that it answers such requests, and can be asked now."""
        if self.ask is None or not isinstance(self.capabilities.get(_CAPABILITIES[type(request)]), dict):
            return False
        if self.is_waiting is None:
            return True
        return self.is_waiting() and (not isinstance(request, ElicitRequest) or request.is_retried)
