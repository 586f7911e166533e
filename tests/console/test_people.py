"""People sign in with a real provider in a real browser: the console, the sign-in page, and what holds a frame off."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.scene import ADMIN
from tests.harness.process import RunningGateway, free_port, running_gateway
from tests.provider import RunningProvider, fill_in, running_provider
from tests.requirement import requirement

CONFIG = """
[auth.oidc]
issuer = "{issuer}"
client_id = "gateway"
client_secret = "s3cret"
scopes = ["openid", "profile", "email", "groups"]
name = "Example"
[auth.roles.staff]
groups = ["staff"]
scopes = ["call", "answer"]
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[RunningProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def gateway(provider: RunningProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    port = free_port()
    provider.add_client("gateway", secret="s3cret", redirect_uri=f"http://127.0.0.1:{port}/api/login/oidc/callback")
    folder = tmp_path_factory.mktemp("people")
    config = CONFIG.format(issuer=provider.issuer)
    with running_gateway(folder, config, env={**ADMIN, "JACKFIELD_PORT": str(port)}) as gateway:
        yield gateway


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Of a browser that nobody is signed in with, here or at the provider."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@requirement("ID-people-console")
def test_a_person_signs_in_at_the_console_by_the_provider(page: Page, gateway: RunningGateway) -> None:
    page.goto(f"{gateway.url}/#/tools")
    expect(page.get_by_label("Key")).to_be_visible()
    page.get_by_role("link", name="Sign in with Example").click()
    fill_in(page, "ada")
    expect(page.get_by_role("heading", name="Tools", exact=True)).to_be_visible()
    assert page.url == f"{gateway.url}/#/tools"
    expect(page.get_by_text("Ada Lovelace")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in with Example")).to_be_visible()


@requirement("ID-people-console")
def test_somebody_without_a_role_is_told_so(page: Page, gateway: RunningGateway) -> None:
    page.goto(f"{gateway.url}/sign-in")
    page.get_by_role("link", name="Sign in with Example").click()
    fill_in(page, "eve")
    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("you have no role at this gateway")
    page.get_by_role("link", name="Sign in again").click()
    expect(page.get_by_label("Key")).to_be_visible()


@requirement("ID-people-without-scripts")
def test_the_sign_in_page_works_without_javascript(browser: Browser, gateway: RunningGateway) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{gateway.url}/sign-in?return_to=/healthz")
    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    page.get_by_label("Key").fill(gateway.key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{gateway.url}/healthz")
    page.goto(f"{gateway.url}/sign-in")
    expect(page.get_by_text("You are signed in as admin")).to_be_visible()
    assert page.get_by_role("main").evaluate("node => getComputedStyle(node).borderRadius") == "8px"
    context.close()


@requirement("ID-attack-framed-sign-in")
def test_the_sign_in_page_is_not_shown_in_a_frame(page: Page, gateway: RunningGateway, tmp_path: Path) -> None:
    attack = tmp_path / "attack.html"
    attack.write_text(f'<iframe src="{gateway.url}/sign-in"></iframe>')
    page.goto(attack.as_uri())
    assert page.frames[1].locator("form").count() == 0
    page.goto(f"{gateway.url}/sign-in")
    expect(page.locator("form")).to_have_count(1)


@requirement("CONSOLE-access-people")
def test_an_administrator_sees_who_signed_in_and_signs_them_out(
    browser: Browser, page: Page, gateway: RunningGateway
) -> None:
    page.goto(f"{gateway.url}/#/access/keys")
    page.get_by_role("link", name="Sign in with Example").click()
    fill_in(page, "bob")
    expect(page.get_by_role("status").filter(has_text="lacks the scope admin")).to_be_visible()
    context = browser.new_context()
    context.request.post(f"{gateway.url}/api/login", headers={"x-api-key": gateway.key}, data={})
    admin = context.new_page()
    admin.goto(f"{gateway.url}/#/access/roles")
    role = admin.get_by_role("table", name="Roles").get_by_role("row").filter(has_text="staff").last
    expect(role).to_contain_text("call, answer")
    admin.get_by_role("link", name="People").click()
    row = admin.get_by_role("table", name="People").get_by_role("row").filter(has_text="bob@example.org")
    expect(row).to_contain_text("staff")
    expect(row).to_contain_text("signed in")
    row.get_by_role("button", name="Sign out everywhere").click()
    admin.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
    expect(row).to_contain_text("signed out")
    page.reload()
    expect(page.get_by_role("link", name="Sign in with Example")).to_be_visible()
    context.close()
