"""Who comes in, by which door, and what a key with fewer scopes sees."""

from collections.abc import Callable

import httpx2
from playwright.sync_api import expect

from tests.console.scene import HUSAM_KEY, READER_KEY, execute
from tests.console.visitor import Visitor, printed_link
from tests.harness.process import RunningGateway

Visit = Callable[..., Visitor]


def test_the_printed_link_signs_in_once_and_leaves_no_key_in_the_page(visit: Visit, stage: RunningGateway) -> None:
    link = printed_link(stage)
    first = visit("")
    first.page.goto(link)
    expect(first.page.get_by_role("heading", name="Overview")).to_be_visible()
    assert "code=" not in first.page.url
    cookie = first.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert stage.key not in first.page.content()
    assert first.evaluate("() => localStorage.length + sessionStorage.length") == 0

    second = visit("")
    second.page.goto(link)
    expect(second.page.get_by_role("alert")).to_be_visible()
    expect(second.page.get_by_label("Key")).to_be_visible()


def test_a_key_signs_in_and_sign_out_ends_it_at_the_gateway_too(visit: Visit, stage: RunningGateway) -> None:
    visitor = visit("")
    page = visitor.go("/waiting")
    page.get_by_label("Key").fill("not-a-key")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Key").fill(HUSAM_KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Waiting", exact=True)).to_be_visible()
    cookie = visitor.context.cookies()[0]
    other = visitor.context.new_page()
    other.goto(f"{stage.url}/#/spaces")
    expect(other.get_by_role("heading", name="Spaces")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Key")).to_be_visible()
    other.get_by_role("link", name="Agents").click()
    expect(other.get_by_label("Key")).to_be_visible()
    jar = {str(cookie["name"]): str(cookie["value"])}
    assert httpx2.get(f"{stage.url}/api/v1/tools", cookies=jar).status_code == 401


def test_a_key_that_only_reads_is_asked_nothing_and_can_say_and_switch_nothing(
    visit: Visit, stage: RunningGateway
) -> None:
    execute(stage, "confirmAction", {"question": "Not for everybody?"})
    reader, husam = visit(READER_KEY), visit(HUSAM_KEY)
    expect(husam.go("/waiting").get_by_text("Not for everybody?").first).to_be_visible()

    page = reader.go("/waiting")
    expect(page.get_by_text("Nothing to answer")).to_be_visible()
    expect(page).to_have_title("Waiting · Jackfield")
    reader.go("/spaces/hall")
    expect(page.get_by_role("heading", name="hall")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_have_count(0)
    reader.go("/tools/roll")
    expect(page.get_by_text("Roll one die")).to_be_visible()
    expect(page.get_by_role("button", name="Call tool")).to_have_count(0)
    expect(page.get_by_label("enabled")).to_have_count(0)
    reader.go("/agents/ada")
    expect(page.get_by_role("heading", name="Ada")).to_be_visible()
    reader.go("/spaces")
    expect(page.get_by_role("button", name="Create")).to_have_count(0)


def test_what_is_not_there_says_so_and_leads_back(visit: Visit) -> None:
    page = visit(HUSAM_KEY).go("/nowhere")
    page.get_by_role("link", name="Go to the overview").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.goto(page.url.replace("/overview", "/spaces/nobody-made-it"))
    expect(page.get_by_role("alert")).to_be_visible()
