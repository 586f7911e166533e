"""Apps of tools (MCP Apps): a real one works, and a hostile one gets nowhere."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, Route, expect

from tests.console.scene import ADMIN, get, messages, post
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

SERVER = Path(__file__).with_name("app_server.py")
PAGES = Path(__file__).with_name("apps")
SDK = Path(__file__).parents[1] / "programs/node_modules/@modelcontextprotocol/ext-apps/dist/src/app-with-deps.js"
Visit = Callable[..., Visitor]
KEY = "mira-key-0123456789012"

CONFIG = f"""
[auth.keys.mira]
key = "{KEY}"
scopes = ["call", "answer"]

[sources.shop]
kind = "mcp"
command = COMMAND

[sources.shop.tools.show_stock]
visible = true
[sources.shop.tools.attack]
visible = true
[sources.shop.tools.flood]
visible = true
[sources.shop.tools.order]
metadata = {{ requires_approval = true }}

[[tools]]
name = "secret"
description = "Of another source."
executionType = "internal"
inputSchema = {{ type = "object" }}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    if not SDK.is_file():
        pytest.skip("needs the packages of npm in tests/programs")
    folder = tmp_path_factory.mktemp("shop")
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES.iterdir()}
    command = json.dumps([sys.executable, str(SERVER), str(folder)])
    with running_gateway(folder, CONFIG.replace("COMMAND", command), env=ADMIN) as gateway:
        for name, page in pages.items():
            whole = page.replace("GATEWAY", gateway.url).replace("SDK_SOURCE", sdk_source())
            (folder / name).write_text(whole, encoding="utf-8")
        eventually(lambda: get(gateway, "/api/v1/apps")["apps"])
        for space in ("show_stock", "attack", "flood"):
            post(gateway, "/api/spaces", {"id": space})
        yield gateway


def sdk_source() -> str:
    """The official SDK as a script in a page: an app has no other scripts to load."""
    source = SDK.read_text(encoding="utf-8")
    exported = re.search(r"export\{([^}]*)\};?\s*$", source)
    assert exported is not None
    names = [pair.split(" as ") for pair in exported[1].split(",")]
    table = ",".join(f"{pair[-1]}:{pair[0]}" for pair in names)
    return f"{source[: exported.start()]}globalThis.ExtApps={{{table}}};".replace("</script", "<\\/script")


def shown(gateway: RunningGateway, visitor: Visitor, tool: str, item: str = "tea") -> FrameLocator:
    """A call of the tool in the space of its name, and the frame of its app."""
    post(gateway, f"/api/v1/tools/{tool}/execute", {"arguments": {"item": item}, "space_id": tool}, key=KEY)
    visitor.go(f"/spaces/{tool}")
    return visitor.card(tool).frame_locator("iframe").frame_locator("iframe")


@requirement("CONSOLE-apps")
def test_an_app_made_with_the_official_sdk_works_in_a_conversation(visit: Visit, shop: RunningGateway) -> None:
    mira = visit(KEY, gateway=shop)
    app = shown(shop, mira, "show_stock")
    expect(app.locator("#item")).to_have_text("tea")
    expect(app.locator("#left")).to_have_text("7")
    expect(app.locator("#theme")).to_have_text("light")
    card = mira.card("show_stock")
    expect(card).to_contain_text("App of shop")
    expect(card).to_contain_text("may reach https://stock.example")
    expect(card).to_contain_text("may not reach http://127.0.0.1:1, https://intern.local")
    app.get_by_role("button", name="Refresh").click()
    expect(app.locator("#said")).to_have_text("refresh_stock")
    expect(card).to_contain_text("has made 1 call")
    app.get_by_role("button", name="Submit").click()
    expect(app.locator("#said")).to_have_text("submitted")
    newest = get(shop, "/api/v1/calls?tool=refresh_stock")["calls"][0]
    assert (newest["principal"], newest["status"]) == ("mira", "completed"), "on record, in the person's name"


@requirement("CONSOLE-apps")
def test_what_an_app_wants_in_a_person_s_name_is_asked_first(visit: Visit, shop: RunningGateway) -> None:
    mira = visit(KEY, gateway=shop)
    app = shown(shop, mira, "show_stock", item="milk")
    page, card, said = mira.page, mira.card("show_stock"), app.locator("#said")
    expect(app.locator("#item")).to_have_text("milk")

    app.get_by_role("button", name="Order").click()
    asking = card.locator('article[aria-label="order: needs your approval"]')
    expect(asking).to_contain_text("tea")
    expect(said).to_have_text("asked")
    asking.get_by_role("button", name="Approve").click()
    expect(said).to_have_text("order")

    app.get_by_role("button", name="Ask").click()
    wish = card.get_by_role("group", name="The app wants to send a message")
    expect(wish).to_contain_text("Tea <b>please</b>")
    wish.get_by_role("button", name="Decline").click()
    expect(said).to_have_text("refused: The person declined.")
    app.get_by_role("button", name="Ask").click()
    wish.get_by_role("button", name="Send").click()
    expect(said).to_have_text("sent")
    assert [one["entityId"] for one in messages(shop, "show_stock") if one["content"] == "Tea <b>please</b>"] == [
        "mira"
    ]

    app.get_by_role("button", name="Docs").click()
    wish = card.get_by_role("group", name="The app wants to open a page")
    expect(wish).to_contain_text("https://docs.example/tea")
    assert len(mira.context.pages) == 1, "nothing opens by itself"
    mira.context.route("https://docs.example/**", lambda route: route.fulfill(body="docs"))
    with page.expect_popup() as popup:
        wish.get_by_role("link", name="Open").click()
    assert popup.value.url == "https://docs.example/tea"
    assert popup.value.evaluate("() => window.opener") is None
    expect(said).to_have_text("opened")


