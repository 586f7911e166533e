"""The page of the last recorded run: nothing fails through the gateway without a reason; others stand beside it."""

import re
from pathlib import Path

from conformance.__main__ import DOCUMENT, ROOT
from conformance.results import AUTHORIZATION, CLIENT, LEGS, OURS, REVISIONS, SERVER
from conformance.subjects import DIRECT, FASTMCP, SDK_PROXY
from tests.requirement import requirement


def table() -> dict[tuple[str, str], dict[str, str]]:
    """The cells by leg and revision, then by subject."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| leg | revision |"))
    subjects = _cells(lines[start])[2:]
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        leg, revision, *cells = _cells(line)
        rows[leg, revision] = dict(zip(subjects, cells, strict=True))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@requirement("MCP2-conformance-server")
def test_no_check_of_the_server_leg_fails_through_the_gateway_nor_in_the_server_itself() -> None:
    for revision in REVISIONS:
        row = table()[SERVER, revision]
        assert re.fullmatch(r"\d+ / 0", row[OURS])
        assert re.fullmatch(r"\d+ / 0", row[DIRECT])


@requirement("MCP2-conformance-table")
def test_every_leg_is_there_with_the_other_proxies_beside_the_gateway() -> None:
    rows = table()

    assert set(LEGS) <= {leg for leg, _ in rows}
    for revision in REVISIONS:
        assert {SDK_PROXY, FASTMCP} <= set(rows[SERVER, revision])


def test_the_readme_has_the_totals_of_the_last_run_that_was_written_down() -> None:
    said = re.sub(r"\s+", " ", Path(ROOT / "README.md").read_text(encoding="utf-8"))

    for leg, words in ((SERVER, "servers behind"), (CLIENT, "client"), (AUTHORIZATION, "authorization server")):
        cells = [row[OURS].split(" / ") for (named, _), row in table().items() if named.split(",")[0] == leg]
        passed, failed = (sum(int(cell[place]) for cell in cells) for place in (0, 1))
        assert re.search(rf"{words}[^;]*? {passed} (checks )?passed, {failed} failed", said)
