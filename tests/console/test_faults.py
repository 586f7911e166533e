"""Every page, light and dark and in three widths: axe finds nothing serious, nothing is too wide, nothing fails."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.console.places import WIDTHS, act
from tests.console.scene import HUSAM_KEY, call_of, execute, say
from tests.console.test_phone import answer_place
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]
AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
RUN = """async (rules) => {
  const { violations } = await axe.run(document, rules.length ? { runOnly: rules } : {});
  const where = (nodes) => nodes.slice(0, 3).map((node) => node.html.slice(0, 200));
  return violations.map(({ id, impact, nodes }) => ({ id, impact, where: where(nodes) }));
}"""


# What is wider than the page, but not what scrolls or is hidden by itself.
TOO_WIDE = """() => {
  const beside = (box) => box !== null && box.scrollWidth > box.clientWidth + 1;
  if (!beside(document.documentElement) && !beside(document.querySelector("main"))) return [];
  const isOut = (one) => one.getBoundingClientRect().right > innerWidth + 1 && one.closest(".table, pre") === null;
  return [...document.querySelectorAll("main *")].filter(isOut).slice(0, 3).map((one) => one.outerHTML.slice(0, 160));
}"""


def serious(page: Page, *rules: str) -> list[Any]:
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(RUN, list(rules))
    return [one for one in found if one["impact"] in {"serious", "critical"}]


@requirement("CON-sweep")
def test_every_page_fits_every_width_and_has_no_fault(visit: Visit, stage: RunningGateway) -> None:
    places = act(stage)
    approval = execute(stage, "send_invoice", {"customer": "ACME", "amount": 3})
    visitor = visit()
    page = visitor.page
    said: list[str] = []
    page.on(
        "console",
        lambda message: said.append(f"{message.text} {message.location}") if message.type == "error" else None,
    )
    found: dict[tuple[str, str], Any] = {}
    for place, sign in (places | {answer_place(call_of(stage, approval)): ".approval"}).items():
        visitor.go(place)
        expect(page.locator(sign).first).to_be_visible()
        expect(page.locator(".skeleton, .loading")).to_have_count(0)
        page.emulate_media(color_scheme="light")
        found[place, "light"] = serious(page)
        page.emulate_media(color_scheme="dark")
        found[place, "dark"] = serious(page, "color-contrast")
        for width in WIDTHS:
            page.set_viewport_size(ViewportSize(width=width, height=800))
            found[place, f"{width} pixels"] = page.evaluate(TOO_WIDE)
    visitor.go("/spaces")
    expect(page.get_by_role("heading", name="Spaces", exact=True)).to_be_visible()
    page.get_by_role("button", name="Go to").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found["palette", "dark"] = serious(page)
    assert {place: faults for place, faults in found.items() if faults} == {}
    # Modules of the operator's own that are broken are said to be; nothing else is.
    assert [text for text in said if "tool-ui" not in text and "/api/console/tools/" not in text] == []


@requirement("CON-sweep")
def test_a_page_at_rest_asks_no_more_than_its_refresh(visit: Visit, stage: RunningGateway) -> None:
    visitor = visit()
    page = visitor.page
    for place in ("/overview", "/calls", "/tools", "/spaces/hall", "/runs", "/agents", "/sources"):
        visitor.go(place)
        expect(page.locator("main h1")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(lambda answer: answer.url.endswith("/readyz")):
        pass
    for _ in range(2):  # beats of two seconds
        with page.expect_response(lambda answer: answer.url.endswith("/readyz")):
            pass
    assert max(Counter(url for url in asked if not url.endswith("/readyz")).values(), default=0) <= 3, asked


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
