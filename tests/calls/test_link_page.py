"""The page behind an approval link: all of what will run, no decision by opening it, and once."""

import html
import re
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from msgspec import Raw

from jackfield.calls.link_page import shown_json
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement

CONFIG = """
[[tools]]
name = "pay"
description = "Pays."
executionType = "external"
isAsync = true
inputSchema = { type = "object" }
[tools.metadata]
requires_approval = true

[[tools]]
name = "confirm"
description = "Asks."
executionType = "external"
isAsync = true
inputSchema = { type = "object" }
"""
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "x-api-key": ""}
HOSTILE: dict[str, Any] = {
    "to": "</pre><script>alert(1)</script><img src=x onerror=alert(2)>",
    "\u202eeman": "\u200bhidden\u0000\x1b[2J\U000e0041",
    "lines": "a\nb",
    "long": "x" * 50_000 + "END",
    "deep": {"list": [None, True, 1e300, 12345678901234567890, ""]},
}


async def asked(client: httpx2.AsyncClient, **arguments: Any) -> tuple[str, str]:
    """The call's id, and the path of its approval link."""
    answer = await client.post("/api/v1/tools/pay/execute", json={"arguments": arguments})
    call_id = str(answer.json()["call_id"])
    url = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]["approval_url"]
    return call_id, url[url.index("/api/") :]


async def status(client: httpx2.AsyncClient, call_id: str) -> str:
    return str((await client.get(f"/api/v1/calls/{call_id}")).json()["call"]["status"])


@requirement("OPS-approval-page")
async def test_the_page_shows_who_asks_and_all_arguments_and_decides_nothing(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        call_id, path = await asked(client, **HOSTILE)
        for _ in range(2):
            answer = await client.get(path, headers=BROWSER)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert "script-src" not in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        text = answer.text
        assert "<script" not in text
        assert "<img" not in text
        shown = re.search(r"<pre[^>]*>(.*)</pre>", text, re.DOTALL)
        assert shown is not None
        assert msgspec.json.decode(html.unescape(shown[1])) == HOSTILE
        assert shown[1].replace("\n", "").isprintable()
        assert re.search(r"In the name of</dt><dd>admin<", text)
        assert re.search(r"Waits since</dt><dd>\d{4}-\d\d-\d\d [\d:]{8} UTC<", text)
        assert re.search(r"Waits until</dt><dd>\d{4}-\d\d-\d\d [\d:]{8} UTC<", text)
        assert call_id in text
        assert await status(client, call_id) == "pending_approval"


@pytest.mark.parametrize(("decision", "becomes"), [("approve", "pending"), ("reject", "rejected")])
@requirement("OPS-approval-page")
async def test_the_form_decides_once_and_the_link_then_says_so(tmp_path: Path, decision: str, becomes: str) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        call_id, path = await asked(client, amount=7)
        form = {"decision": decision, "reason": "Too <much>"}
        assert (await client.post(path, data={"decision": "maybe"}, headers=BROWSER)).status_code == 400
        assert await status(client, call_id) == "pending_approval"
        answer = await client.post(path, data=form, headers=BROWSER)
        assert answer.status_code == 200
        assert "<form" not in answer.text
        assert await status(client, call_id) == becomes
        record = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]
        assert record["decided_by"] == "signed link"
        other = {"approve": "reject", "reject": "approve"}[decision]
        for again in (
            await client.get(path, headers=BROWSER),
            await client.post(path, data={"decision": other}, headers=BROWSER),
        ):
            assert "This link has been used" in again.text
            assert f"It was {decision}{'d' if decision == 'approve' else 'ed'} by signed link" in again.text
            assert "<form" not in again.text
        assert await status(client, call_id) == becomes


async def test_a_link_that_is_not_ours_or_was_changed_is_refused_with_a_page(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        _, path = await asked(client)
        for wrong in (path[:-1] + ("0" if path[-1] != "0" else "1"), "/api/v1/callbacks/x"):
            answer = await client.get(wrong, headers=BROWSER)
            assert answer.status_code == 404
            assert answer.headers["content-type"].startswith("text/html")


async def test_programs_still_get_and_send_json(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        call_id, path = await asked(client, amount=7)
        assert (await client.get(path)).json()["arguments"] == {"amount": 7}
        assert (await client.post(path, json={"approve": True})).json()["success"] is True
        assert await status(client, call_id) == "pending"


async def test_the_link_of_an_answer_leads_a_browser_to_the_console(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        answer = await client.post("/api/v1/tools/confirm/execute", json={"arguments": {}})
        call_id = answer.json()["call_id"]
        url = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]["callback_url"]
        answer = await client.get(url[url.index("/api/") :], headers=BROWSER)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/#/answer/{url.rpartition('/')[2]}"


def test_json_is_shown_as_it_will_run() -> None:
    assert shown_json(Raw(b'{"a":1,"a":2}')).markup == "{\n  &quot;a&quot;: 2\n}\n"
