"""What a tool server has begun: the calls it took, so that it begins none twice.

Above: `serving.py`. Below: nothing but the clock.
"""

import asyncio
import time
from collections import OrderedDict
from datetime import datetime
from typing import Any

from msgspec import Struct

from jackfield.sdk.answers import Answer
from jackfield.sdk.types import CallRecord

KEPT = 10_000
"""Answered calls that are remembered. The gateway has their answer and offers none again, so this is plenty."""


class Offer(Struct, frozen=True, kw_only=True, rename="camel"):
    """What comes down a tool server's stream: `connected`, or a call to be answered (`tool.call`)."""

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
    """How often the call was offered so far, to whomever."""


class Work:
    """One call that was taken, from its offer to its answer."""

    __slots__ = ("answer", "attempt", "is_begun", "newest_attempt", "offer", "offered_again")

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.attempt = offer.attempt
        """The offer under which this call is begun."""
        self.newest_attempt = offer.attempt
        self.is_begun = False
        self.answer: Answer | None = None
        self.offered_again = asyncio.Event()
        """The gateway asked for it once more: it lives, and has no answer yet."""

    @property
    def is_in_hand(self) -> bool:
        """Whether it is this server's to end: begun, or answered without."""
        return self.is_begun or self.answer is not None


class Begun:
    """The calls that were taken since this memory began."""

    def __init__(self) -> None:
        self._born = time.monotonic()
        self._open: dict[str, Work] = {}
        self._over: OrderedDict[str, None] = OrderedDict()

    def take(self, offer: Offer) -> Work | None:
        """The work that a new call makes; None for a call that was taken before."""
        known = self._open.get(offer.tool_call_id)
        if known is not None:
            known.newest_attempt = max(known.newest_attempt, offer.attempt)
            known.offered_again.set()
        if known is not None or offer.tool_call_id in self._over:
            return None
        work = self._open[offer.tool_call_id] = Work(offer)
        return work

    def finish(self, work: Work) -> None:
        """Keep only the id of a call that is over, and of those the newest."""
        call_id = work.offer.tool_call_id
        self._open.pop(call_id, None)
        self._over[call_id] = None
        if len(self._over) > KEPT:
            self._over.popitem(last=False)

    def drop(self, work: Work) -> None:
        """Forget a call that was never begun and went to another server: it may come back."""
        self._open.pop(work.offer.tool_call_id, None)

    def is_younger_than(self, call: CallRecord, offer: Offer) -> bool:
        """Whether the call was made before this memory began; what cannot be told counts as yes.

        The call's age is by the gateway's clock alone and ours by this machine's, so the two need not agree.
        """
        made, offered = _moment(call.created_at), _moment(offer.ts)
        if made is None or offered is None:
            return True
        return (offered - made).total_seconds() > time.monotonic() - self._born


def _moment(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
