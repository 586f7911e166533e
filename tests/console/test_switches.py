"""The console says whose switch has turned a tool off, and an administrator sets the one for everybody there."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.console.scene import ADMIN
from tests.harness.process import running_gateway
from tests.requirement import requirement

GUEST = "guest-key-0123456789"
CONFIG = f"""
[auth.keys.guest]
key = "{GUEST}"

[sources.local]
kind = "files"
path = "tools.py"
"""


@requirement("OPS-switches")
def test_off_for_everybody_and_off_for_you(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text('def greet() -> str:\n    """Greets."""\n    return "hello"\n')
    with running_gateway(tmp_path, CONFIG, env=ADMIN) as gateway:
        pages = []
        for key in (ADMIN["JACKFIELD_ADMIN_KEY"], GUEST):
            page = browser.new_context().new_page()
            page.goto(f"{gateway.url}/#/tools/greet")
            page.get_by_label("Key").fill(key)
            page.get_by_label("Key").press("Enter")
            pages.append(page)
        admin, guest = pages
        guest.get_by_label("enabled for you").click()
        expect(guest.get_by_text("off for you", exact=True)).to_be_visible()
        expect(guest.get_by_role("button", name="Switch off for everybody")).to_have_count(0)

        admin.get_by_label("Reason").fill("wrong amounts")
        admin.get_by_role("button", name="Switch off for everybody").click()
        expect(admin.get_by_role("status").filter(has_text="Off for everybody, by admin")).to_contain_text(
            "wrong amounts"
        )
        guest.reload()
        expect(guest.get_by_role("status").filter(has_text="Off for everybody, by admin")).to_be_visible()

        admin.get_by_role("button", name="Switch on for everybody").click()
        expect(admin.get_by_role("button", name="Switch off for everybody")).to_be_visible()
        guest.reload()
        expect(guest.get_by_text("off for you", exact=True)).to_be_visible()
        for page in pages:
            page.context.close()
