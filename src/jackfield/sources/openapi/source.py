"""The operations of one service as tools: `kind = "openapi"`.

The document is fetched again every `cache_ttl` seconds, with its ETag where it has one. While it cannot be read, the
last good one is used and the listing says so; only a source that never had a good one is down.
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import LoginNeeded, SourceUnavailable
from jackfield.model.call import Done, Failed, Outcome, done
from jackfield.model.content import Content, content_form
from jackfield.model.redaction import CUT, cut
from jackfield.model.tool import Tool, ToolKind
from jackfield.outgoing import (
    Outgoing,
    OutgoingBadAnswer,
    OutgoingError,
    OutgoingNotSent,
    OutgoingResponse,
    OutgoingTimedOut,
    OutgoingUnreachable,
    with_answer,
)
from jackfield.outgoing.urls import named_origin
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.sources.authorization import (
    Authorization,
    WithoutLogin,
    how_to_log_in,
    listing_logins,
    send_authorized,
    with_login,
)
from jackfield.sources.base import Invocation, Listing, SourceContext
from jackfield.sources.http import Unfillable, json_outcome, phrase_of, timed_out
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.openapi.operations import OpenApiListing, OpenApiOperation
from jackfield.sources.openapi.options import OpenApiOptions, credentials_of, parse_options
from jackfield.sources.openapi.reader_process import listing_from
from jackfield.sources.openapi.requests import OpenApiRequest, request_of

MAX_MESSAGE = 500
MAX_PATHS = 200
_MESSAGE_KEYS = ("message", "detail", "error_description", "title", "error", "errors", "reason", "description")
_PAGE = "text/html"
"""What comes from a login or an error page; no service answers an operation with it."""
_NOT_A_FILE = frozenset({"", _PAGE, "application/json"})
"""Where JSON was to come, and something else is a fault."""
_TEXTUAL = ("text/", "application/xml", "application/yaml", "application/x-yaml", "application/javascript")


def outcome_of(answer: OutgoingResponse, *, fields: Sequence[str] = ()) -> Done | Failed:
    """The outcome of a call with this response, trimmed to `fields` if there are any."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return _failure(answer)
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _PAGE and (kind.startswith(_TEXTUAL) or kind.endswith("+xml")):
        return done(answer.content.decode("utf-8", "replace"))
    outcome = json_outcome(answer)
    if isinstance(outcome, Failed) and kind not in _NOT_A_FILE:
        return Done(_as_content(kind, answer))
    if not fields or not isinstance(outcome, Done):
        return outcome
    try:
        trimmed = only(msgspec.json.decode(outcome.result), fields)
        return outcome if trimmed is None else done(trimmed)
    except (RecursionError, OverflowError):  # lists in lists in lists, or a number that cannot be written again
        return outcome


def _as_content(kind: str, answer: OutgoingResponse) -> Raw:
    """Bytes in the content form: an image or a sound as one, anything else as an embedded resource."""
    data = base64.b64encode(answer.content).decode()
    block: dict[str, Any]
    if kind.startswith(("image/", "audio/")):
        block = {"type": kind.partition("/")[0], "data": data, "mimeType": kind}
    else:
        address = answer.url.partition("?")[0].partition("#")[0]
        block = {"type": "resource", "resource": {"uri": address, "mimeType": kind, "blob": data}}
    return content_form(Content(blocks=Raw(msgspec.json.encode([block]))))


def only(value: Any, fields: Iterable[str]) -> Any:
    """The parts of a JSON value that dotted paths name. None: nothing in it has such a name.

    A path goes through lists, so that `items.id` is the id of each item, and `id` works on a list of objects.
    """
    return _part(value, [tuple(field.split(".")) for field in list(fields)[:MAX_PATHS]])


def _part(value: Any, paths: list[tuple[str, ...]]) -> Any:
    if isinstance(value, list):
        parts = [part for inner in value if (part := _part(inner, paths)) is not None]
        return parts or None
    if not isinstance(value, dict):
        return None
    kept: dict[str, Any] = {}
    for key, inner in value.items():
        below = [path[1:] for path in paths if path[0] == key]
        if not below:
            continue
        if () in below:
            kept[key] = inner
        elif (part := _part(inner, below)) is not None:
            kept[key] = part
    return kept or None


def _failure(answer: OutgoingResponse) -> Failed:
    said = _said(answer.content) or phrase_of(answer.status)
    message = f"HTTP {answer.status}: {said}"
    return Failed("http_error", message, Raw(msgspec.json.encode({"error": message, "status": answer.status})))


def _said(content: bytes) -> str:
    """What a service says went wrong: the message in its JSON, wherever services put it, else how the text begins."""
    try:
        value = msgspec.json.decode(content)
    except UNREADABLE:
        return _line(_beginning(content))
    return _line(_message_in(value, depth=0) or _beginning(content))


def _beginning(content: bytes) -> str:
    most = MAX_MESSAGE * 8
    return content[:most].decode("utf-8", "replace") + (CUT if len(content) > most else "")


