"""`[notify.NAME]`: whom to tell of what, and how."""

import re
from email.errors import MessageError
from email.headerregistry import Address
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Meta, Struct, field

from jackfield.errors import ConfigError
from jackfield.model.event import EventType
from jackfield.protocol.webhook_signatures import PREFIX, SHORTEST_KEY, signing_key

DAY_SECONDS = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PORTS = {"smtp": 587, "smtps": 465}
_ON_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
Globs = str | tuple[str, ...]


class NotifyFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`where`: globs. Everything that is given has to match; what an event is not about matches nothing."""

    tool: Globs = ()
    """Names of tools."""
    source: Globs = ()
    """Names of sources."""
    agent: Globs = ()
    """Names of agents."""


class NotifySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One target."""

    kind: Literal["webhook", "slack", "email"]
    """How it is told."""
    on: Annotated[tuple[EventType, ...], Meta(min_length=1)]
    """Which [events](events.md#notifications) it is told of."""
    where: NotifyFilter = NotifyFilter()
    """Which of them, by globs."""
    url: str | None = None
    """For `webhook` and `slack`."""
    secret: str | None = None
    """What webhooks are signed with: `whsec_` and base64."""
    smtp: str | None = None
    """For `email`: `smtp://host:587` (STARTTLS) or `smtps://host:465` (TLS)."""
    username: str | None = None
    """For `email`: the mail server's."""
    password: str | None = None
    """For `email`: the mail server's."""
    starttls: bool | None = None
    """Whether `smtp://` has to be encrypted; None: unless the server is on this machine."""
    to: str | tuple[str, ...] = ()
    """For `email`: one address or several."""
    from_: str | None = field(name="from", default=None)
    """For `email`: the sender."""
    give_up_after: Annotated[float, Meta(gt=0)] = DAY_SECONDS
    """Seconds after which a notification that cannot be delivered has failed."""

    @property
    def recipients(self) -> tuple[str, ...]:
        return (self.to,) if isinstance(self.to, str) else self.to


class SmtpServer(Struct, frozen=True, kw_only=True):
    """Where e-mail is handed in."""

    host: str
    port: int
    is_tls: bool
    needs_starttls: bool
    username: str | None = None
    password: str | None = None


def check_target(name: str, target: NotifySettings, *, where: str) -> None:
    """Raise `ConfigError` where a target cannot be used. `where` is the file and the table."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: a target's name has 1 to 64 letters, digits, '_', '.' or '-'. Rename it.")
    wanted = ("smtp", "to", "from") if target.kind == "email" else ("url",)
    given = {"url": target.url, "smtp": target.smtp, "to": target.to, "from": target.from_}
    for key in wanted:
        if not given[key]:
            raise ConfigError(f"{where} needs the key '{key}', since its kind is \"{target.kind}\". Add it.")
    for key, value in (given | {"secret": target.secret}).items():
        used = key in wanted or (key == "secret" and target.kind == "webhook")
        if value and not used:
            raise ConfigError(f'{where}.{key} has no meaning for kind = "{target.kind}". Remove it.')
    if target.kind == "email":
        smtp_server(target, where=where)
        for key, address in (("from", target.from_ or ""), *(("to", one) for one in target.recipients)):
            _check_address(address, where=f"{where}.{key}")
    else:
        _check_url(target.url or "", where=f"{where}.url")
        if target.secret is not None:
            check_webhook_secret(target.secret, where=f"{where}.secret")


def check_webhook_secret(secret: str, *, where: str) -> None:
    """Raise `ConfigError` for what no message can be signed with."""
    try:
        signing_key(secret)
    except ValueError:
        raise ConfigError(
            f"{where} is not a webhook secret: it has to be '{PREFIX}' and at least {SHORTEST_KEY} bytes in base64. "
            f"Make one with: echo {PREFIX}$(head -c 32 /dev/urandom | base64)"
        ) from None


def smtp_server(target: NotifySettings, *, where: str) -> SmtpServer:
    """The server that `smtp` names."""
    text = target.smtp or ""
    parts = urlsplit(text if "://" in text else f"smtp://{text}")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or parts.path.strip("/") or parts.query:
        raise ConfigError(
            f'{where}.smtp is not a mail server. Write smtp = "smtp://mail.example.com:587" (STARTTLS) or '
            '"smtps://mail.example.com:465" (TLS).'
        )
    username = target.username or (unquote(parts.username) if parts.username else None)
    password = target.password or (unquote(parts.password) if parts.password else None)
    if (username is None) is not (password is None):
        raise ConfigError(f"{where} has a username or a password, but not both. Add the other one.")
    return SmtpServer(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        is_tls=parts.scheme == "smtps",
        needs_starttls=parts.hostname not in _ON_THIS_MACHINE if target.starttls is None else target.starttls,
        username=username,
        password=password,
    )


def _check_url(url: str, *, where: str) -> None:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or not url.isprintable() or " " in url:
        raise ConfigError(f"{where} is not an http or https URL. Correct it.")


def _check_address(address: str, *, where: str) -> None:
    try:
        is_good = address.isprintable() and address.isascii() and bool(Address(addr_spec=address).domain)
    except (MessageError, ValueError, IndexError):
        is_good = False
    if not is_good:
        raise ConfigError(f"{where} is not an e-mail address. Write it as name@example.com.")
