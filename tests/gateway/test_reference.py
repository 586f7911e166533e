"""`GET /docs`: the HTTP reference as a page."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from jackfield.gateway.reference import reference_page
from jackfield.http.openapi import openapi_document
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement
from tests.routes import ROUTES


class Page(HTMLParser):
    """Ids, links, texts of scripts and styles, and what is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.handlers: list[str] = []
        self.inside: dict[str, str] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        if "href" in given:
            (self.links if tag == "a" else self.loaded).append(given["href"] or "")
        self.loaded += [given["src"] or ""] if "src" in given else []
        self._open = tag

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style"):
            self.inside[self._open] = self.inside.get(self._open, "") + data

    def handle_endtag(self, _tag: str) -> None:
        self._open = ""


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@requirement("OPS-DOCS-page")
async def test_the_reference_needs_no_key_and_nothing_of_other_hosts(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (_, client):
        document: dict[str, Any] = (await client.get("/openapi.json")).json()
        del client.headers["x-api-key"]
        answer = await client.get("/docs")
        plain = await client.get("/docs", headers={"accept-encoding": "identity"})
        refused = await client.get("/openapi.json")
    assert answer.status_code == plain.status_code == 200
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text == plain.text
    assert refused.status_code == 401
    page = Page(answer.text)
    assert page.loaded == page.handlers == []
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest(page.inside['script'])}'" in policy
    assert f"style-src 'sha256-{digest(page.inside['style'])}'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "://" not in answer.text.replace("$URL", "")
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert len(operations) > 100
    assert {operation["operationId"] for operation in operations} <= set(page.ids)
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= set(page.ids)


@requirement("OPS-DOCS-page")
def test_every_link_of_the_reference_leads_somewhere() -> None:
    page = Page(reference_page(openapi_document(ROUTES)))
    assert len(set(page.ids)) == len(page.ids)
    assert {link for link in page.links if link[0] != "#"} == {"/openapi.json"}
    assert {link[1:] for link in page.links if link[0] == "#"} <= set(page.ids)


def test_text_of_the_document_is_text_on_the_page() -> None:
    document = openapi_document(ROUTES)
    operation = document["paths"]["/healthz"]["get"]
    operation["summary"] = "<script>alert(1)</script>"
    document["components"]["schemas"]["Alive"]["properties"]["status"]["description"] = "<img src=x onerror=y>"
    page = reference_page(document)
    assert "<script>alert" not in page
    assert re.search("<img", page) is None
