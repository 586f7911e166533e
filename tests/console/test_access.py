"""Keys, groups and the audit log in the console."""

import re
import subprocess
from collections.abc import Callable

import httpx2
from playwright.sync_api import Page, expect

from tests.console.operator_scene import MARKUP, assert_unharmed, expect_done
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]


def curl(gateway: RunningGateway, key: str, path: str = "/api/v1/tools") -> str:
    """The status, as a program on the command line gets it."""
    given = f'header = "x-api-key: {key}"\nurl = "{gateway.url}{path}"\n'
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--config", "-"]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=60).stdout


def new_key(page: Page) -> str:
    shown = page.get_by_role("region", name="The new key")
    expect(shown).to_contain_text("it is not shown again")
    return shown.get_by_label("Key", exact=True).inner_text().strip()


@requirement("CONSOLE-access-keys")
def test_a_key_made_here_works_until_it_is_revoked(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/access")
    page.get_by_role("button", name="Create a key").click()
    form = page.get_by_role("dialog", name="Create a key")
    form.get_by_label("Name").fill("ci")
    form.get_by_label("Only some groups").check()
    form.get_by_label("The groups").fill("nowhere")
    form.get_by_label("It expires").select_option(label="in a day")
    form.get_by_role("button", name="Create key").click()
    expect(form.get_by_role("alert")).to_contain_text("nowhere")
    form.get_by_label("The groups").fill("dice")
    form.get_by_role("button", name="Create key").click()
    key = new_key(page)
    assert curl(operated, key) == "200"
    assert curl(operated, key, "/api/v1/keys") == "403"
    page.get_by_role("button", name="Done").click()
    row = page.get_by_role("table", name="Keys").get_by_role("row").filter(has_text="ci")
    expect(row).to_contain_text("groups dice")
    assert key not in page.content()

    row.get_by_role("link").click()
    expect(page.get_by_role("link", name="Its calls")).to_have_attribute("href", "#/calls?principal=ci")
    page.get_by_role("button", name="Rotate").click()
    page.get_by_label("The old key ends").select_option(label="at once")
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    newer = new_key(page)
    assert curl(operated, newer) == "200"
    assert curl(operated, key) == "401"
    page.get_by_role("button", name="Close").click()

    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect_done(page, "Key ci revoked")
    assert curl(operated, newer) == "401"
    expect(page.get_by_role("table", name="Keys")).to_be_visible()
    expect(page.get_by_role("table", name="Keys")).not_to_contain_text("groups dice")


@requirement("CONSOLE-access-groups")
def test_a_group_is_made_changed_and_deleted(visit: Visit, operated: RunningGateway) -> None:
    page = visit(gateway=operated).go("/access/groups")
    expect(page.get_by_role("table", name="Groups")).to_contain_text("<img src=x")
    page.get_by_role("button", name="Create a group").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("trip")
    form.get_by_label("Tools").fill("nothing_*\nlocal:*")
    form.get_by_label("Instructions").fill(f"Roll before you go. {MARKUP}")
    form.get_by_role("button", name="Save group").click()
    expect_done(page, "Group trip made")
    expect(page.get_by_label("MCP address", exact=True)).to_have_text(f"{operated.url}/mcp/trip")
    expect(page.get_by_role("link", name="roll")).to_be_visible()
    expect(page.get_by_text("Roll before you go. <img")).to_be_visible()
    assert_unharmed(page)
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Tools").fill("nothing_*")
    page.get_by_role("dialog").get_by_role("button", name="Save group").click()
    expect_done(page, "Group trip changed")
    expect(page.get_by_text("No tool that you see is in it now.")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect_done(page, "Group trip deleted")
    asked = httpx2.post(f"{operated.url}/mcp/trip", headers=operated.headers, json={})
    assert asked.status_code == 404


@requirement("CONSOLE-access-audit")
def test_the_audit_log_is_filtered_read_and_verified(visit: Visit, operated: RunningGateway) -> None:
    for tools in (["roll"], ["roll", MARKUP]):
        body = {"tools": tools, "description": f"of {len(tools)}"}
        httpx2.put(f"{operated.url}/api/v1/groups/audited", headers=operated.headers, json=body).raise_for_status()
    tool = {"name": MARKUP, "description": "x", "execution_type": "internal", "input_schema": {"type": "object"}}
    made = httpx2.post(f"{operated.url}/api/v1/tools", headers=operated.headers, json=tool)
    assert made.status_code == 201, made.text
    page = visit(gateway=operated).go("/access/audit?action=tool.*")
    log = page.get_by_role("list", name="Audit log")
    expect(log.locator("li").filter(has_text="tool.created").first).to_contain_text("<img src=x")
    expect(log).not_to_contain_text("login.created")
    page.get_by_label("What").select_option("group.*")
    assert page.url.endswith("#/access/audit?action=group.*")
    changed = log.locator("li").filter(has_text="group.changed").filter(has_text="audited").first
    changed.locator("summary").click()
    expect(changed.get_by_label("Before and after").locator(".removed").first).to_contain_text("of 1")
    expect(changed.get_by_label("Before and after").locator(".added").filter(has_text="<img src=x")).to_be_visible()
    assert_unharmed(page)
    page.get_by_label("Who", exact=True).fill("nobody")
    expect(page.get_by_role("heading", name="No entries")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(log.locator("li").first).to_be_visible()
    with page.expect_download() as export:
        page.get_by_role("link", name="Export").click()
    assert "tool.created" in export.value.path().read_text(encoding="utf-8")
    page.get_by_role("button", name="Verify the log").click()
    expect(page.get_by_role("status").filter(has_text="intact")).to_contain_text(re.compile(r"\d+ entries in 1 chain"))
    httpx2.delete(f"{operated.url}/api/v1/tools/{made.json()['tool']['name']}", headers=operated.headers)
    eventually(lambda: page.get_by_text("tool.deleted").count() > 0)
