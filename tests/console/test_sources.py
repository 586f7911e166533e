"""Sources in the console: what is wrong with one, definitions that changed, and one from its test to its end."""

from collections.abc import Callable

import httpx2
from playwright.sync_api import expect

from tests.console.operator_scene import (
    CHANGING,
    MARKUP,
    PYTHON,
    READER_KEY,
    assert_unharmed,
    call,
    expect_done,
    quarantined,
    tools_of,
)
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]


@requirement("CONSOLE-sources-state")
def test_a_source_that_is_down_says_why_and_what_to_do(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/sources?state=down")
    table = page.get_by_role("table", name="Sources")
    expect(table.get_by_role("link")).to_have_count(1)
    expect(table).to_contain_text("down")
    table.get_by_role("link").click()
    expect(page.get_by_role("heading", name="broken")).to_be_visible()
    trouble = page.get_by_role("region", name="What is wrong")
    expect(trouble).to_contain_text("exited (code 3)")
    expect(trouble).to_contain_text("The gateway tries again by itself")
    expect(trouble.get_by_label("stderr")).to_contain_text("no database at db.internal")
    expect(trouble.get_by_label("stderr")).to_contain_text("<img src=x")
    assert_unharmed(page)
    page.get_by_role("button", name="Test").click()
    page.get_by_role("button", name="Test now").click()
    expect(page.get_by_role("status", name="Result of the test")).to_contain_text("does not work")


@requirement("CONSOLE-sources-state")
def test_a_source_is_switched_off_for_everybody_with_a_reason(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/sources/local")
    page.get_by_role("button", name="Switch off for everybody").click()
    dialog = page.get_by_role("dialog", name="Switch local off for everybody")
    dialog.get_by_label("Reason").fill(f"inspection {MARKUP}")
    dialog.get_by_role("button", name="Switch off for everybody").click()
    expect(page.get_by_text("inspection <img")).to_be_visible()
    eventually(lambda: call(operated, "roll").status_code == 403)
    page.goto(f"{operated.url}/#/settings/limits")
    row = page.get_by_role("table", name="Off for everybody").get_by_role("row").filter(has_text="local")
    expect(row).to_contain_text("inspection <img")
    assert_unharmed(page)
    row.get_by_role("button", name="Switch on").click()
    expect_done(page, "source local is on for everybody")
    assert call(operated, "roll").json()["result"] == 6


@requirement("CONSOLE-sources-quarantine")
def test_changed_definitions_are_read_side_by_side_and_refused_or_accepted(
    visit: Visit, operated: RunningGateway
) -> None:
    for source in ("changing", "fickle"):
        quarantined(operated, source, f"Says {MARKUP} things.")
    page = visit(gateway=operated).go("/tools/say")
    expect(page.get_by_role("heading", name="Definition changed")).to_be_visible()
    expect(page.get_by_text("Tool not found")).to_have_count(0)
    page.goto(f"{operated.url}/#/sources?state=quarantined")
    table = page.get_by_role("table", name="Sources")
    expect(table.get_by_role("link")).to_have_count(2)
    table.get_by_role("link", name="changing").click()
    change = page.get_by_role("article", name="Change of say")
    expect(change.locator("td.removed")).to_contain_text("Says something.")
    expect(change.locator("td.added")).to_contain_text("Says <img src=x")
    page.get_by_role("button", name="Show as one text").click()
    expect(change.locator(".diff .added").last).to_contain_text("Says <img src=x")
    assert_unharmed(page)
    change.get_by_role("button", name="Refuse").click()
    expect(change).to_contain_text("refused by admin")
    expect(change.get_by_role("button", name="Refuse")).to_have_count(0)
    assert "say" not in tools_of(operated)
    change.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("heading", name="Quarantined")).to_have_count(0)
    expect(page.get_by_role("link", name="say", exact=True)).to_be_visible()
    assert "said with nothing" in call(operated, "say").text


@requirement("CONSOLE-sources-quarantine")
def test_all_changes_of_a_source_are_refused_or_accepted_at_once(visit: Visit, operated: RunningGateway) -> None:
    quarantined(operated, "fickle", "Says this.")
    page = visit(gateway=operated).go("/sources/fickle")
    page.get_by_role("button", name="Refuse all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_text(["fickle_one", "fickle_two"])
    dialog.get_by_role("button", name="Refuse all").click()
    expect_done(page, "2 definitions of fickle refused")
    expect(page.get_by_text("refused by admin")).to_have_count(2)
    assert not {"fickle_one", "fickle_two"} & tools_of(operated)
    quarantined(operated, "fickle", "Says that.")
    page.goto(f"{operated.url}/#/tools/fickle_one")
    expect(page.get_by_text("Says that.").first).to_be_visible()
    page.get_by_role("link", name="Read it side by side, or refuse it").click()
    page.get_by_role("button", name="Accept all").click()
    dialog.get_by_role("button", name="Accept all").click()
    expect_done(page, "2 definitions of fickle accepted")
    eventually(lambda: {"fickle_one", "fickle_two"} <= tools_of(operated))


@requirement("CONSOLE-sources-change")
def test_a_source_from_its_test_to_its_removal(visit: Visit, operated: RunningGateway) -> None:
    (operated.folder / "new.txt").write_text(f"Speaks {MARKUP}.")
    page = visit(gateway=operated).go("/sources")
    page.get_by_role("link", name="Add a source").click()
    page.get_by_role("link", name="MCP server as a process").click()
    page.get_by_label("Name", exact=True).fill("speaker")
    page.get_by_label("Prefix").fill("my_")
    page.get_by_label("Command").fill("no-such-program --serve")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.get_by_role("button", name="Test", exact=True).click()
    result = page.get_by_role("status", name="Result of the test")
    expect(result).to_contain_text("does not work")
    expect(result).to_contain_text("no-such-program")

    page.get_by_label("Command").fill(f"{PYTHON} {CHANGING} '{operated.folder}/new.txt'")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(result).to_contain_text("would offer 1 tool,")
    expect(result).to_contain_text("my_say")
    expect(result).to_contain_text("Speaks <img src=x")
    assert_unharmed(page)
    assert "my_say" not in tools_of(operated)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="speaker")).to_contain_text("up")
    assert "said with nothing" in call(operated, "my_say").text

    page.get_by_role("button", name="Edit").first.click()
    page.get_by_label("Environment").fill("SAY_TOKEN=${SPEAKER_TOKEN}")
    page.get_by_label("Value of SPEAKER_TOKEN").fill("t0ken-of-the-speaker")
    page.get_by_role("button", name="Set secret").click()
    expect(page.get_by_role("button", name="Set another value")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect_done(page, "Source speaker changed")
    eventually(lambda: "said with [redacted]" in call(operated, "my_say").text)
    assert "t0ken" not in page.content()

    page.get_by_role("button", name="Restart").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    expect_done(page, "Source speaker restarts")
    eventually(lambda: "said with" in call(operated, "my_say").text)
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect_done(page, "Source speaker removed")
    expect(page.get_by_role("table", name="Sources")).not_to_contain_text("speaker")
    eventually(lambda: "my_say" not in tools_of(operated))


@requirement("CONSOLE-sources-change")
@requirement("OPS-tools-test")
def test_an_http_tool_is_made_changed_and_removed(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/sources?add=tool")
    page.get_by_label("Name", exact=True).fill("far_away")
    page.get_by_label("Description").fill("Asks <b>far</b> away.")
    page.get_by_label("URL").fill("https://far.example/ask")
    page.get_by_label("Headers").fill("no colon here")
    expect(page.get_by_role("button", name="Save and try it")).to_be_disabled()
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("without ':'")
    page.get_by_label("Headers").fill("X-Key: written-out-in-the-form")
    page.get_by_label("URL").fill(operated.url)
    page.get_by_role("button", name="Test", exact=True).click()
    result = page.get_by_role("status", name="Result of the test")
    expect(result).to_contain_text("that is a loopback address")
    expect(result).to_contain_text("It would be called far_away.")
    expect(page.get_by_role("button", name="Save anyway")).to_be_enabled()
    page.get_by_label("URL").fill("https://far.example/ask")
    expect(page.get_by_text("Changed since this test.")).to_be_visible()
    page.get_by_role("button", name="Test", exact=True).click()
    expect(result).to_contain_text("'far.example' was refused: the name has no address")
    assert "far_away" not in tools_of(operated)
    page.get_by_role("button", name="Save anyway").click()
    expect(page.get_by_role("heading", name="far_away")).to_be_visible()
    expect(page.get_by_text("Asks <b>far</b> away.").first).to_be_visible()

    page.goto(f"{operated.url}/#/sources/http")
    page.get_by_role("button", name="Edit far_away").click()
    expect(page.get_by_label("URL")).to_have_value("https://far.example/ask")
    assert "written-out-in-the-form" not in page.content()
    page.get_by_label("Headers").fill("X-Key: another-one")
    page.get_by_label("Calls need approval").check()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect_done(page, "Tool far_away changed")
    shown = httpx2.get(f"{operated.url}/api/v1/tools/far_away/definition", headers=operated.headers)
    definition = shown.json()["definition"]
    assert definition["metadata"]["requires_approval"] is True
    assert definition["execution"]["headers"] == {"X-Key": "[redacted]"}
    page.get_by_role("button", name="Remove far_away").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect_done(page, "Tool far_away removed")
    eventually(lambda: "far_away" not in tools_of(operated))


@requirement("CONSOLE-operator-permissions")
def test_somebody_without_the_scope_is_told_which_one_is_missing(visit: Visit, operated: RunningGateway) -> None:
    reader = visit(READER_KEY, gateway=operated)
    page = reader.go("/sources")
    expect(page.get_by_role("status").filter(has_text="that takes the scope admin")).to_be_visible()
    expect(page.get_by_role("table", name="Sources")).to_contain_text("local")
    expect(page.get_by_role("link", name="Add a source")).to_have_count(0)
    for place in ("/access/keys", "/access/audit", "/settings", "/settings/config"):
        reader.go(place)
        expect(page.get_by_role("status").filter(has_text="lacks the scope admin")).to_be_visible()
    reader.go("/access/groups/dice")
    expect(page.get_by_text(MARKUP)).to_be_visible()
    expect(page.get_by_label("MCP address", exact=True)).to_contain_text("/mcp/dice")
    assert_unharmed(page)


@requirement("CONSOLE-sources-reading")
def test_a_resource_is_read_and_a_prompt_tried_on_the_source_s_page(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/sources/shelf")
    page.get_by_role("button", name="Read shelf://book").click()
    expect(page.get_by_label("shelf://book · text/plain", exact=True)).to_have_text(f"Read {MARKUP}")
    page.get_by_role("button", name="Try it: sort").click()
    page.get_by_label("by*").fill("<b>size</b>")
    page.get_by_role("button", name="Get prompt").click()
    expect(page.get_by_text(f"Sort by <b>size</b> {MARKUP}")).to_be_visible()
    assert_unharmed(page)
    made = httpx2.get(f"{operated.url}/api/v1/calls?source=shelf", headers=operated.headers).json()["calls"]
    assert {(call["kind"], call["status"]) for call in made} == {("resource", "completed"), ("prompt", "completed")}
