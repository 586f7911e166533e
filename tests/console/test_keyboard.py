"""Everything can be reached and done without a mouse."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.console.scene import HUSAM_KEY, call_of, execute
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]
PAGES = ("Overview", "Calls", "Waiting", "Runs", "Spaces", "Agents", "Tools", "Sources", "Access", "Settings")
KEYS = dict(zip("ocwrsatuxe", PAGES, strict=True))


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has the focus begins with this text, as a person would."""
    focused = "() => document.activeElement?.innerText || document.activeElement?.ariaLabel || ''"
    for _ in range(60):
        page.keyboard.press("Tab")
        if str(page.evaluate(focused)).strip().startswith(name):
            return
    raise AssertionError(f"Tab does not reach {name!r}")


@requirement("CON-console-pages")
def test_every_page_is_reached_by_tab_by_its_keys_and_by_the_palette(visit: Visit) -> None:
    page = visit(HUSAM_KEY).go("/overview")
    expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    for name in PAGES[1:]:
        tab_to(page, name)
        page.keyboard.press("Enter")
        expect(page.locator("main h1")).to_have_text(name)
    for key, name in KEYS.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("main h1")).to_have_text(name)
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_.get_by_text("Search on this page")).to_be_visible()
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    for name in PAGES:
        page.keyboard.press("Control+k")
        page.keyboard.type(name.lower())
        page.keyboard.press("Enter")
        expect(page.locator("main h1")).to_have_text(name)
    page.keyboard.press("Control+k")
    page.keyboard.type("roll")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("roll")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("keyboard short")  # what can be done is found there too
    page.keyboard.press("Enter")
    expect(help_).to_be_visible()


@requirement("CON-console-pages")
def test_a_question_is_answered_and_a_message_sent_by_keys_alone(visit: Visit, stage: RunningGateway) -> None:
    call_id = execute(stage, "confirmAction", {"question": "By keys?"})
    page = visit().go(f"/waiting/{call_id}")
    expect(page.get_by_role("button", name="Confirm")).to_be_visible()
    tab_to(page, "Confirm")
    page.keyboard.press("Enter")
    eventually(lambda: call_of(stage, call_id)["result"] == {"confirmed": True})

    page.goto(f"{stage.url}/#/spaces/hall")
    expect(page.get_by_role("heading", name="hall")).to_be_visible()
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.type("One line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and another")
    page.keyboard.press("Enter")
    expect(page.locator(".message", has_text="One line")).to_contain_text("and another")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    expect(page.get_by_role("log")).to_contain_text("Ada: Hello.")
