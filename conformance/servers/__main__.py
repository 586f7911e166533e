"""`python -m conformance.servers`: what differs between a server and the gateway in front of it.

Above: `make conformance`. Each server is started twice, once for a client of its own and once by a gateway, and asked
the same. Every difference that nobody meant is printed as a path, and makes the exit code 1.
"""

import asyncio
import shutil
import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import msgspec
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from bench.processes import KEY, BenchError, running_gateway
from conformance.client import wait_for_source
from conformance.servers.cases import CASES, ServerCase
from conformance.servers.differences import Difference, Expected, differences, unexpected
from conformance.servers.view import MODERN, Json, viewing
from conformance.suite import SuiteError

LEGACY = "2025-11-25"
REVISIONS = (LEGACY, MODERN)
STARTED_WITHIN = 60.0
ROOT = Path(__file__).parent.parent.parent


class Comparison(Struct, frozen=True, kw_only=True):
    """One server in one revision."""

    name: str
    revision: str
    differences: tuple[Difference, ...] = ()
    """Those that nobody meant."""
    meant: int = 0
    stale: tuple[Expected, ...] = ()
    fault: str = ""
    counts: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return not self.fault and not self.differences and not self.stale


def main() -> int:
    """The exit code: 0 when nothing differs but what is meant to."""
    names = [case.name for case in CASES]
    parser = ArgumentParser(prog="python -m conformance.servers", description="Other people's servers, unchanged.")
    parser.add_argument("--only", action="append", choices=names, help="this one only; may be given several times")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="this one only")
    given = parser.parse_args()
    return 0 if compare_servers(given.only or names, given.revision or REVISIONS) else 1


def compare_servers(names: Sequence[str] = (), revisions: Sequence[str] = REVISIONS) -> bool:
    """Compare these servers, or all, and print how they fared; whether nothing differs but what is meant to."""
    warnings.simplefilter("ignore")  # the older revision has what the SDK calls deprecated
    holds = True
    for case in CASES:
        for one in _compared(case, revisions) if not names or case.name in names else ():
            print(report(one), flush=True)
            holds = holds and one.holds
    return holds


def report(one: Comparison) -> str:
    """Every difference as a path, and a line about the whole."""
    lines = [f"  {difference}" for difference in one.differences]
    lines += [f"  no longer differs, take it off the list: {each.path}" for each in one.stale]
    lines += [f"  {one.fault}"] if one.fault else []
    meant = f", {one.meant} meant" if one.meant else ""
    totals = f"{len(one.differences)} differences{meant}; {one.counts}"
    head = f"{'same ' if one.holds else 'OTHER'} {one.name}, {one.revision}: {totals} ({one.seconds:.0f} s)"
    return "\n".join([head, *lines])


def _compared(case: ServerCase, revisions: Sequence[str]) -> list[Comparison]:
    try:
        if case.what is not None:
            case.what.install()
        with TemporaryDirectory(prefix="jackfield-servers-") as home:
            began = time.monotonic()
            direct = asyncio.run(_direct(case, Path(home)))
            return [_one(case, revision, direct, Path(home), began) for revision in revisions]
    except (SuiteError, BenchError) as fault:
        return [Comparison(name=case.name, revision=revision, fault=str(fault)) for revision in revisions]


def _one(case: ServerCase, revision: str, direct: Json, home: Path, began: float) -> Comparison:
    through = _through(case, home, revision)
    found = differences(direct, through, masks=case.masks)
    rest, stale = unexpected(found, case.expected, revision=revision)
    return Comparison(
        name=case.name,
        revision=revision,
        differences=tuple(rest),
        meant=len(found) - len(rest),
        stale=tuple(stale),
        counts=_counts(direct),
        seconds=time.monotonic() - began,
    )


def _counts(view: Json) -> str:
    lists = ("tools", "resources", "templates", "prompts")
    requests = len(view) - len(lists)
    return f"{', '.join(f'{len(view[name])} {name}' for name in lists)}, {requests} requests"


def _folder(case: ServerCase, home: Path) -> Path:
    """Where the server works: the same place each time, made anew."""
    folder = home / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    case.prepare(folder)
    return folder


async def _direct(case: ServerCase, home: Path) -> Json:
    folder = _folder(case, home)
    command, *arguments = case.command(folder)
    server = StdioServerParameters(command=command, args=arguments, env=dict(case.env), cwd=ROOT)
    with (home / "direct.log").open("w", encoding="utf-8") as log:
        async with viewing(stdio_client(server, errlog=log), case.answers, revision=LEGACY) as viewer:
            return await viewer.view(case.script(folder))


def _through(case: ServerCase, home: Path, revision: str) -> Json:
    folder = _folder(case, home)
    project = home / f"project-{revision}"
    project.mkdir()
    source = {"kind": "mcp", "command": case.command(folder), "env": dict(case.env), "cwd": str(ROOT)}
    (project / "jackfield.json").write_bytes(msgspec.json.encode({"sources": {"far": source}}))
    with running_gateway(project, tools=0) as gateway:
        if not wait_for_source(gateway, within=STARTED_WITHIN):
            log = (project / "gateway.log").read_text(encoding="utf-8")
            raise SuiteError(f"The gateway did not get {case.name} to start. It said: {log[-2000:]}")
        return asyncio.run(_looked(f"http://127.0.0.1:{gateway.port}/mcp", case, folder, revision))


async def _looked(url: str, case: ServerCase, folder: Path, revision: str) -> Json:
    async with httpx2.AsyncClient(headers={"x-api-key": KEY}, timeout=60.0) as http:
        transport = streamable_http_client(url, http_client=http)
        async with viewing(transport, case.answers, revision=revision) as viewer:
            return await viewer.view(case.script(folder))


if __name__ == "__main__":
    sys.exit(main())
