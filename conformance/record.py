"""The last run of each leg, revision and subject on this machine, in a file that git ignores.

A whole run takes long. What was run again replaces what it was before, and the page is made of all of it.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from conformance.results import LEGS, REVISIONS, Run
from conformance.subjects import SUBJECTS
from conformance.suite import HOME

RECORD = HOME / "runs.json"


def record(runs: Sequence[Run], path: Path = RECORD) -> list[Run]:
    """Everything that is known now: these runs, and the others as they were. In the order of the page."""
    known = msgspec.json.decode(path.read_bytes(), type=list[Run]) if path.exists() else []
    latest = {(run.leg, run.revision, run.subject): run for run in (*known, *runs)}
    ordered = [
        latest[leg, revision, subject]
        for leg in LEGS
        for revision in REVISIONS
        for subject in SUBJECTS
        if (leg, revision, subject) in latest
    ]
    path.write_bytes(msgspec.json.encode(ordered))
    return ordered