@requirement("CONSOLE-app-kept")
def test_an_app_goes_on_while_it_is_scrolled_out_of_view(visit: Visit, shop: RunningGateway) -> None:
    mira = visit(KEY, gateway=shop)
    app = shown(shop, mira, "show_stock", item="cake")
    app.get_by_role("button", name="Refresh").click()
    expect(app.locator("#said")).to_have_text("refresh_stock")
    for number in range(40):
        post(shop, "/api/spaces/show_stock/messages", {"content": f"Line {number} of many"}, key=KEY)
    page, card = mira.page, mira.card("show_stock")
    expect(page.get_by_text("Line 39 of many", exact=True)).to_be_in_viewport()
    expect(card).not_to_be_in_viewport()
    card.scroll_into_view_if_needed()
    expect(card).to_be_in_viewport()
    expect(app.locator("#said")).to_have_text("refresh_stock")


ALLOWED = {"a tool that it may"}
SAID = {
    "another source's tool": "has no tool 'secret'",
    "a tool of models": "for models only",
    "another source's file": "cannot be read",
    "a script as a link": "must be an http or https address",
    "a file as a link": "must be an http or https address",
    "a method of its own": "no method",
    "the reserved page": "no answer",
    "past the relay": "no answer",
    "a huge message": "no answer",
    "a deep message": "no answer",
}


@requirement("CONSOLE-app-confined")
def test_a_hostile_app_gets_nowhere(browser: Browser, shop: RunningGateway) -> None:
    mira = Visitor(browser, shop)
    mira.sign_in(KEY)
    downloads: list[Any] = []
    reached: list[str] = []
    answered: list[str] = []

    def note(route: Route) -> None:
        reached.append(route.request.url)
        route.abort()

    mira.context.route(re.compile(r"//evil\.example|//127\.0\.0\.1:1/"), note)
    mira.page.on("response", lambda response: answered.append(response.url))
    mira.page.on("download", lambda download: downloads.append(download.url))
    try:
        app = shown(shop, mira, "attack")
        expect(app.locator("#done")).to_have_text("done", timeout=90_000)
        report: dict[str, str] = json.loads(app.locator("#report").inner_text())
        assert report.pop("beacon") in ("sent true", "sent false"), "whatever it says: nothing was asked, see below"
        assert report.pop("popup") == "popup null"
        gone = {name: said for name, said in report.items() if not said.startswith("failed")}
        assert gone.keys() == ALLOWED, gone
        for name, words in SAID.items():
            assert words in report[name], (name, report[name])
        app.get_by_role("button", name="Leave").click()  # with a click, which browsers trust more
        expect(app.locator("#done")).to_have_count(0)
        assert mira.page.url == f"{shop.url}/#/spaces/attack", "the console is where it was"
        assert mira.evaluate("() => window.poisoned") is None
        assert len(mira.context.pages) == 1
        assert downloads == []
        height = mira.card("attack").locator("iframe").evaluate("frame => frame.getBoundingClientRect().height")
        assert height <= 722
        made = {one["tool"]: one["status"] for one in get(shop, "/api/v1/calls?limit=100")["calls"]}
        assert (made["secret"], made["for_models"]) == ("refused", "refused"), "on record"
        assert mira.faults == []
        assert "https://evil.example/xhr" in mira.foreign, "it did try"
        assert reached == [], "the browser sent nothing to anybody else"
        assert not [url for url in answered if url.endswith(("/api/v1/keys", "/api/v1/calls", "/page.js"))]
    finally:
        mira.context.close()


@requirement("CONSOLE-app-confined")
def test_an_app_that_floods_its_host_is_stopped(visit: Visit, shop: RunningGateway) -> None:
    mira = visit(KEY, gateway=shop)
    shown(shop, mira, "flood")
    card = mira.card("flood")
    expect(card.get_by_role("alert")).to_contain_text("The app was stopped because it sent too many messages.")
    expect(card.locator("iframe")).to_have_count(0)
    mira.page.get_by_label("Message", exact=True).fill("The page still answers")


@requirement("CONSOLE-app-confined")
def test_the_frame_has_no_origin_and_only_the_domains_that_may_be(visit: Visit, shop: RunningGateway) -> None:
    mira = visit(KEY, gateway=shop)
    own = shop.url.replace("http://", "https://")
    asked = f"https://cdn.example https://*.cdn.example {own} https://10.0.0.1 https://evil.example;script-src"
    answer = mira.context.request.get(f"{shop.url}/apps/frame", params={"resource": asked, "connect": "'self' * data:"})
    rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert rules["script-src"] == "'unsafe-inline' https://cdn.example https://*.cdn.example"
    assert rules["connect-src"] == "'none'"
    assert rules["sandbox"] == "allow-scripts allow-forms"
    assert "allow-same-origin" not in answer.headers["content-security-policy"]
    page: Page = mira.page
    page.goto(f"{shop.url}/apps/frame")
    assert page.evaluate("() => self.origin") == "null", "also when it is opened by itself"
