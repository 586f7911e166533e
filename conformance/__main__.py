"""`python -m conformance`: run the suite's legs, then other people's servers and clients, and say what failed.

Above: `make conformance`. What is meant to fail is in `exceptions.toml`; anything else makes the exit code 1. The runs
of other proxies are for comparison: they fail nothing, except the fixture itself, which must be complete.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.document import write_into
from bench.processes import BenchError
from conformance import authorization_leg, client_leg, server_leg
from conformance.clients.__main__ import run_clients
from conformance.clients.mcp_cases import MCP_CASES
from conformance.plan import Leg, Plan
from conformance.record import record
from conformance.results import AUTHORIZATION, CLIENT, FAILED, LEGS, OURS, REVISIONS, SERVER, WARNED, Run
from conformance.servers.__main__ import compare_servers
from conformance.subjects import DIRECT, SUBJECTS
from conformance.suite import SuiteError, installed
from conformance.table import document
from conformance.verdict import judge, read_exceptions, report

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "conformance.md"
SERVERS, CLIENTS = BESIDES = ("servers", "clients")
"""What is run besides the suite: other people's servers behind the gateway, and clients in front of it."""
WRITE = f"also put the totals into {DOCUMENT.relative_to(ROOT)}; what is not run keeps those of its last run here"
RUN: Mapping[str, Leg] = {SERVER: server_leg.run, CLIENT: client_leg.run, AUTHORIZATION: authorization_leg.run}


def main() -> int:
    """The exit code: 0 when nothing failed but what is meant to."""
    given = _arguments()
    try:
        tools = installed()
        with TemporaryDirectory(prefix="jackfield-conformance-") as folder:
            plan = Plan(
                tools=tools,
                folder=Path(folder),
                revisions=tuple(given.revision or (REVISIONS[:-1] if given.legacy_upstream else REVISIONS)),
                subjects=tuple(given.subject or ()),
                only=tuple(given.scenario or ()),
                legacy=given.legacy_upstream,
            )
            parts = given.leg or (*LEGS, *BESIDES)
            runs, holds = _runs(plan, tuple(part for part in parts if part in LEGS))
            if not plan.only and plan.has(OURS):
                holds = _besides(parts) and holds
    except (SuiteError, BenchError) as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    recorded = runs if plan.only or plan.legacy else record(runs)
    if given.write:
        write_into(DOCUMENT, document(recorded, read_exceptions()))
    return 0 if holds else 1


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="python -m conformance", description="The MCP project's suite against the gateway.")
    parts = (*LEGS, *BESIDES)
    parser.add_argument("--leg", action="append", choices=parts, help="this one only; may be given twice")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="this one only; may be given twice")
    parser.add_argument("--subject", action="append", metavar="NAME", help=f"one of {', '.join(SUBJECTS)}; may repeat")
    parser.add_argument("--scenario", action="append", metavar="NAME", help="this one only; may be given twice")
    parser.add_argument(
        "--legacy-upstream", action="store_true", help="the server behind is of 2025, without extensions"
    )
    parser.add_argument("--write", action="store_true", help=WRITE)
    given = parser.parse_args()
    if given.write and (given.scenario or given.legacy_upstream):
        parser.error("--write is for whole legs: leave --scenario and --legacy-upstream out")
    return given


def _runs(plan: Plan, legs: tuple[str, ...]) -> tuple[list[Run], bool]:
    """Those of each leg, printed as they come, and whether ours are as they are meant to be."""
    legacy = plan.legacy
    meant = [each for each in read_exceptions() if legacy or not each.legacy_upstream]
    runs: list[Run] = []
    holds = True
    for leg in legs:
        for run in RUN[leg](plan):
            runs.append(run)
            judged = judge(run, meant if run.subject == OURS and not plan.only else [])
            if run.subject in (OURS, DIRECT):
                print(report(judged), flush=True)
                holds = holds and judged.holds
            else:
                failed = [check.name for check in run.checks if check.status in (FAILED, WARNED)]
                print("\n      ".join([f"— {run.totals}", *failed]), flush=True)
    if runs:
        print("\n".join(["—", *(run.totals for run in runs)]), flush=True)
    return runs, holds


def _besides(parts: Sequence[str]) -> bool:
    """Whether other people's servers and clients see what they should."""
    same = compare_servers() if SERVERS in parts else True
    return (run_clients(MCP_CASES) if CLIENTS in parts else True) and same


if __name__ == "__main__":
    sys.exit(main())
