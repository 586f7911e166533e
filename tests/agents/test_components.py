"""Seed 001 names the components of the tool system; each has tests of its own, which say so."""

from tests.requirement import requirement
from tests.requirements_report import REQUIREMENTS, TESTS, read_demands, read_markers

OURS = "TOOL-deliver-tests"


@requirement("TOOL-deliver-tests")
def test_every_component_of_the_tool_system_has_tests_of_its_own() -> None:
    demands = read_demands(REQUIREMENTS.read_text(encoding="utf-8"))
    components = {demand.id for demand in demands if demand.id.startswith("TOOL-deliver-")} - {OURS}
    tested = {name for marker in read_markers(TESTS).markers for name in marker.ids}

    assert len(components) == 8
    assert components - tested == set()
