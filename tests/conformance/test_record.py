from pathlib import Path

from conformance.record import record
from conformance.results import CLIENT, OURS, SERVER, Check, Run
from conformance.subjects import FASTMCP

NEW, OLD = "2026-07-28", "2025-11-25"
GOOD = Check(scenario="ping", id="ping", status="SUCCESS")


def test_what_was_run_again_replaces_its_last_run_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    old = Run(leg=SERVER, revision=OLD, subject=OURS)
    other = Run(leg=SERVER, revision=OLD, subject=FASTMCP, checks=(GOOD,))
    client = Run(leg=CLIENT, revision=NEW, subject=OURS, checks=(GOOD,))
    new = Run(leg=SERVER, revision=OLD, subject=OURS, checks=(GOOD, GOOD))

    assert record([client, other, old], path) == [old, other, client]
    assert record([new], path) == [new, other, client]
