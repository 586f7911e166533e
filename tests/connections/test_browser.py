"""A login at a server behind the gateway, in a real browser, with an authorization server on another site."""

import asyncio
from pathlib import Path

from playwright.sync_api import Page

from tests.connections.world import gateway_at, upstream
from tests.console.visitor import chromium
from tests.requirement import requirement


def log_in(link: str, key: str) -> list[str]:
    """What the browser shows on the way; nothing but links and buttons is used."""
    with chromium() as browser:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(link)
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        seen = [_heading(page, "Log in at far")]
        page.get_by_role("button", name="Go on to the login").click()
        seen.append(_heading(page, "You are connected"))
        context.close()
        return seen


def _heading(page: Page, text: str) -> str:
    page.get_by_role("heading", name=text).wait_for()
    return page.locator("main").inner_text()


@requirement("ID-flow-browser")
async def test_a_person_signs_in_logs_in_and_their_call_runs(tmp_path: Path) -> None:
    async with upstream("localhost") as server, gateway_at(tmp_path, server) as place:
        await place.log_in("bob")
        await place.listed()
        call = (await place.call("ann")).json()
        assert call["status"] == "pending_login"
        server.person = "ann"
        asked, done = await asyncio.to_thread(log_in, call["login_url"], "key-of-ann")
        assert "whoami" in asked
        assert "The login is for calls of ann" in asked
        assert "You can close this page" in done
        assert (await place.result("ann", call["call_id"]))["result"] == "ann"
        assert server.calls == {"ann": 1}
