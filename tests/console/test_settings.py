"""Models, notifications, hooks and the config in the console."""

from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import expect

from tests.console.operator_scene import WRITTEN_OUT, assert_unharmed, call, expect_done
from tests.console.test_faults import AXE, serious
from tests.console.visitor import PHONE, Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]
PLACES = {
    "/sources": "Sources",
    "/sources/broken": "stderr",
    "/sources?add=command": "Command",
    "/sources?add=tool": "Method",
    "/access": "Keys",
    "/access/keys/reader": "Limited to",
    "/access/groups/dice": "MCP address",
    "/access/audit": "Audit log",
    "/settings": "Models",
    "/settings/models/mind": "Playground",
    "/settings/notifications": "Targets",
    "/settings/hooks": "Hooks before calls",
    "/settings/limits": "Limits",
    "/settings/config": "Config in force",
}
WIDER = "() => { const main = document.querySelector('main'); return main.scrollWidth - main.clientWidth; }"


@requirement("CONSOLE-settings-models")
def test_a_model_is_tested_and_asked_with_tools(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/settings")
    page.get_by_role("table", name="Models").get_by_role("link", name="mind").click()
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("status", name="Result of the test")).to_contain_text("“Ready.”")
    page.get_by_text("Tools and instructions").click()
    page.get_by_label("Tools", exact=True).fill("local:*")
    page.get_by_label("Prompt", exact=True).fill("Please roll <b>now</b>")
    page.get_by_role("button", name="Send").click()
    turn = page.get_by_role("article", name="Prompt and answer")
    expect(turn).to_contain_text("Please roll <b>now</b>")
    expect(turn.locator('article[aria-label^="roll:"]')).to_contain_text("completed")
    expect(turn).to_contain_text("It rolled <b>six</b>, and that is that.")
    expect(turn).to_contain_text("first token")
    expect(turn).to_contain_text("tokens read")
    assert_unharmed(page)
    run = turn.get_by_role("link", name="Its run")
    run_id = str(run.get_attribute("href")).removeprefix("#/runs/")
    calls = httpx2.get(f"{operated.url}/api/v1/calls?run_id={run_id}", headers=operated.headers).json()["calls"]
    assert [one["tool"] for one in calls] == ["roll"]
    page.get_by_label("Prompt", exact=True).fill("And now?")
    page.get_by_role("button", name="Send").click()
    expect(turn).to_have_count(2)
    expect(turn.last).to_contain_text("completed")


