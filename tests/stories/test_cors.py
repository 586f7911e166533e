"""A page of another origin in a real browser: it calls tools with a key, and gets nothing by the visitor's login."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Page

from tests.console.visitor import chromium
from tests.harness.process import running_gateway
from tests.requirement import requirement

KEY = "key-of-the-page-0123456789"
TRY = """
async ([url, method, headers, body, credentials]) => {
  try {
    const answer = await fetch(url, { method, headers, body, credentials });
    return [answer.status, await answer.text(), answer.headers.get('mcp-session-id') ?? ''];
  } catch (fault) {
    return [0, String(fault), ''];
  }
}
"""


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>An app</title>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        pass


@contextmanager
def blank_site() -> Iterator[str]:
    """A site of its own origin; its url."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Blank) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def fetched(
    page: Page, url: str, *, headers: dict[str, str], body: str | None = None, credentials: str = "same-origin"
) -> tuple[int, str, str]:
    status, text, session = page.evaluate(TRY, [url, "POST" if body else "GET", headers, body, credentials])
    return status, text, session


def assert_the_reference_works(page: Page, url: str) -> None:
    """Its script runs under its own policy, and it asks for nothing but itself."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{url}/docs#list_calls")
    assert page.locator("#list_calls[open]").count() == 1
    page.fill("#filter", "connections source")
    assert page.inner_text("#found").endswith(" found")
    assert page.locator("#list_connections").is_visible()
    assert not page.locator("#list_calls").is_visible()
    page.fill("#filter", "")
    assert page.locator("#list_calls").is_visible()
    assert {address.partition("#")[0] for address in asked} <= {f"{url}/docs", f"{url}/favicon.ico"}


@requirement("OPS-CORS", "OPS-DOCS-page")
def test_an_app_in_a_browser_uses_the_gateway_with_a_key_and_no_other_page_does(tmp_path: Path) -> None:
    with blank_site() as app, blank_site() as stranger, chromium() as browser:
        config = f'[server]\ncors_origins = ["{app}"]\n[sources.local]\nkind = "files"\npath = "add.py"\n'
        files = {"add.py": 'def add(a: int) -> int:\n    """Adds one."""\n    return a + 1\n'}
        with running_gateway(tmp_path, config, env={"JACKFIELD_ADMIN_KEY": KEY}, files=files) as gateway:
            context = browser.new_context()
            signed_in = context.new_page()
            assert_the_reference_works(signed_in, gateway.url)
            answer = signed_in.request.post(f"{gateway.url}/api/login", headers={"x-api-key": KEY})
            assert answer.ok
            assert context.cookies()
            execute, json = f"{gateway.url}/api/v1/tools/add/execute", {"content-type": "application/json"}
            body = '{"arguments": {"a": 1}}'
            with_key = {**json, "authorization": f"Bearer {KEY}"}

            page = context.new_page()
            page.goto(app)
            status, text, _ = fetched(page, execute, headers=with_key, body=body)
            assert (status, '"result":2' in text) == (200, True)
            hello = (
                '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", '
                '"capabilities": {}, "clientInfo": {"name": "app", "version": "1"}}}'
            )
            mcp = {**with_key, "accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
            status, _, session = fetched(page, f"{gateway.url}/mcp", headers=mcp, body=hello)
            assert status == 200
            assert session
            # The login of the visitor is not the page's: not by itself, and not when the page asks for it.
            assert fetched(page, execute, headers=json, body=body)[0] == 401
            for credentials in ("same-origin", "include"):
                assert fetched(page, f"{gateway.url}/api/v1/keys", headers={}, credentials=credentials)[0] in (401, 0)

            page.goto(stranger)
            assert fetched(page, execute, headers=with_key, body=body)[0] == 0
            assert fetched(page, f"{gateway.url}/api/v1/tools", headers={}, credentials="include")[0] == 0
