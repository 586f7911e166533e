"""The audit log over HTTP: pages of it, all of it as JSON lines, and whether it is intact. For administrators.

Above: the URL map. Below: `transactions.py` and `verification.py`. It cannot be changed over HTTP.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from tempfile import TemporaryFile
from typing import Annotated

from msgspec import Meta, Struct

from jackfield.audit.transactions import AuditFilter, chain_ids, chain_page, entries
from jackfield.audit.types import AuditEntry, Chain
from jackfield.audit.verification import Verified, verify
from jackfield.http.json_lines import LINES_MEDIA, JsonLines
from jackfield.http.request import Name, Request, When, time_in
from jackfield.http.response import Response, encode, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.store import Store

PAGE = 500
EXPORT_PAGE = 500

Action = Annotated[
    str, Meta(max_length=100, pattern="^[a-z_.]+(\\*)?(?![\\s\\S])", description="Such as `key.created`, or `key.*`")
]


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries to show."""

    actor: Name | None = None
    action: Action | None = None
    since: Annotated[When, Meta(description="From then on, ISO 8601")] | None = None
    until: Annotated[When, Meta(description="Before then, ISO 8601")] | None = None


class AuditQuery(ExportQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries to show, and how many."""

    limit: Annotated[int, Meta(ge=1, le=PAGE, description="How many entries at most")] = 50
    cursor: Annotated[Name, Meta(description="The `next_cursor` of the page before")] | None = None


class AuditPage(Struct, frozen=True, kw_only=True):
    """Entries, newest first."""

    audit: list[AuditEntry]
    next_cursor: str | None


class AuditApi:
    """Handlers of `/api/v1/audit`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._verifying = asyncio.Lock()

    async def list_audit(self, request: Request) -> Response:
        """A page of entries, newest first."""
        query = request.query(AuditQuery)
        script = partial(entries, _filter(query), limit=query.limit + 1, cursor=query.cursor)
        found = await self._store.read(script)
        page = found[: query.limit]
        return json_response(AuditPage(audit=page, next_cursor=page[-1].id if len(found) > len(page) else None))

    async def export_audit(self, request: Request) -> Response:
        """Every entry, chain by chain, each with a line before it that says how far it is."""
        wanted = _filter(request.query(ExportQuery))
        pieces = self._matching(wanted) if wanted.conditions() else self._chains()
        return JsonLines(pieces, streams=request.streams, filename="audit.jsonl")

    async def verify_audit(self, _request: Request) -> Response:
        """Check the whole log as `jackfield audit --verify` does: an export, on disk, read twice in a thread."""
        async with self._verifying:
            with TemporaryFile() as export:
                async for piece in self._chains():
                    await asyncio.to_thread(export.write, piece)

                def lines() -> Iterator[bytes]:
                    export.seek(0)
                    return iter(export)

                return json_response(await asyncio.to_thread(verify, lines))

    async def _matching(self, wanted: AuditFilter) -> AsyncGenerator[bytes]:
        cursor: str | None = None
        while True:
            script = partial(entries, wanted, limit=EXPORT_PAGE, cursor=cursor, oldest_first=True)
            found = await self._store.read(script)
            if found:
                yield _lines(found)
                cursor = found[-1].id
            if len(found) < EXPORT_PAGE:
                return

    async def _chains(self) -> AsyncGenerator[bytes]:
        after = ""
        while gateways := await self._store.read(partial(chain_ids, after=after, limit=EXPORT_PAGE)):
            for gateway in gateways:
                async for piece in self._chain(gateway):
                    yield piece
            after = gateways[-1]

    async def _chain(self, gateway: str) -> AsyncGenerator[bytes]:
        number = -1
        while True:
            chain, found = await self._store.read(partial(chain_page, gateway, after=max(number, 0), limit=EXPORT_PAGE))
            if chain is None:  # all of it is old, and was pruned just now
                return
            if number < 0 or (found and found[0].number != number + 1):
                yield _lines([chain])
            if found:
                yield _lines(found)
                number = found[-1].number
            if len(found) < EXPORT_PAGE:
                return


def _lines(values: Sequence[AuditEntry | Chain]) -> bytes:
    return b"".join(encode(value) + b"\n" for value in values)


def _filter(query: ExportQuery) -> AuditFilter:
    return AuditFilter(
        actor=query.actor,
        action=query.action,
        since=time_in(query.since, param="since"),
        until=time_in(query.until, param="until"),
    )


def routes(store: Store) -> list[Route]:
    """Every route of the audit log."""
    api = AuditApi(store)
    return [
        Route(
            method="GET",
            path="/api/v1/audit",
            handler=api.list_audit,
            scope=Scope.ADMIN,
            tag="Audit",
            summary="Who changed what, newest first",
            query=AuditQuery,
            responses={200: ResponseSpec(description="A page of entries", type=AuditPage)},
        ),
        Route(
            method="GET",
            path="/api/v1/audit/export",
            handler=api.export_audit,
            scope=Scope.ADMIN,
            tag="Audit",
            summary="The audit log as JSON lines, which `jackfield audit --verify FILE` checks",
            query=ExportQuery,
            responses={200: ResponseSpec(description="A line per entry, and one per chain", media=LINES_MEDIA)},
        ),
        Route(
            method="POST",
            path="/api/v1/audit/verify",
            handler=api.verify_audit,
            scope=Scope.ADMIN,
            tag="Audit",
            summary="Check that no entry was changed, removed or forged",
            responses={200: ResponseSpec(description="What was found, and the heads to note elsewhere", type=Verified)},
        ),
    ]
