"""The operations of one service as tools: `kind = "openapi"`.

The document is fetched again every `cache_ttl` seconds, with its ETag where it has one. While it cannot be read, the
last good one is used and the listing says so; only a source that never had a good one is down.
"""

import asyncio
import contextlib
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from jackfield.model.call import Failed, Outcome
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Invocation, Listing, SourceContext
from jackfield.sources.http import Unfillable, timed_out
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.openapi.operations import OpenApiListing, OpenApiOperation
from jackfield.sources.openapi.options import OpenApiOptions, credentials_of, parse_options
from jackfield.sources.openapi.reader_process import listing_from
from jackfield.sources.openapi.requests import OpenApiRequest, request_of
from jackfield.sources.openapi.responses import outcome_of
from jackfield.sources.outgoing import (
    Outgoing,
    OutgoingBadAnswer,
    OutgoingError,
    OutgoingNotSent,
    OutgoingResponse,
    OutgoingTimedOut,
    OutgoingUnreachable,
)
from jackfield.sources.outgoing.urls import named_origin

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
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, options: OpenApiOptions, source_context: SourceContext) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._options = options
        self._outgoing: Outgoing = source_context.outgoing
        self._file = None if options.file is None else source_context.folder / Path(options.file).expanduser()
        self._request_refresh = partial(source_context.changed, name)
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
        except (Unreadable, OutgoingError, OSError) as fault:
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
            answer = await self._ask(operation, request, invocation)
        except OutgoingTimedOut:
            return timed_out(invocation)
        except (OutgoingError, Unfillable) as fault:
            return Failed(fault.code, self._credentials.text(fault.message))
        fields = operation.select or invocation.arguments.get(operation.fields_argument or "") or ()
        return self._credentials.cleaned(outcome_of(answer, fields=fields))

    async def close(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])

    async def _ask(
        self, operation: OpenApiOperation, request: OpenApiRequest, invocation: Invocation
    ) -> OutgoingResponse:
        """Send it; once more after a transport failure, if nothing was sent or the tool is idempotent."""
        end = time.monotonic() + invocation.timeout_ms / 1000
        try:
            return await self._send(operation, request, end)
        except (OutgoingUnreachable, OutgoingBadAnswer) as fault:
            if not (isinstance(fault, OutgoingNotSent) or invocation.tool.metadata.idempotent):
                raise
        return await self._send(operation, request, end)

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
        offer = await listing_from(
            content or b"", source=self.name, options=self._options, credentials=self._credentials
        )
        self._stamp = stamp
        return offer

    async def _fetch(self) -> tuple[bytes | None, _Stamp]:
        """The document at the url; no bytes where it is the one that we have."""
        url = self._options.url
        assert url is not None
        known = self._stamp if self._listed is not None else _Stamp()
        conditions = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
        sent = self._credentials if self._is_theirs(url) else credentials_of(None, {})
        answer = await self._outgoing.request(
            "GET",
            url,
            headers={**sent.headers, **{name: value for name, value in conditions.items() if value is not None}},
            params=sent.params,
            timeout=READ_SECONDS,
            max_bytes=self._options.max_document,
            named_by=url,
        )
        if answer.status == NOT_MODIFIED:
            return None, known
        if answer.status != OK:
            raise Unreadable(f"cannot be had: the server answered with HTTP {answer.status}.")
        return answer.content, _Stamp(answer.headers.get("etag"), answer.headers.get("last-modified"))

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
        return f"{document} {fault}" if isinstance(fault, Unreadable) else f"{document} cannot be had: {fault}"


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
