"""axe looks at every page, light and dark, and finds nothing serious."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.scene import HUSAM_KEY, call_of, execute, get, messages, say
from tests.console.test_phone import answer_place
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.waiting import eventually

Visit = Callable[..., Visitor]
AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
RUN = """async (rules) => {
  const { violations } = await axe.run(document, rules.length ? { runOnly: rules } : {});
  const where = (nodes) => nodes.slice(0, 3).map((node) => node.html.slice(0, 200));
  return violations.map(({ id, impact, nodes }) => ({ id, impact, where: where(nodes) }));
}"""


def serious(page: Page, *rules: str) -> list[Any]:
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(RUN, list(rules))
    return [one for one in found if one["impact"] in {"serious", "critical"}]


@pytest.mark.skipif(
    not AXE.is_file(), reason="needs console/node_modules with axe-core: make console, where npm is there"
)
def test_no_page_has_a_serious_fault(visit: Visit, stage: RunningGateway) -> None:
    execute(stage, "poison", {})
    approval = execute(stage, "send_invoice", {"customer": "ACME", "amount": 3})
    execute(stage, "askForDetails", {"question": "For axe?"})
    say(stage, "hall", "Show a chart")
    eventually(lambda: any(one["metadata"].get("toolName") == "displayChart" for one in messages(stage, "hall")))
    run_id = eventually(lambda: get(stage, "/api/runs")["runs"])[0]["id"]
    visitor = visit()
    page = visitor.page
    places = {
        "/spaces": "h1",
        "/spaces/hall": ".recharts-surface",
        "/tools": ".row",
        "/tools/shapes": ".try-it textarea",
        "/tools/poison": ".cards article",
        "/waiting": ".schema-form input",
        "/runs": ".list li",
        f"/runs/{run_id}": ".timeline",
        "/agents": ".list li",
        "/agents/ada": ".fact",
        answer_place(call_of(stage, approval)): ".approval",
    }
    found = {}
    for place, sign in places.items():
        visitor.go(place)
        expect(page.locator(sign).first).to_be_visible()
        page.emulate_media(color_scheme="light")
        found[place, "light"] = serious(page)
        page.emulate_media(color_scheme="dark")
        found[place, "dark"] = serious(page, "color-contrast")
    visitor.go("/spaces")
    expect(page.get_by_role("heading", name="Spaces", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()
    found["palette", "dark"] = serious(page)
    assert {place: faults for place, faults in found.items() if faults} == {}


@pytest.mark.skipif(
    not AXE.is_file(), reason="needs console/node_modules with axe-core: make console, where npm is there"
)
def test_the_sign_in_page_has_no_serious_fault(visit: Visit) -> None:
    visitor = visit("")
    page = visitor.go("/")
    expect(page.get_by_label("Key")).to_be_visible()
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page) == []


def test_what_arrives_is_said_aloud(visit: Visit, stage: RunningGateway) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/garden")
    expect(page.get_by_role("heading", name="garden")).to_be_visible()
    say(stage, "garden", "Listen", by="mia")
    expect(page.get_by_role("log")).to_contain_text("Hello.")
    execute(stage, "confirmAction", {"question": "Heard?"})
    expect(page.locator('[role="status"]', has_text="for an answer")).to_be_attached()
