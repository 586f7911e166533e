"""Logins at a source in the console: who is logged in, logging in as oneself, and the end of a login."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.connections.world import UpstreamServer, upstream
from tests.console.scene import ADMIN
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement

ANN_KEY = "ann-key-0123456789"
CONFIG = """
[auth.keys.ann]
key = "{key}"
scopes = ["call"]

[outgoing]
allow = ["127.0.0.1"]

[sources.far]
kind = "mcp"
url = "{url}/mcp"
auth = "user"
"""


@contextmanager
def server_in_a_thread() -> Iterator[UpstreamServer]:
    """The server behind the gateway, in a loop of its own: while a browser is driven, this one's is taken."""
    found: list[UpstreamServer] = []
    loops: list[asyncio.AbstractEventLoop] = []
    is_up, may_end = threading.Event(), asyncio.Event()

    async def run() -> None:
        async with upstream() as server:
            found.append(server)
            loops.append(asyncio.get_running_loop())
            is_up.set()
            await may_end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert is_up.wait(30)
        yield found[0]
    finally:
        loops[0].call_soon_threadsafe(may_end.set)
        thread.join(30)


def signed_in(browser: Browser, gateway: RunningGateway, key: str) -> Page:
    context = browser.new_context()
    context.request.post(f"{gateway.url}/api/login", headers={"x-api-key": key}, data={})
    return context.new_page()


@requirement("CONSOLE-access-connections")
def test_a_login_is_made_seen_and_ended(browser: Browser, tmp_path: Path) -> None:
    with server_in_a_thread() as server:
        server.person = "ann"
        config = CONFIG.format(key=ANN_KEY, url=server.url)
        with running_gateway(tmp_path, config, env=ADMIN) as gateway:
            ann = signed_in(browser, gateway, ANN_KEY)
            ann.goto(f"{gateway.url}/#/access/connections")
            row = ann.get_by_role("table", name="Connections").get_by_role("row").filter(has_text="far")
            expect(row).to_contain_text("login needed")
            row.get_by_role("button", name="Log in").click()
            expect(ann.locator("body")).to_contain_text("far")
            ann.locator("form button, form input[type=submit]").first.click()
            expect(ann.locator("body")).to_contain_text("logged in")
            ann.goto(f"{gateway.url}/#/access/connections")
            expect(row).to_contain_text("logged in")

            admin = signed_in(browser, gateway, gateway.key)
            admin.goto(f"{gateway.url}/#/sources/far")
            people = admin.get_by_role("table", name="Connections").get_by_role("row").filter(has_text="ann")
            expect(people).to_contain_text("logged in")
            people.get_by_role("button", name="Log out").click()
            admin.get_by_role("dialog").get_by_role("button", name="Log out").click()
            expect(admin.locator(".toast")).to_contain_text("Logged out of far")
            expect(people).to_have_count(0)
            expect(row).to_contain_text("login needed")
            for page in (ann, admin):
                page.context.close()
