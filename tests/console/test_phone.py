"""One call, answered by whoever holds its signed link: on a phone, without signing in."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.console.scene import HUSAM_KEY, call_of, execute
from tests.console.visitor import PHONE, Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]


def answer_place(call: dict[str, str]) -> str:
    return "/answer/" + (call["callback_url"] or call["approval_url"]).rsplit("/", 1)[1]


def test_the_waiting_page_gives_the_link_as_a_qr_code(visit: Visit, stage: RunningGateway) -> None:
    call_id = execute(stage, "confirmAction", {"question": "With the phone?"})
    husam = visit(HUSAM_KEY)
    page = husam.go(f"/waiting/{call_id}")
    page.get_by_text("Answer on a phone").click()
    expect(page.get_by_role("img", name="QR code of the link")).to_be_visible()
    husam.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("This link only works on this machine")
    link = husam.evaluate("() => navigator.clipboard.readText()")
    assert link == f"{stage.url}/#{answer_place(call_of(stage, call_id))}"


def test_a_call_is_approved_by_its_link_after_seeing_exactly_what_would_run(
    visit: Visit, stage: RunningGateway
) -> None:
    call_id = execute(stage, "send_invoice", {"customer": "ACME", "amount": 7})
    stranger = visit("", size=PHONE)
    page = stranger.go(answer_place(call_of(stage, call_id)))
    expect(page.get_by_role("heading", name="Approve this call?")).to_be_visible()
    expect(page.locator("main")).to_contain_text("admin wants to run send_invoice")
    expect(page.locator("dl.tree")).to_contain_text("ACME")
    expect(page.locator("dl.tree")).to_contain_text("7")
    assert stranger.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved. You can close this page.")).to_be_visible()
    eventually(lambda: call_of(stage, call_id)["result"] == "7 euros asked of ACME")
    page.reload()
    expect(page.get_by_text("Approved. You can close this page.")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("heading", name="Approval request")).to_be_visible()
    expect(page.locator("main")).to_contain_text("admin wanted to run send_invoice")
    expect(page.locator("main")).not_to_contain_text("ACME")


@requirement("SAFE-approval-link", "CON-approvals-on-record")
def test_nothing_of_what_would_run_is_folded_and_the_run_says_who_decided(visit: Visit, stage: RunningGateway) -> None:
    long = "A" * 3_000 + " THE END"
    call_id = execute(stage, "send_invoice", {"customer": long, "amount": 7})
    page = visit("", size=PHONE).go(answer_place(call_of(stage, call_id)))
    expect(page.locator("dl.tree")).to_contain_text("THE END")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Arguments").fill('{"customer": "ACME", "amount": 1}')
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved. You can close this page.")).to_be_visible()
    eventually(lambda: call_of(stage, call_id)["result"] == "1 euros asked of ACME")
    boss = visit(stage.key)
    boss.go(f"/runs/{call_of(stage, call_id)['run_id']}")
    card = boss.card("send_invoice")
    expect(card).to_contain_text("Approved by signed link")
    expect(card).to_contain_text("with edited arguments. Original arguments:")
    expect(card.locator(".decided .tree")).to_contain_text("AAAA")


def test_a_question_is_answered_by_its_link_with_the_form_of_its_tool(visit: Visit, stage: RunningGateway) -> None:
    call_id = execute(stage, "askForDetails", {"question": "Who comes?"})
    page = visit("", size=PHONE).go(answer_place(call_of(stage, call_id)))
    expect(page.get_by_text("Who comes?")).to_be_visible()
    page.get_by_label("Your name*").fill("Mia")
    page.get_by_label("Nights*").fill("2")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Answered. You can close this page.")).to_be_visible()
    assert call_of(stage, call_id)["result"] == {"name": "Mia", "nights": 2}


def test_a_link_that_answers_nothing_says_so(visit: Visit) -> None:
    page = visit("").go("/answer/call_0.0")
    expect(page.get_by_role("alert")).to_contain_text("does not belong to a call")


def test_every_page_fits_a_phone(visit: Visit) -> None:
    husam = visit(HUSAM_KEY, size=PHONE)
    page = husam.go("/spaces")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Tools").click()
    expect(page.get_by_role("heading", name="Tools", exact=True)).to_be_visible()
    for place in ("/spaces/hall", "/tools/shapes", "/waiting", "/runs", "/agents/ada"):
        husam.go(place)
        expect(page.locator("main h1")).to_be_visible()
        assert husam.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), place
