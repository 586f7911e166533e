"""Exports of a long record: the memory of the gateway while it streams 1,000,000 calls, or as many audit entries."""

import hashlib
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench.budget import Bench
from bench.figures import KILOBYTES, Bar, Figure, Line, Sample
from bench.inprocess import open_store, runner
from bench.processes import KEY, BenchError, Server, running_gateway
from bench.rows import growth
from bench.subjects import write_echo_project
from jackfield.audit.types import STARTED, AuditEntry, Start, entry_id, hash_of
from jackfield.audit.verification import verify
from jackfield.model.text import iso_time

FEW = 10_000
PIECE = 1 << 18
CHAIN = "gw_before"
FILL = """
INSERT INTO audit (gateway, number, id, at, actor, action, subject, before, after, hash)
VALUES (:gateway, :number, :id, :at, :actor, :action, :subject, :before, :after, :hash)
"""
FILL_CHAIN = """
INSERT INTO audit_chains (id, length, head, head_at, linked, cut) VALUES (:id, :length, :head, :at, 0, 0)
"""


def measure(bench: Bench) -> list[Line]:
    """The most that the gateway held in a whole export, and in the first half of it: what it keeps would show."""
    lines: list[Line] = []
    for what, path in (("calls", "/api/v1/calls/export"), ("audit entries", "/api/v1/audit/export")):
        few, many = (_export(bench, what, path, count=count) for count in (FEW, bench.budget.recorded))
        lines.append(
            Line(
                says=f"memory of the gateway while it exports {bench.budget.recorded:,} {what}",
                ours=Figure(unit=KILOBYTES, samples=(Sample(value=many.most_kb),)),
                reference=Figure(unit=KILOBYTES, samples=(Sample(value=many.half_kb),)),
                reference_is="in the first half",
                bar=Bar(limit=1.05),
                note=f"{many.sentence}; {few.sentence}; for each connection SQLite keeps up to 64 MB of the database",
            )
        )
    return lines


class Export(Struct, frozen=True, kw_only=True):
    """What one of them took."""

    lines: int
    seconds: float
    half_kb: float
    most_kb: float

    @property
    def sentence(self) -> str:
        rate = f"{self.lines / self.seconds:,.0f}/s"
        return f"{self.lines:,} lines in {self.seconds:.1f} s ({rate}) with at most {self.most_kb / 1024:.0f} MB"


def _export(bench: Bench, what: str, path: str, *, count: int) -> Export:
    folder = write_echo_project(bench.folder / f"export-{what.split(maxsplit=1)[0]}-{count}")
    with _filled(folder, what, count), running_gateway(folder, tools=1) as gateway:
        read = _read(gateway, path, folder / "export.jsonl", count=count)
    if read.lines < count:
        raise BenchError(f"The export has {read.lines:,} lines, and {count:,} {what} are on record.")
    _check(what, folder / "export.jsonl", count=count)
    return read


@contextmanager
def _filled(folder: Path, what: str, count: int) -> Generator[None]:
    """The gateway's database, with so much on record; gone afterwards, as it is large."""
    database = folder / ".jackfield" / "jackfield.db"
    database.parent.mkdir()
    with runner() as loop, open_store(loop, database):
        pass
    if what == "calls":
        growth.fill(database, calls=count)
    else:
        fill_audit(database, entries=count)
    try:
        yield
    finally:
        database.unlink()


def fill_audit(database: Path, *, entries: int) -> None:
    """One whole chain of a gateway that is gone, as it would have written it."""
    rows = _chain(entries, now=int(time.time() * 1000))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        last: dict[str, Any] = {}
        for row in rows:
            connection.execute(FILL, row)
            last = row
        values = {"id": CHAIN, "length": last["number"], "head": last["hash"], "at": last["at"]}
        connection.execute(FILL_CHAIN, values)
        connection.execute("COMMIT")


def _chain(entries: int, *, now: int) -> Iterator[dict[str, Any]]:
    head = ""
    for number in range(1, entries + 1):
        at = now - (entries - number)
        after: Any = {"tools": [f"tool_{number % 100}"], "title": "Tools of a team"}
        action, subject, actor = "group.changed", f"group_{number % 1000}", "admin"
        if number == 1:
            key = hashlib.sha256(b"key").hexdigest()
            after = msgspec.to_builtins(Start(version="1", public_key=key, links=()))
            action, subject, actor = STARTED, CHAIN, f"gateway:{CHAIN}"
        entry = AuditEntry(
            id=entry_id(at, number),
            at=iso_time(at),
            actor=actor,
            action=action,
            subject=subject,
            before=None,
            after=after,
            hash="",
            gateway=CHAIN,
            number=number,
        )
        head = hash_of(entry, head)
        fields = {"actor": actor, "action": action, "subject": subject, "before": "null", "gateway": CHAIN}
        text = msgspec.json.encode(after, order="sorted").decode()
        yield {**fields, "number": number, "id": entry.id, "at": at, "after": text, "hash": head}


def _read(gateway: Server, path: str, into: Path, *, count: int) -> Export:
    """All of it, as fast as it comes."""
    lines, half, most, began = 0, 0.0, 0.0, time.perf_counter()
    with closing(HTTPConnection("127.0.0.1", gateway.port, timeout=60)) as connection, into.open("wb") as file:
        connection.request("GET", path, headers={"x-api-key": KEY})
        answer = connection.getresponse()
        if answer.status != 200:
            raise BenchError(f"{path} was answered with {answer.status}: {answer.read()[:500]!r}")
        while piece := answer.read1(PIECE):
            lines += piece.count(b"\n")
            most = max(most, gateway.resident_kb or 1.0)
            if lines <= count // 2:
                half = most
            file.write(piece)
    return Export(lines=lines, seconds=time.perf_counter() - began, half_kb=half or most, most_kb=most)


def _check(what: str, export: Path, *, count: int) -> None:
    """What was measured is what it should be: an audit log that nobody tampered with. It takes long to say of many."""
    if what != "calls" and count == FEW and (faults := verify(lambda: export.open("rb")).faults):
        raise BenchError(f"The exported audit log is not right: {faults[:3]}")
    export.unlink()
