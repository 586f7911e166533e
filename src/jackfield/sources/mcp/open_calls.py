"""The calls in flight on one connection, and to which of them a server's messages belong.

Above: `connection.py`. Below: `handlers.py`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, Struct

from jackfield.protocol.jsonrpc import INVALID_REQUEST, RpcError
from jackfield.protocol.mcp import ELICIT, ROOTS, SAMPLE
from jackfield.protocol.records import LogNote, Progress
from jackfield.sources.client import AskClient
from jackfield.sources.mcp.handlers import Sample, ServerRequest, answer_requests, related_task

CLIENT_REQUESTS = frozenset({ELICIT, SAMPLE, ROOTS})


class CallHandlers(Struct, frozen=True, kw_only=True):
    """Where a server's messages during one call go."""

    report: Callable[[Progress], None]
    note: Callable[[LogNote], None]
    ask: AskClient | None = None
    """Puts the server's requests to the client behind the call."""
    capabilities: dict[str, Any] = {}
    """What that client can be asked, for a server of 2026-07-28."""
    principal: str = ""
    """Who made the call."""
    meta: Mapping[str, Any] = {}
    """The `_meta` that the server gets with it, beside what concerns the connection."""
    log_level: str | None = None
    """The lowest level of log messages that its client wants."""
    opened: Callable[[str], None] | None = None
    """Tells its client that a url was opened."""


class OpenCalls:
    """Those of one connection, by the numbers of their requests."""

    def __init__(self) -> None:
        self.handlers: dict[int, CallHandlers] = {}
        self.task_asks: dict[str, AskClient] = {}
        """By task: who is asked what its server asks."""
        self._asking: Counter[int] = Counter()
        """By call: how many of its questions wait for an answer."""

    def of(self, during: int | None) -> CallHandlers | None:
        """The handlers of the call that is known, else of the only one."""
        if during is not None:
            return self.handlers.get(during)
        return next(iter(self.handlers.values())) if len(self.handlers) == 1 else None

    async def answer(self, request: ServerRequest, *, during: int | None, sample: Sample | None) -> Raw:
        """The result of a server's request. On a shared stream nothing says which call it belongs to (`_asker`).

        A model is asked during calls only: a server may not spend the operator's money while nobody uses it. Roots are
        those of a call's client, so outside calls there are none.
        """
        if self.task_asks and (ask := self.task_asks.get(related_task(request.params) or "")) is not None:
            (result,) = await answer_requests((request,), ask=ask, sample=sample)
            return result
        number = self._asker() if during is None else during
        sample = sample if self.handlers else None
        is_for_client = request.method in CLIENT_REQUESTS and (request.method != SAMPLE or sample is None)
        if number is None and self.handlers and is_for_client:
            raise RpcError(
                INVALID_REQUEST,
                f"{len(self.handlers)} calls are running, and nothing says which of them asks. Ask one at a time.",
            )
        handlers = None if number is None else self.handlers.get(number)
        if number is None or handlers is None:
            (result,) = await answer_requests((request,), ask=None, sample=sample)
            return result
        self._asking[number] += 1
        try:
            (result,) = await answer_requests((request,), ask=handlers.ask, sample=sample)
            return result
        finally:
            self._asking[number] -= 1
            if not self._asking[number]:
                del self._asking[number]

    def _asker(self) -> int | None:
        """The call that asks: the only one, or the only one that does not wait for an answer already.

        The latter is likely, not certain, so only among calls of one principal: nobody is shown another's question.
        """
        if len(self.handlers) == 1:
            return next(iter(self.handlers))
        if len({handlers.principal for handlers in self.handlers.values()}) > 1:
            return None
        free = [number for number in self.handlers if number not in self._asking]
        return free[0] if len(free) == 1 else None
