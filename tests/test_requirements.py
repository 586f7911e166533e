"""Both ways: no test names a demand that does not exist, and nothing is ticked that no test shows."""

from pathlib import Path

import pytest

from tests.requirements_report import (
    REQUIREMENTS,
    TESTS,
    Demand,
    Reading,
    disagreements,
    list_of_open,
    read_demands,
    read_markers,
    table_of,
    ticked,
)

FILE = """\
# head

[[requirement]]
id = "A-one"
seed = "000"
says = "One."
how = "unit"
issue = "relay"

# a heading

[[requirement]]
id = "A-two"
seed = "000"
says = "Two."
how = "unit"
issue = "relay"
"""


def reading_of(folder: Path, source: str) -> Reading:
    (folder / "test_it.py").write_text(source, encoding="utf-8")
    return read_markers(folder)


def demand(name: str, *, shown: bool = False, how: str = "unit") -> Demand:
    return Demand(id=name, seed="000", says="Something.", how=how, issue="relay", shown=shown)


def test_the_tests_and_requirements_toml_agree() -> None:
    faults = disagreements(read_demands(REQUIREMENTS.read_text(encoding="utf-8")), read_markers(TESTS))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "source",
    [
        '@requirement("A-one", "A-two")\ndef test_x(): ...',
        '@pytest.mark.requirement("A-one", "A-two")\nasync def test_x(): ...',
        '@requirement("A-one")\n@requirement("A-two")\ndef test_x(): ...',
        '@requirement("A-one", "A-two")\nclass TestX: ...',
        'class Suite:\n    @requirement("A-one", "A-two")\n    def test_x(self): ...',
        'pytestmark = [requirement("A-one"), requirement("A-two")]',
        '@pytest.mark.parametrize("n", [pytest.param(1, marks=requirement("A-one", "A-two"))])\ndef test_x(n): ...',
        'BOTH = requirement("A-one", "A-two")\n@BOTH\ndef test_x(): ...',
        'N = [param(1, marks=requirement("A-one", "A-two"))]\n@pytest.mark.parametrize("n", N)\ndef test_x(n): ...',
    ],
)
def test_a_marker_is_found_wherever_pytest_takes_one(tmp_path: Path, source: str) -> None:
    reading = reading_of(tmp_path, source)
    assert reading.named == {"A-one", "A-two"}
    assert reading.faults == ()


@pytest.mark.parametrize(
    "source",
    [
        "@requirement(NAME)\ndef test_x(): ...",
        "@requirement(*NAMES)\ndef test_x(): ...",
        "@requirement()\ndef test_x(): ...",
        '@requirement("A-one", id="A-two")\ndef test_x(): ...',
        '@requirement(f"A-{n}")\ndef test_x(): ...',
    ],
)
def test_an_id_that_is_no_literal_is_a_fault(tmp_path: Path, source: str) -> None:
    reading = reading_of(tmp_path, source)
    assert reading.named == set()
    assert reading.faults == ("test_it.py:1: requirement() takes ids as literal strings only.",)


@pytest.mark.parametrize(
    "source",
    [
        '@requirement("A-one")\ndef scene(): ...',
        '@requirement("A-one")\n@pytest.mark.skip(reason="later")\ndef test_x(): ...',
        '@requirement("A-one")\n@pytest.mark.xfail\ndef test_x(): ...',
        'marker = requirement("A-one")',
    ],
)
def test_a_marker_on_what_may_never_run_shows_nothing(tmp_path: Path, source: str) -> None:
    reading = reading_of(tmp_path, source)
    assert reading.named == set()
    assert len(reading.faults) == 1
    assert "test_it.py:1: requirement() is on nothing that pytest runs for certain." in reading.faults[0]


def test_an_unknown_id_is_named_with_its_test(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, '@requirement("A-three")\ndef test_x(): ...')
    assert disagreements([demand("A-one")], reading) == [
        "test_it.py::test_x names A-three, which is not in requirements.toml. Correct the id."
    ]


def test_a_tick_without_a_test_and_a_test_without_a_tick_are_both_said(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, '@requirement("A-one")\ndef test_x(): ...')
    assert disagreements([demand("A-one"), demand("A-two", shown=True)], reading) == [
        "A-two is ticked and no test names it. Write the test, or run 'make requirements-tick'.",
        "A-one is named by a test and not ticked. Run 'make requirements-tick'.",
    ]


def test_an_id_that_stands_twice_is_said(tmp_path: Path) -> None:
    assert disagreements([demand("A-one"), demand("A-one")], read_markers(tmp_path)) == [
        "requirements.toml has A-one 2 times. Keep one."
    ]


def test_a_demand_for_a_story_is_not_shown_by_another_test(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, '@requirement("A-one")\ndef test_x(): ...')
    told = demand("A-one", shown=True, how="story")
    assert disagreements([told], reading) == [
        (
            "A-one is to be shown by a story, and only other tests name it. "
            "Write one below tests/stories/ or tests/console/."
        )
    ]
    (tmp_path / "stories").mkdir()
    reading_of(tmp_path / "stories", '@requirement("A-one")\ndef test_x(): ...')
    assert disagreements([told], read_markers(tmp_path)) == []


def test_ticking_adds_one_line_and_taking_the_tick_back_restores_the_file() -> None:
    once = ticked(FILE, frozenset({"A-one"}))
    assert once == FILE.replace('issue = "relay"\n\n# a', 'issue = "relay"\nshown = true\n\n# a')
    assert [d.shown for d in read_demands(once)] == [True, False]
    assert ticked(once, frozenset({"A-one"})) == once
    assert ticked(once, frozenset()) == FILE


def test_the_last_demand_of_the_file_can_be_ticked() -> None:
    assert ticked(FILE, frozenset({"A-two"})) == FILE + "shown = true\n"


def test_the_table_counts_shown_and_open_by_seed_and_issue() -> None:
    demands = [demand("A-one", shown=True), demand("A-two"), demand("A-three")]
    assert table_of(demands).splitlines() == [
        "seed      issue          shown  open   all",
        "000       relay              1     2     3",
        "all                          1     2     3",
    ]


def test_the_list_of_open_demands_leaves_out_what_is_shown() -> None:
    assert list_of_open([demand("A-one", shown=True), demand("A-two")]).split() == [
        "000",
        "relay",
        "A-two",
        "Something.",
    ]
