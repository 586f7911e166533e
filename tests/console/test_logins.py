"""A call that waits for a login is a card: who may log in has the button, others see whom it waits for."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
from playwright.sync_api import expect

from tests.console.scene import ADMIN, HUSAM_KEY, MIA_KEY, get
from tests.console.visitor import Visitor
from tests.harness.process import running_gateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]
SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "Books", "version": "1"},
    "paths": {"/books": {"get": {"operationId": "list_books", "responses": {"200": {"description": "Books"}}}}},
}
CONFIG = f"""
[auth.keys.husam]
key = "{HUSAM_KEY}"
scopes = ["call", "answer"]
[auth.keys.mia]
key = "{MIA_KEY}"
scopes = ["call", "answer"]
[outgoing]
allow = ["127.0.0.1"]
[sources.library]
kind = "openapi"
file = "books.json"
base_url = "http://127.0.0.1:9"
auth = "user"
"""


@requirement("ID-login-card")
def test_who_may_log_in_gets_the_button_and_others_see_whom_the_call_waits_for(visit: Visit, tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files={"books.json": json.dumps(SPEC)}, env=ADMIN) as gateway:
        husam, mia = visit(HUSAM_KEY, gateway=gateway), visit(MIA_KEY, gateway=gateway)
        for person in (husam, mia):
            person.go("/waiting")
        path = f"{gateway.url}/api/v1/tools/list_books/execute"
        made = httpx2.post(path, json={"arguments": {}}, headers={"x-api-key": HUSAM_KEY}, timeout=30)
        assert made.status_code == 202, made.text
        (call,) = get(gateway, "/api/v1/calls?status=pending_login")["calls"]
        ours, theirs = husam.card("list_books"), mia.card("list_books")
        expect(ours.locator(".state-word")).to_have_text("needs your login")
        expect(ours).to_contain_text("library wants a login")
        expect(ours).to_contain_text("23 h")  # until the call expires, not until its tool's own deadline
        link = ours.get_by_role("link", name="Log in")
        expect(link).to_have_attribute("href", f"{gateway.url}/connect/{call['id']}")
        expect(theirs.locator(".state-word")).to_have_text("waiting for a login")
        expect(theirs).to_contain_text("The call waits for husam.")
        expect(theirs.get_by_role("link", name="Log in")).to_have_count(0)
        with husam.context.expect_page() as opened:
            link.click()
        expect(opened.value.locator("body")).to_contain_text("library")
        opened.value.close()
        theirs.get_by_role("button", name="Reject").click()
        for person in (husam, mia):
            expect(person.page.get_by_text("Nothing to answer")).to_be_visible()
        (ended,) = get(gateway, "/api/v1/calls?status=rejected")["calls"]
        assert (ended["id"], ended["decided_by"]) == (call["id"], "mia")
