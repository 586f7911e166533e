"""The calls that a gateway offers a tool server, and which of them the server has taken.

Above: `serving.py`. Below: the answer of a function.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from jackfield.protocol.functions import ToolAnswer
from jackfield.sdk.types import CallRecord, time_of

REMEMBERED = 10_000
"""Answered calls that are remembered. The gateway has their answers and does not offer them again."""


class CallOffer(Struct, frozen=True, kw_only=True, rename="camel"):
    """An event of a tool server's stream: `connected`, a call to answer (`tool.call`), or one that was cancelled
    (`tool.cancel`).
    """

    type: str
    tool_call_id: str = ""
    tool_name: str = ""
    args: dict[str, Any] = {}
    run_id: str = ""
    agent_entity_id: str | None = None
    deadline: str | None = None
    ts: str | None = None
    """When it was offered."""
    attempt: int = 1
    """How often the call has been offered, to any server."""


class TakenCall:
    """One call of this server, from its offer to its answer."""

    __slots__ = ("answer", "attempt", "is_started", "newest_attempt", "offer", "offered_again")

    def __init__(self, offer: CallOffer) -> None:
        self.offer = offer
        self.attempt = offer.attempt
        """The offer under which the call is started."""
        self.newest_attempt = offer.attempt
        self.is_started = False
        self.answer: ToolAnswer | None = None
        self.offered_again = asyncio.Event()
        """Set when the gateway offers the call again: it is reachable, and has no answer yet."""

    @property
    def id(self) -> str:
        return self.offer.tool_call_id

    @property
    def is_ours(self) -> bool:
        """Whether this server must answer it: it was started, or answered without running."""
        return self.is_started or self.answer is not None


class TakenCalls:
    """The calls that this server has taken, so that none is started twice."""

    def __init__(self) -> None:
        self._created = time.monotonic()
        self._open: dict[str, TakenCall] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()

    def take(self, offer: CallOffer) -> TakenCall | None:
        """A new call; None for one that was taken before."""
        known = self._open.get(offer.tool_call_id)
        if known is not None:
            known.newest_attempt = max(known.newest_attempt, offer.attempt)
            known.offered_again.set()
        if known is not None or offer.tool_call_id in self._finished:
            return None
        call = self._open[offer.tool_call_id] = TakenCall(offer)
        return call

    def finish(self, call: TakenCall) -> None:
        """Remember only the id of an answered call, and only the newest ids."""
        self._open.pop(call.id, None)
        self._finished[call.id] = None
        if len(self._finished) > REMEMBERED:
            self._finished.popitem(last=False)

    def drop(self, call: TakenCall) -> None:
        """Forget a call that was never started and went to another server: it may come back."""
        self._open.pop(call.id, None)

    def may_predate_us(self, record: CallRecord, offer: CallOffer) -> bool:
        """Whether the call was made before this server started; an unknown age counts as yes.

        The call's age is by the gateway's clock and ours by this machine's, so the two need not agree.
        """
        made, offered = record.created, time_of(offer.ts)
        if made is None or offered is None:
            return True
        return (offered - made).total_seconds() > time.monotonic() - self._created