def _message_in(value: Any, *, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth > 3:  # noqa: PLR2004 - errors → [0] → error → message
        return ""
    if isinstance(value, list):
        return "; ".join(dict.fromkeys(filter(None, (_message_in(inner, depth=depth + 1) for inner in value[:5]))))
    if isinstance(value, dict):
        found = (_message_in(value[key], depth=depth + 1) for key in _MESSAGE_KEYS if key in value)
        return next(filter(None, found), "")
    return ""


def _line(text: str) -> str:
    return cut(" ".join(text.split()), MAX_MESSAGE)


READ_SECONDS = 20.0
CHECK_SECONDS = 2.0
"""How often a document in a file is checked for changes."""
OK, NOT_MODIFIED = 200, 304


def openapi_source(name: str, options: dict[str, Any], source_context: SourceContext) -> "OpenApiSource":
    """The factory of this kind."""
    return OpenApiSource(name, parse_options(options, where=f"sources.{name}"), source_context)


class _Stamp(Struct, frozen=True):
    """Identifies a version of a document."""

    etag: str | None = None
    modified: str | None = None
    file: tuple[int, int, int] | None = None


class OpenApiSource:
    """One service, by its document."""

    kind: ClassVar[str] = "openapi"
    uses_login: ClassVar[bool] = True
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, options: OpenApiOptions, source_context: SourceContext) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._options = options
        self._outgoing: Outgoing = source_context.outgoing
        self._file = None if options.file is None else source_context.folder / Path(options.file).expanduser()
        self._request_refresh = partial(source_context.changed, name)
        self._logins = source_context.logins
        self._has_login = self._logins.of(name, "") is not None
        self._last_user: str | None = None
        """Whose own login was used last, and was good."""
        self._kept = source_context.kept
        self._credentials = credentials_of(options.auth, options.headers)
        self._listed: OpenApiListing | None = None
        """The last good one."""
        self._stamp = _Stamp()
        self._checked = _Stamp()
        self._following: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name=f"document of {self.name}")

    async def refresh(self) -> Listing:
        try:
            self._listed = await self._read()
        except LoginNeeded:
            return await self._last_known()
        except (Unreadable, SourceUnavailable, OutgoingError, OSError) as fault:
            said = self._credentials.text(self._sentence(fault))
            if self._listed is None:
                raise Unreadable(said) from None
            stale = f"{said} Its tools are served as they were last read."
            return msgspec.structs.replace(self._listed.listing, faults=(stale, *self._listed.listing.faults))
        return self._listed.listing

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and self._listed is not None and tool.name in self._listed.operations

    async def execute(self, invocation: Invocation) -> Outcome:
        operation = None if self._listed is None else self._listed.operations.get(invocation.tool.name)
        if operation is None:
            return Failed("tool_not_found", f"'{self.name}' has no operation '{invocation.tool.name}' any more.")
        if not _is_same(invocation.tool.definition, operation.definition):
            # Refreshed a moment ago and not in the catalog yet: nobody has seen the new definition.
            return Failed("definition_changed", f"'{invocation.tool.name}' has just changed. List the tools anew.")
        try:
            request = request_of(operation, invocation.arguments, self._credentials)
            login = self._login_of(invocation.principal) if self._has_login else None
            answer = await self._ask(operation, request, invocation, login)
        except OutgoingTimedOut:
            return timed_out(invocation)
        except (OutgoingError, Unfillable) as fault:
            return Failed(fault.code, self._credentials.text(fault.message))
        fields = operation.select or invocation.arguments.get(operation.fields_argument or "") or ()
        if login is not None:
            self._last_user = invocation.principal
        return self._credentials.cleaned(outcome_of(answer, fields=fields))

    async def close(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])

    async def _ask(
        self, operation: OpenApiOperation, request: OpenApiRequest, invocation: Invocation, login: Authorization | None
    ) -> OutgoingResponse:
        """Send it; once more after a transport failure, if nothing was sent or the tool is idempotent."""
        end = time.monotonic() + invocation.timeout_ms / 1000
        send = self._send if login is None else partial(self._send_authorized, login)
        try:
            return await send(operation, request, end)
        except (OutgoingUnreachable, OutgoingBadAnswer) as fault:
            if not (isinstance(fault, OutgoingNotSent) or invocation.tool.metadata.idempotent):
                raise
        return await send(operation, request, end)

    def _login_of(self, principal: str) -> Authorization:
        return self._logins.of(self.name, principal) or WithoutLogin(self.name)

    async def _send_authorized(
        self, login: Authorization, operation: OpenApiOperation, request: OpenApiRequest, end: float
    ) -> OutgoingResponse:
        """Raises `LoginNeeded`."""

        def send(headers: Mapping[str, str]) -> Awaitable[OutgoingResponse]:
            sent = msgspec.structs.replace(request, headers=with_login(request.headers, headers))
            return self._send(operation, sent, end)

        return await send_authorized(login, operation.method, request.url, send)

    async def _send(self, operation: OpenApiOperation, request: OpenApiRequest, end: float) -> OutgoingResponse:
        return await self._outgoing.request(
            operation.method,
            request.url,
            headers=request.headers,
            content=request.content,
            timeout=max(end - time.monotonic(), 0.001),
            max_bytes=self._options.max_bytes,
            named_by=operation.base.named_by,
        )

    async def _read(self) -> OpenApiListing:
        content, stamp = await (self._fetch() if self._file is None else self._load(self._file))
        self._checked = stamp
        if content is None and self._listed is not None:
            return self._listed
        try:
            offer = await self._offered_in(content or b"")
        except Unreadable as fault:
            if self._file is None:
                with_answer(fault, content or b"", redact=self._credentials.text)
            raise
        self._stamp = stamp
        return offer

    async def _offered_in(self, document: bytes) -> OpenApiListing:
        return await listing_from(document, source=self.name, options=self._options, credentials=self._credentials)

    async def _last_known(self) -> Listing:
        """The document is shown after a login only: the last one, also from before a restart."""
        if self._listed is None and (document := await self._kept.read(self.name)) is not None:
            with contextlib.suppress(Unreadable):
                self._listed = await self._offered_in(document)
        known = Listing() if self._listed is None else self._listed.listing
        said = how_to_log_in(self.name, is_per_user=self._logins.is_per_user(self.name))
        return msgspec.structs.replace(known, login_needed=said)

    async def _fetch(self) -> tuple[bytes | None, _Stamp]:
        """The document at the url; no bytes where it is the one that we have."""
        url = self._options.url
        assert url is not None
        known = self._stamp if self._listed is not None else _Stamp()
        conditions = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
        sent = self._credentials if self._is_theirs(url) else credentials_of(None, {})
        headers = {**sent.headers, **{name: value for name, value in conditions.items() if value is not None}}

        def fetch(login: Mapping[str, str]) -> Awaitable[OutgoingResponse]:
            return self._outgoing.request(
                "GET",
                url,
                headers=with_login(headers, login) if login else headers,
                params=sent.params,
                timeout=READ_SECONDS,
                max_bytes=self._options.max_document,
                named_by=url,
            )

        if self._has_login and self._is_theirs(url):
            answer = await self._fetched_with_login(url, fetch)
        else:
            answer = await fetch({})
        if answer.status == NOT_MODIFIED:
            return None, known
        if answer.status != OK:
            fault = Unreadable(f"cannot be fetched: the server responded with HTTP {answer.status}.")
            raise with_answer(fault, answer.content, redact=self._credentials.text)
        return answer.content, _Stamp(answer.headers.get("etag"), answer.headers.get("last-modified"))

    async def _fetched_with_login(
        self, url: str, fetch: Callable[[Mapping[str, str]], Awaitable[OutgoingResponse]]
    ) -> OutgoingResponse:
        """The document's response, with the first login that it is shown to. Raises `LoginNeeded`."""
        refused: LoginNeeded | None = None
        async for login in listing_logins(self.name, self._logins, last_user=self._last_user):
            try:
                answer = await send_authorized(login, "GET", url, fetch)
            except LoginNeeded as needed:
                refused = needed
                continue
            if answer.status == OK and not isinstance(login, WithoutLogin):
                await self._kept.keep(self.name, answer.content)
            if answer.status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                return answer
        raise refused or LoginNeeded(f"'{self.name}' shows its document to nobody.", source=self.name, principal="")

    async def _load(self, file: Path) -> tuple[bytes | None, _Stamp]:
        stamp = await asyncio.to_thread(_stamp_of, file)
        if stamp == self._stamp and self._listed is not None:
            return None, stamp
        return await asyncio.to_thread(_bytes_of, file, self._options.max_document), stamp

    def _is_theirs(self, url: str) -> bool:
        """Whether the credentials may be sent to the document's url."""
        return self._options.base_url is None or named_origin(self._options.base_url) == named_origin(url)

    async def _follow(self) -> None:
        """Request a refresh when it is time."""
        while True:
            await asyncio.sleep(self._options.cache_ttl if self._file is None else CHECK_SECONDS)
            if self._file is not None:
                with contextlib.suppress(OSError):
                    if await asyncio.to_thread(_stamp_of, self._file) == self._checked:
                        continue
            self._request_refresh()

    def _sentence(self, fault: Exception) -> str:
        document = f"The OpenAPI document {self._options.document!r} of '{self.name}'"
        if isinstance(fault, OSError) and not isinstance(fault, OutgoingError):
            return (
                f"{document} cannot be read: {fault.strerror or type(fault).__name__}. Check sources.{self.name}.file."
            )
        return f"{document} {fault}" if isinstance(fault, Unreadable) else f"{document} cannot be fetched: {fault}"


def _is_same(one: Raw | None, other: Raw | None) -> bool:
    return one is other or bytes(one or b"") == bytes(other or b"")


def _stamp_of(file: Path) -> _Stamp:
    status = file.stat()
    return _Stamp(file=(status.st_mtime_ns, status.st_size, status.st_ino))


def _bytes_of(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        raise Unreadable(f"has more than {most:,} bytes. Allow more with max_document.")
    return content
