"""The console never lies: a gateway that hangs or is gone is said on every page; then what is shown is true again."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import httpx2
from playwright.sync_api import Page, expect

from tests.console.scene import ADMIN, execute, post
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway, start_gateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]
READER_KEY = "reader-key-0123456789"
CONFIG = f"""
[auth.keys.reader]
key = "{READER_KEY}"
scopes = ["call"]

[sources.local]
kind = "files"
path = "tools/*.py"
"""
TOOLS = {"tools/double.py": 'def double(number: int) -> int:\n    """Twice the number."""\n    return number * 2\n'}
PAGES = ("Calls", "Waiting", "Runs", "Spaces", "Agents", "Tools", "Sources", "Access", "Settings", "Overview")
REQUESTS = "() => performance.getEntriesByType('resource').filter((one) => !one.name.endsWith('/readyz')).length"


def double(gateway: RunningGateway, number: int) -> None:
    post(gateway, "/api/v1/tools/double/execute", {"arguments": {"number": number}})


def visit_all(page: Page) -> None:
    for name in PAGES:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page.locator("main h1")).to_have_text(name)


@requirement("CON-away", "CON-refusals")
def test_every_page_says_that_the_gateway_hangs_or_is_gone_and_recovers(visit: Visit, tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=TOOLS, env=ADMIN)
    try:
        double(gateway, 1)
        page = visit(gateway=gateway).go("/overview")
        away = page.get_by_role("status").filter(has_text="The gateway does not answer. What you see is as of")
        row = page.get_by_role("region", name="By tool").get_by_role("row", name="double").get_by_role("cell").first
        expect(row).to_have_text("1")
        visit_all(page)

        os.kill(gateway.pid, signal.SIGSTOP)
        expect(away).to_be_visible()
        for name in PAGES:
            page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
            expect(page.locator("main h1")).to_have_text(name)  # with what was known
            expect(away).to_be_visible()
        expect(row).to_have_text("1")
        expect(page.get_by_text("live", exact=True)).to_have_count(0)
        os.kill(gateway.pid, signal.SIGCONT)
        expect(away).to_have_count(0)
        double(gateway, 2)
        expect(row).to_have_text("2")  # without a reload

        gateway.kill()
        expect(away).to_be_visible()
        asked = page.evaluate(REQUESTS)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Calls").click()
        expect(page.get_by_role("row", name="double").first).to_be_visible()
        page.wait_for_function("() => performance.getEntriesByType('resource').at(-1).name.endsWith('/readyz')")
        assert page.evaluate(REQUESTS) - asked < 10, "nothing is asked again and again of a gateway that is gone"
        gateway = start_gateway(tmp_path, env=ADMIN)
        expect(away).to_have_count(0)
        double(gateway, 3)
        expect(page.get_by_role("table", name="Calls").get_by_role("row", name="double")).to_have_count(3)

        reader = visit(READER_KEY, gateway=gateway).go("/access/keys")
        expect(reader.locator("main")).to_contain_text("lacks the scope admin")
    finally:
        gateway.kill()


@requirement("CON-away")
def test_whose_key_is_revoked_is_told_to_sign_in_and_not_that_the_gateway_is_away(
    visit: Visit, stage: RunningGateway
) -> None:
    made = post(stage, "/api/v1/keys", {"name": "brief", "scopes": ["call"]})
    page = visit(made["key"]).go("/waiting")
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    away = page.get_by_text("The gateway does not answer")
    revoked = httpx2.delete(f"{stage.url}/api/v1/keys/brief", headers=stage.headers)
    assert revoked.status_code == 204, revoked.text
    expect(page.get_by_label("Key")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_text("You are signed out.")
    expect(away).to_have_count(0)


TURN = """(state) => {
  Object.defineProperty(document, "visibilityState", { get: () => state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""As if the tab had gone to the background, or come back; a headless browser has all of them in front."""


@requirement("CONSOLE-tabs")
def test_a_tab_in_the_background_holds_no_stream_and_catches_up(visit: Visit, stage: RunningGateway) -> None:
    page = visit().page
    page.clock.install()
    with page.expect_request(lambda request: "/calls/stream?status=" not in request.url and "/stream" in request.url):
        page.goto(f"{stage.url}/#/calls")
    expect(page.locator(".live")).to_have_text("live")
    title = page.title()
    streams: set[str] = set()
    page.on(
        "requestfailed", lambda request: streams.add(request.url.partition("?")[2]) if "stream" in request.url else None
    )
    page.evaluate(TURN, "hidden")
    page.clock.fast_forward(6_000)
    eventually(lambda: page.evaluate("() => 1") and len(streams) == 2)
    execute(stage, "send_invoice", {"customer": "ACME", "amount": 71})
    page.clock.fast_forward(16_000)
    page.wait_for_function("(before) => document.title !== before", arg=title)
    page.evaluate(TURN, "visible")
    expect(page.get_by_role("table", name="Calls").get_by_role("row", name="71")).to_have_count(1)


@requirement("CON-away")
def test_a_page_that_could_not_be_loaded_comes_when_the_gateway_is_back(visit: Visit, tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=TOOLS, env=ADMIN)
    try:
        page = visit(gateway=gateway).go("/overview")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        gateway.kill()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Agents").click()
        expect(page.get_by_text("This page could not be loaded from the gateway.")).to_be_visible()
        gateway = start_gateway(tmp_path, env=ADMIN)
        expect(page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
    finally:
        gateway.kill()