@requirement("CONSOLE-settings-models")
def test_a_call_that_waits_is_approved_in_the_playground(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/settings/models/mind")
    page.get_by_text("Tools and instructions").click()
    page.get_by_label("Tools", exact=True).fill("pay")
    page.get_by_label("Prompt", exact=True).fill("Please pay")
    page.get_by_role("button", name="Send").click()
    turn = page.get_by_role("article", name="Prompt and answer")
    expect(turn.get_by_role("status").filter(has_text="A call waits for somebody")).to_be_visible()
    card = turn.locator('article[aria-label^="pay:"]')
    card.get_by_role("button", name="Approve").click()
    expect(card).to_contain_text("5 paid")
    expect(turn.get_by_role("status").filter(has_text="A call waits for somebody")).to_have_count(0)


@requirement("CONSOLE-settings-models")
def test_a_model_is_made_after_a_test_that_says_why_it_failed(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/settings/models")
    page.get_by_role("button", name="Add a model").click()
    form = page.get_by_role("dialog", name="Add a model")
    form.get_by_label("Name").fill("away")
    form.get_by_label("Server").fill("http://127.0.0.1:9/v1")
    form.get_by_label("Model", exact=True).fill("m")
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    form.get_by_role("button", name="Test").click()
    expect(form.get_by_role("status", name="Result of the test")).to_contain_text("does not answer")
    form.get_by_role("button", name="Save anyway").click()
    expect_done(page, "Model away made")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect_done(page, "Model away removed")
    expect(page.get_by_role("table", name="Models")).not_to_contain_text("away")


@requirement("CONSOLE-settings-notifications")
def test_what_could_not_be_delivered_says_why_and_is_sent_again(visit: Visit, operated: RunningGateway) -> None:
    call(operated, "roll", sides=0)
    failed = f"{operated.url}/api/v1/notifications?status=failed"
    eventually(lambda: httpx2.get(failed, headers=operated.headers).json()["notifications"])
    page = visit(gateway=operated).go("/settings/notifications?status=failed")
    target = page.get_by_role("table", name="Targets").get_by_role("row").filter(has_text="team")
    target.get_by_role("button", name="Send a test").click()
    expect(target.get_by_role("status")).to_contain_text("not taken")
    first = page.get_by_role("list", name="Notifications").locator("li").first
    expect(first).to_contain_text("call.failed")
    first.locator("summary").click()
    expect(first.locator("p.fault")).not_to_be_empty()
    expect(first).to_contain_text("What is sent")
    first.get_by_role("button", name="Retry").click()
    expect_done(page, "Sent again to team")


@requirement("CONSOLE-settings-hooks")
def test_hooks_are_shown_in_their_order(visit: Visit, operated: RunningGateway) -> None:
    assert call(operated, "roll").json()["result"] == 6
    page = visit(gateway=operated).go("/settings/hooks")
    before = page.get_by_role("table", name="Hooks before calls").get_by_role("row").nth(1)
    expect(before).to_contain_text("check")
    expect(before).to_contain_text("hooks.py:check")
    expect(before).to_contain_text("(1 tool)")
    expect(page.get_by_role("table", name="Hooks after calls")).to_contain_text("look again")


@requirement("CONSOLE-settings-config", "CONSOLE-config-origins")
def test_the_config_in_force_has_origins_and_is_read_anew(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/settings/config?q=server.port")
    values = page.get_by_role("table", name="Config in force")
    expect(values.get_by_role("row")).to_have_count(2)
    expect(values.get_by_role("row").last).to_contain_text("JACKFIELD_PORT")
    page.get_by_label("Search keys and values").fill("sources.broken.env")
    expect(values.get_by_role("row").last).to_contain_text("[redacted]")
    assert WRITTEN_OUT not in httpx2.get(f"{operated.url}/api/v1/config", headers=operated.headers).text
    page.get_by_label("Search keys and values").fill("")
    page.get_by_label("Origin").select_option("default")
    expect(values).to_contain_text("store.large_result")
    expect(values).not_to_contain_text("sources.local.kind")

    config = operated.folder / "jackfield.toml"
    written = config.read_text(encoding="utf-8")
    config.write_text("[[[", encoding="utf-8")
    page.get_by_role("button", name="Reload the file").click()
    expect(page.get_by_role("alert").filter(has_text="is not valid TOML").first).to_be_visible()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    config.write_text(f"{written}\n[groups.added]\ntools = []\n[scenario]\nname = 'other'\n", encoding="utf-8")
    page.get_by_role("button", name="Reload the file").click()
    said = page.get_by_role("status", name="What the reload changed")
    expect(said).to_contain_text("Added: groups.added")
    expect(said).to_contain_text("In force after a restart only: scenario")
    config.write_text(written, encoding="utf-8")
    page.get_by_role("button", name="Reload the file").click()
    expect(said).to_contain_text("Removed: groups.added")


@pytest.mark.skipif(
    not AXE.is_file(), reason="needs console/node_modules with axe-core: make console, where npm is there"
)
def test_the_pages_fit_a_phone_and_axe_finds_nothing_serious(visit: Visit, operated: RunningGateway) -> None:
    visitor = visit(gateway=operated, size=PHONE)
    page = visitor.page
    found = {}
    for place, sign in PLACES.items():
        visitor.go(place)
        named = page.get_by_label(sign, exact=True).or_(page.get_by_text(sign, exact=True))
        expect(named.first).to_be_visible()
        assert page.evaluate(WIDER) <= 0, place
        page.emulate_media(color_scheme="light")
        found[place, "light"] = serious(page)
        page.emulate_media(color_scheme="dark")
        found[place, "dark"] = serious(page, "color-contrast")
    assert {place: faults for place, faults in found.items() if faults} == {}
