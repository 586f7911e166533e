"""`jackfield audit`: who changed what, an export of it, and the check that nobody tampered with it."""

import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO

from jackfield.audit.verification import Verified, verify
from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import compact, escape, local_datetime, print_either, print_stderr, style, table
from jackfield.cli.paging import PAGING, print_more, read_pages
from jackfield.cli.target import connect
from jackfield.cli.times import moment_in
from jackfield.model.text import counted
from jackfield.sdk.audit import PAGE_SIZE, AuditEntry

FAULTY = 1
FILTERS = ("actor", "action", "since", "until")
LISTED = ("limit", "cursor", "all")
STDOUT = "-"


@command(
    """\
List who changed what, newest first. Needs an admin key.

--export writes the log as JSON lines. --verify checks it, or such a FILE without any gateway: entries that were
changed, removed, swapped or added are named. It prints the heads of the log. Note them somewhere else: with --head, a
later check also finds entries that were removed from the end.

exit codes of --verify: 0 nothing was tampered with, 1 something was""",
    argument("file", nargs="?", metavar="FILE", help="for --verify: an export, in place of the gateway's log"),
    argument("--actor", metavar="NAME", help="only what this key, user:ID or gateway:ID did"),
    argument("--action", metavar="ACTION", help="only this, such as key.created, or 'key.*'"),
    argument("--since", metavar="TIME", type=moment_in, help="from then on: ISO 8601, or 30m, 12h, 7d ago"),
    argument("--until", metavar="TIME", type=moment_in, help="before then: ISO 8601, or 30m, 12h, 7d ago"),
    argument("--export", metavar="FILE", help="write the log to a new file, or to stdout with '-'"),
    argument("--verify", action="store_true", help="check the log"),
    argument("--head", action="append", metavar="HASH", help="for --verify: a head that was noted; repeat for several"),
    *PAGING,
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield audit --action 'key.*' --since 2026-01-15
  jackfield audit --verify
  jackfield audit --export audit.jsonl
  jackfield audit --verify audit.jsonl --head 5f0c…""",
)
async def audit(options: Namespace) -> int:
    _check(options)
    if options.verify:
        return await _verify(options)
    if options.export is not None:
        return await _export(options)
    async with connect(options) as client:

        async def read(limit: int, cursor: str | None) -> tuple[Sequence[AuditEntry], str | None]:
            page = await client.audit.list(**_filters(options), limit=limit, cursor=cursor)
            return page.audit, page.next_cursor

        found, cursor = await read_pages(options, read, page_size=PAGE_SIZE)
    print_either(options, {"audit": found, "next_cursor": cursor}, list_lines(found))
    print_more(options, cursor)
    return 0


def _check(options: Namespace) -> None:
    if options.verify and options.export is not None:
        raise UsageError("--verify and --export exclude each other. Export first, then verify the file.")
    given = [name for name in (*FILTERS, *LISTED) if getattr(options, name)]
    if options.verify and given:
        raise UsageError(f"--{given[0]} leaves entries out, and only the whole log can be verified. Remove it.")
    listed = [name for name in LISTED if getattr(options, name)]
    if options.export is not None and listed:
        raise UsageError(f"--{listed[0]} is for the list; an export has everything. Remove it.")
    if not options.verify and (options.file is not None or options.head):
        raise UsageError(f"{'FILE' if options.file is not None else '--head'} is for --verify. Add it.")


def _filters(options: Namespace) -> dict[str, str | None]:
    return {name: getattr(options, name) for name in FILTERS}


async def _verify(options: Namespace) -> int:
    if options.file is not None:
        found = _verified(Path(options.file), options.head)
    else:
        with tempfile.TemporaryDirectory(prefix="jackfield-audit-") as folder:
            path = Path(folder, "audit.jsonl")
            await _download_to(path, options)
            found = _verified(path, options.head)
    print_either(options, found, verified_lines(found))
    return FAULTY if found.faults else 0


def _verified(path: Path, heads: Sequence[str] | None) -> Verified:
    def lines() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from file

    try:
        return verify(lines, heads=heads or ())
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}. Give an export of the audit log.") from None


async def _export(options: Namespace) -> int:
    if options.export == STDOUT:
        await _download(options, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return 0
    path = Path(options.export)
    await _download_to(path, options)
    print_stderr(f"Wrote {escape(str(path))}. 'jackfield audit --verify' checks an export without a filter.")
    return 0


async def _download_to(path: Path, options: Namespace) -> None:
    """Into a new file, which is there whole or not at all."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as fault:
        raise UsageError(f"{path} cannot be created: {fault.strerror}. Give a file that does not exist.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            await _download(options, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - at once
        raise


async def _download(options: Namespace, file: BinaryIO) -> None:
    async with connect(options) as client:
        pieces: AsyncGenerator[bytes, None] = client.audit.export(**_filters(options))
        async with aclosing(pieces):
            async for piece in pieces:
                file.write(piece)


def list_lines(found: Sequence[AuditEntry]) -> list[str]:
    """When, who, what, before and after."""
    if not found:
        return ["No entries."]
    rows = [
        (local_datetime(one.at), escape(one.actor), escape(one.action), escape(one.subject), _change(one))
        for one in found
    ]
    return table(rows, header=("AT", "ACTOR", "ACTION", "SUBJECT", "CHANGE"), styles=("dim", "", "bold"))


def _change(entry: AuditEntry) -> str:
    if entry.before is None:
        return "-" if entry.after is None else compact(entry.after)
    return f"{compact(entry.before)} -> {compact(entry.after)}"


def verified_lines(found: Verified) -> Iterator[str]:
    """What was found, or what was looked at, and the heads to note."""
    entries = "1 entry" if found.entries == 1 else f"{found.entries:,} entries"
    looked = f"{entries} in {counted(found.chains, 'chain')}"
    if found.faults:
        yield f"{style('Tampered with', 'red', 'bold')}: {looked}."
        yield from (f"  {escape(fault)}" for fault in found.faults)
        return
    yield f"{style('Unchanged', 'green')}: {looked}."
    yield from (f"head {head.hash}  ({escape(head.gateway)}, entry {head.number})" for head in found.heads)
