"""The first page: what the gateway does, what waits, what is down, what has changed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.scene import ADMIN, execute, post
from tests.console.test_faults import serious
from tests.console.test_hostile import assert_unharmed
from tests.console.visitor import PHONE, Visitor
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]
CALLER_KEY = "caller-key-0123456789"
CONFIG = f"""
[auth.keys.caller]
key = "{CALLER_KEY}"
scopes = ["call"]

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.send_invoice]
metadata = {{ requires_approval = true }}

[sources.gone]
kind = "mcp"
url = "http://127.0.0.1:9/mcp"
"""
TOOLS = '''
def double(number: int) -> int:
    """Twice the number."""
    if number == 0:
        raise ValueError("none")
    return number * 2


def send_invoice(customer: str) -> str:
    """Send an invoice."""
    return customer
'''


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("overview")
    (folder / "tools").mkdir()
    (folder / "tools/double.py").write_text(TOOLS)
    with running_gateway(folder, CONFIG, env=ADMIN) as running:
        for number in (1, 2, 3, 0):
            post(running, "/api/v1/tools/double/execute", {"arguments": {"number": number}})
        post(running, "/api/v1/tools/double/execute", {"arguments": {"number": 4}}, key=CALLER_KEY)
        execute(running, "send_invoice", {"customer": "<img src=x onerror='window.poisoned=1'>"})
        post(running, "/api/v1/keys", {"name": "ci", "scopes": ["call"]})
        yield running


@requirement("CON-overview")
def test_the_first_page_shows_traffic_what_waits_what_is_down_and_what_changed(
    visit: Visit, gateway: RunningGateway
) -> None:
    visitor = visit(gateway=gateway)
    page = visitor.go("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_role("img", name="Calls a minute by outcome: 4 completed, 1 failed")).to_be_visible()
    expect(page.get_by_text("20 %").first).to_be_visible()
    tool = page.get_by_role("region", name="By tool").get_by_role("row", name="double")
    expect(tool.get_by_role("cell").first).to_have_text("5")
    expect(page.get_by_role("region", name="By key").get_by_role("row", name="caller")).to_be_visible()
    expect(page.get_by_role("link", name="send_invoice")).to_contain_text("approval")
    expect(page.locator(".down-line", has_text="gone")).to_contain_text("down")
    expect(page.locator(".changed-line", has_text="key created")).to_contain_text("ci")
    assert_unharmed(page)

    post(gateway, "/api/v1/tools/double/execute", {"arguments": {"number": 5}})
    expect(tool.get_by_role("cell").first).to_have_text("6")  # without a reload
    tool.get_by_role("link", name="double").click()
    expect(page.get_by_role("heading", name="double")).to_be_visible()
    page.go_back()
    page.get_by_label("Time").select_option("Last 24 hours")
    expect(tool.get_by_role("cell").first).to_have_text("6")
    page.reload()
    expect(page.get_by_label("Time")).to_have_value("1440")


@requirement("CONSOLE-overview-one")
def test_the_figures_of_one_key_or_source_are_on_the_overview_and_on_its_page(
    visit: Visit, gateway: RunningGateway
) -> None:
    page = visit(gateway=gateway).go("/overview?range=1440")
    page.get_by_label("Key or person").select_option("caller")
    expect(page.get_by_role("img", name="Calls a minute by outcome: 1 completed")).to_be_visible()
    expect(page.get_by_role("region", name="By tool")).to_have_count(0)
    page.get_by_role("link", name="1 call ended").click()
    expect(page.get_by_role("table", name="Calls")).to_have_attribute("aria-rowcount", "2")
    page.go_back()
    page.get_by_label("Source").select_option("gone")
    expect(page.get_by_role("link", name="0 calls ended")).to_be_visible()
    assert "principal" not in page.url, "one at a time"
    page.get_by_role("button", name="All calls").click()
    expect(page.get_by_role("region", name="By tool")).to_be_visible()
    page.goto(f"{gateway.url}/#/sources/local")
    expect(page.get_by_role("region", name="Last 24 hours")).to_contain_text("failed")
    expect(page.get_by_role("img", name="Calls a minute in the last 24 hours")).to_be_visible()
    page.goto(f"{gateway.url}/#/access/keys/caller")
    expect(page.get_by_role("region", name="Last 24 hours")).to_contain_text("1 call")


@requirement("CON-overview")
def test_another_key_sees_its_own_figures_and_is_told_so(visit: Visit, gateway: RunningGateway) -> None:
    page = visit(CALLER_KEY, gateway=gateway).go("/overview")
    expect(page.get_by_text("Calls of caller. Figures of all calls need the scope admin.")).to_be_visible()
    expect(page.get_by_role("img", name="Calls a minute by outcome: 1 completed")).to_be_visible()
    expect(page.get_by_role("region", name="By tool")).to_have_count(0)


@requirement("CON-overview")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_axe_finds_nothing_serious(visit: Visit, gateway: RunningGateway, scheme: str) -> None:
    visitor = visit(gateway=gateway, size=PHONE, scheme=scheme)
    page = visitor.go("/overview")
    expect(page.get_by_role("region", name="By tool")).to_be_visible()
    assert visitor.evaluate("() => document.querySelector('main').scrollWidth <= innerWidth")
    assert serious(page) == []


@requirement("CON-overview")
def test_an_empty_gateway_shows_what_to_do_first(visit: Visit, tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as empty:
        page = visit(gateway=empty).go("/overview?range=1440")
        expect(page.get_by_role("heading", name="No calls yet")).to_be_visible()
        expect(page.get_by_role("link", name="Try a tool")).to_be_visible()
