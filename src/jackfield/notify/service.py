"""`Notifications`: the targets of the config, what is delivered to them, and what is known of that.

Above: the gateway, `api.py`. Below: `recorder.py`, which writes the outbox, and a `Delivery` for each target.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.callbacks import SignedLinks
from jackfield.errors import AlreadyResolved, NotFound
from jackfield.model.event import Event
from jackfield.model.ids import new_id
from jackfield.model.text import iso_time
from jackfield.notify import transactions as outbox_tx
from jackfield.notify.delivery import Delivery
from jackfield.notify.mail import send_mail
from jackfield.notify.recorder import recorder_of
from jackfield.notify.slack import send_slack
from jackfield.notify.transactions import OutboxDepth
from jackfield.notify.types import TEST_TYPE, Message, Notification, NotificationStatus, Target, Undelivered
from jackfield.notify.webhook import send_webhook
from jackfield.outgoing import Outgoing
from jackfield.settings.notify import NotifySettings
from jackfield.sources.supervisor import SourceState, SourceStatus
from jackfield.store import Store
from jackfield.store.scripts import run

log = logging.getLogger("jackfield.notify")

LOOK_SECONDS = 60.0
"""How often sources are told of again that are up: the gateway that found one down may be dead."""


class NotifyLinks(Struct, frozen=True, kw_only=True):
    """Where messages lead."""

    signed: SignedLinks
    public_url: str
    login_url: Callable[[str], str]
    """Of a call that waits for a login."""


class Notifications:
    """Tells targets of events."""

    def __init__(
        self,
        targets: Mapping[str, NotifySettings],
        *,
        store: Store,
        outgoing: Outgoing,
        gateway_id: str,
        links: NotifyLinks,
        redact: Callable[[Raw], Raw],
    ) -> None:
        self._store = store
        self._outgoing = outgoing
        self._gateway_id = gateway_id
        self._links = links
        self._redact = redact
        self._targets: dict[str, Target] = {}
        self._deliveries: dict[str, Delivery] = {}
        self._is_running = False
        self._sources: dict[str, SourceStatus] = {}
        self._sources_changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._take(targets)

    @property
    def targets(self) -> Mapping[str, Target]:
        return self._targets

    def start(self) -> None:
        """Deliver what there is, from now on."""
        self._is_running = True
        for name, target in self._targets.items():
            self._deliveries[name] = self._delivery(target)
        self._watching = asyncio.create_task(self._watch_sources(), name="notify sources")

    async def close(self) -> None:
        self._is_running = False
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        await asyncio.gather(*(delivery.close() for delivery in self._deliveries.values()))
        self._deliveries = {}

    async def apply(self, targets: Mapping[str, NotifySettings]) -> None:
        """From now on these are the targets. One that is the same goes on undisturbed."""
        before = self._targets
        self._take(targets)
        gone = [name for name in self._deliveries if before.get(name) != self._targets.get(name)]
        for name in gone:
            await self._deliveries.pop(name).close()
        if self._is_running:
            for name in self._targets.keys() - self._deliveries.keys():
                self._deliveries[name] = self._delivery(self._targets[name])

    def look(self, sources: Iterable[SourceStatus]) -> None:
        """Sources as this gateway finds them now."""
        if self._store.records("source.down") or self._store.records("source.up"):
            self._sources = {source.name: source for source in sources}
            self._sources_changed.set()

    async def page(
        self, *, status: NotificationStatus | None, target: str | None, limit: int, before: int | None
    ) -> tuple[list[Notification], int | None]:
        """Notifications, the newest first."""
        script = partial(outbox_tx.notification_page, status=status, target=target, limit=limit, before=before)
        return await self._store.read(script)

    async def retry(self, notification_id: str) -> Notification:
        """Deliver what was given up."""
        found, is_retried = await self._store.write(partial(outbox_tx.retry, notification_id))
        if found is None:
            raise NotFound(f"There is no notification '{notification_id}'. It may have been deleted by its age.")
        if not is_retried:
            raise AlreadyResolved(
                f"Notification '{notification_id}' is {found.status.value}. Only one that has failed can be retried."
            )
        return found

    async def test(self, name: str, *, sent_by: str) -> str | None:
        """Send a message to a target at once, past the outbox. None: it was taken; otherwise why not."""
        target = self._targets.get(name)
        if target is None:
            known = ", ".join(sorted(self._targets)) or "none"
            raise NotFound(f"There is no [notify.{name}] in the config of this gateway. Known: {known}.", param="name")
        at = await self._store.now_ms()
        message = Message(id=new_id("msg"), type=TEST_TYPE, at=at, data={"target": name, "sent_by": sent_by})
        try:
            await self._send(target, message)
        except Undelivered as fault:
            return str(fault)
        return None

    async def depths(self) -> dict[str, OutboxDepth]:
        """What waits for each target of this config."""
        found = await self._store.read(outbox_tx.outbox_depths) if self._targets else {}
        return {name: found.get(name, OutboxDepth()) for name in self._targets}

    def shown(self, notification: Notification) -> Raw:
        """The data of a notification without secrets."""
        return self._redact(notification.data)

    def _take(self, targets: Mapping[str, NotifySettings]) -> None:
        self._targets = {name: Target(name, settings) for name, settings in targets.items()}
        self._store.recorder = recorder_of(self._targets.values())

    def _delivery(self, target: Target) -> Delivery:
        async def send(notification: Notification) -> None:
            await self._send(target, self._message(notification))

        return Delivery(target, store=self._store, gateway_id=self._gateway_id, send=send)

    def _message(self, notification: Notification) -> Message:
        data = msgspec.json.decode(self.shown(notification))
        call_id = str(data.get("call_id", ""))
        links = self._links
        match notification.type:
            case "call.pending_approval":
                data["approval_url"] = links.signed.url_for(call_id, purpose="approval")
            case "call.pending":
                data["callback_url"] = links.signed.url_for(call_id, purpose="callback")
                token = links.signed.token_for(call_id, purpose="callback")
                data["answer_url"] = f"{links.public_url}/#/answer/{token}"
            case "call.pending_login":
                data["login_url"] = links.login_url(call_id)
        return Message(id=notification.id, type=notification.type, at=notification.created_at, data=data)

    async def _send(self, target: Target, message: Message) -> None:
        settings = target.settings
        if settings.kind == "email":
            host = urlsplit(self._links.public_url).hostname or "localhost"
            await send_mail(message, settings, host=host)
        elif settings.kind == "slack":
            await send_slack(self._outgoing, message, url=settings.url or "")
        else:
            await send_webhook(self._outgoing, message, url=settings.url or "", secret=settings.secret)

    async def _watch_sources(self) -> None:
        """Tell of sources that went down or came up, in the order in which this gateway found that."""
        told: dict[str, bool] = {}
        while True:
            is_change = False
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._sources_changed.wait()
                    is_change = True
            self._sources_changed.clear()
            for name in told.keys() - self._sources.keys():
                await self._store.write(partial(run, "forget_source_down", source=name))
                del told[name]
            for name, status in list(self._sources.items()):
                if status.status is SourceState.STARTING:
                    continue
                is_down = status.status is SourceState.DOWN
                if told.get(name) is not is_down or (not is_down and not is_change):
                    try:
                        await self._tell_of(status, is_down=is_down)
                        told[name] = is_down
                    except Exception:
                        log.exception("that source %s is %s could not be told", name, "down" if is_down else "up")

    async def _tell_of(self, status: SourceStatus, *, is_down: bool) -> None:
        details = {
            "source": status.name,
            "kind": status.kind,
            "status": status.status.value,
            "error": status.error if is_down else None,
            "since": None if status.since is None else iso_time(status.since),
        }
        event = Event(type="source.down" if is_down else "source.up", source=status.name, details=details)
        script = outbox_tx.source_down if is_down else outbox_tx.source_up
        await self._store.write(partial(script, event, gateway=self._gateway_id))
