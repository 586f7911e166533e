import re
from pathlib import Path

from conformance.__main__ import DOCUMENT, ROOT
from conformance.results import REVISIONS

TOTALS = re.compile(r"^- (\S+): (\d+) checks passed, (\d+) failed", re.MULTILINE)


def test_the_readme_has_the_totals_of_the_last_run_that_was_written_down() -> None:
    totals = TOTALS.findall(DOCUMENT.read_text(encoding="utf-8"))
    said = re.sub(r"\s+", " ", Path(ROOT / "README.md").read_text(encoding="utf-8"))

    assert [revision for revision, _, _ in totals] == list(REVISIONS[:2])
    for revision, passed, failed in totals:
        assert re.search(rf"{revision}, {passed} (checks )?passed, {failed} failed", said)
