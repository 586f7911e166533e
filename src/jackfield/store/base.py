"""What a store does: run a script in one transaction, and publish topics after the commit.

Above: services, which hand over scripts. A new database is a subclass with `open`, `close`, `write` and `read`;
`tests/contracts/` says what it must hold.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeVar

from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.model.event import Event
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.store.bus import Bus
from jackfield.store.scripts import EventRecorder, Script, run

T = TypeVar("T")
log = logging.getLogger("jackfield.store")


class PoolFigures(Struct, frozen=True, kw_only=True):
    """The connections of one pool now."""

    name: str
    open: int
    idle: int
    most: int


class WriteReply(asyncio.Future[T]):
    """The acknowledgement of a write; it cannot be cancelled, so nobody has to shield it."""

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - asyncio's own interface
        return False


class Store(ABC):
    """A database that runs scripts."""

    is_shared: ClassVar[bool] = False
    """Whether other gateways may use the same database at the same time."""

    def __init__(self, *, large_result: int = LARGE_RESULT) -> None:
        self.bus = Bus()
        self.large_result = large_result
        """Bytes above which a result is kept apart from its call; 0: never."""
        self.recorder: EventRecorder | None = None
        """What scripts announce with `happened` is written by this; None: nobody wants to know of anything."""

    @abstractmethod
    async def open(self) -> None:
        """Connect and bring the schema up to date."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was accepted, then disconnect."""

    @abstractmethod
    def write(self, script: Callable[[], Script[T]]) -> asyncio.Future[T]:
        """Run a script in a transaction of a shared, bounded batch; acknowledged after its fsync.

        Once this returns, the write goes on whether or not somebody still waits for it. A script that raises fails
        alone. More than the queue holds: `StoreBusy`, at once.
        """

    @abstractmethod
    async def read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that writes nothing."""

    @property
    def queued(self) -> int:
        """Writes that were accepted and are not acknowledged yet."""
        return 0

    @property
    def pools(self) -> tuple[PoolFigures, ...]:
        """Its connections, where a server has them."""
        return ()

    def records(self, event_type: str) -> bool:
        """Whether somebody wants to know of such events."""
        return self.recorder is not None and event_type in self.recorder.types

    def tell(self, event: Event) -> None:
        """Have an event recorded that no transition causes. Returns at once; what goes wrong is logged."""
        if self.recorder is None or event.type not in self.recorder.types:
            return
        try:
            self.write(partial(self.recorder.script, event)).add_done_callback(_log_fault)
        except JackfieldError as fault:
            log.warning("an event (%s) could not be recorded: %s", event.type, fault)

    def wake(self, topic: str) -> None:
        """Publish `topic` at every gateway without writing anything."""
        self.bus.publish(topic)

    def tell_others(self, topic: str) -> None:  # noqa: B027 - most stores have no others
        """Have the other gateways hear `topic` (`Bus.on_foreign`), within a moment and many at once."""

    async def now_ms(self) -> int:
        """The database's clock; also the proof that it answers."""
        rows = await self.read(partial(run, "ping"))
        return int(rows[0]["now"])


def _log_fault(written: "asyncio.Future[None]") -> None:
    if not written.cancelled() and (fault := written.exception()) is not None:
        log.warning("an event could not be recorded: %s", fault)
