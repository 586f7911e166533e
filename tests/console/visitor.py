"""People in front of the console: a Chromium, and for each of them a context of their own, signed in.

with chromium() as browser:
    visitor = Visitor(browser, gateway)
    visitor.sign_in()
    visitor.go("/spaces/lobby")
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Playwright as AsyncPlaywright
from playwright.sync_api import Browser, Dialog, Locator, Page, Playwright, ViewportSize, expect, sync_playwright

from tests.harness.process import RunningGateway
from tests.waiting import eventually

WIDE = ViewportSize(width=1200, height=800)
PHONE = ViewportSize(width=390, height=800)
WITHIN_MS = 30_000
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
]

expect.set_options(timeout=WITHIN_MS)


def find_chromium(playwright: Playwright | AsyncPlaywright) -> str:
    """A Chromium of this machine; without one the test is skipped."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    own = playwright.chromium.executable_path
    if Path(own).is_file():
        return own
    pytest.skip("needs Chromium: apt-get install chromium, or .venv/bin/playwright install chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=CHROMIUM_ARGS)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """One person's page. Faults of its scripts, and every host that it asked, are noted."""

    def __init__(
        self,
        browser: Browser,
        gateway: RunningGateway,
        *,
        size: ViewportSize = WIDE,
        scheme: Literal["dark", "light"] = "light",
    ) -> None:
        self.gateway = gateway
        self.context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        self.context.set_default_timeout(WITHIN_MS)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("dialog", self._refuse)
        self.page.on("request", lambda request: self._note(request.url))

    def _refuse(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, address: str) -> None:
        if not address.startswith((f"{self.gateway.url}/", "data:", "blob:")):
            self.foreign.append(address)

    def sign_in(self, key: str | None = None) -> None:
        """With a key, as a cookie: what the sign-in page does is shown in a story of its own."""
        answer = self.context.request.post(
            f"{self.gateway.url}/api/login", headers={"x-api-key": key or self.gateway.key}, data={}
        )
        assert answer.ok, answer.text()

    def go(self, place: str) -> Page:
        """To a place of the console, as by a link."""
        self.page.goto(f"{self.gateway.url}/#{place}")
        return self.page

    def say(self, words: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(words)
        self.page.keyboard.press("Enter")

    def card(self, tool: str) -> Locator:
        """The last card of a call of this tool."""
        return self.page.locator(f'article[aria-label^="{tool}:"]').last

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def close(self) -> None:
        self.context.close()
        assert self.faults == [], self.faults
        assert self.foreign == [], f"the page asked foreign hosts: {self.foreign}"


def printed_link(gateway: RunningGateway) -> str:
    """The link that the gateway prints when it is up; it signs in once."""

    def found() -> str:
        link = re.search(r"(http\S+/#code=\S+)\s", gateway.log)  # the log may end in the middle of it
        return "" if link is None else link[1]

    return eventually(found)
