"""Other people's MCP clients log in to `/mcp`: OAuth at the gateway, sign-in at an OpenID Provider, in a real browser.

One gateway, one provider and one Chromium for all. Each program opens the browser in its own way, somebody signs in and
consents there, and the program lists the tools and calls one in their name.
"""

import asyncio
import os
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from tests.console.visitor import chromium
from tests.harness.process import RunningGateway, clean_environment, free_port, running_gateway
from tests.provider import RunningProvider, fill_in, program, running_provider
from tests.requirement import requirement
from tests.waiting import eventually

T = TypeVar("T")

pytestmark = pytest.mark.timeout(180)

SECRET = "secret-of-the-gateway"
CONFIG = """\
[auth.oidc]
issuer = "{issuer}"
client_id = "gateway"
client_secret = "{secret}"
name = "Example login"

[auth.roles.staff]
groups = ["staff"]
scopes = ["call"]

[sources.local]
kind = "files"
path = "tools/*.py"
"""
TOOLS = '''\
def echo(text: str) -> str:
    """Say the text again."""
    return text
'''
PROGRAM_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A gateway that signs people in by a provider, and a browser."""

    gateway: RunningGateway
    provider: RunningProvider
    browser: Browser

    @property
    def mcp(self) -> str:
        return f"{self.gateway.url}/mcp"

    def callers(self) -> set[str]:
        """In whose names tools were called."""
        answer = httpx2.get(f"{self.gateway.url}/api/v1/calls", headers=self.gateway.headers)
        return {call["principal"] for call in answer.json()["calls"]}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    port = free_port()
    with running_provider() as provider, chromium() as browser:
        provider.add_client("gateway", secret=SECRET, redirect_uri=f"http://127.0.0.1:{port}/api/login/oidc/callback")
        config = CONFIG.format(issuer=provider.issuer, secret=SECRET)
        folder = tmp_path_factory.mktemp("gateway")
        env = {"JACKFIELD_PORT": str(port)}
        with running_gateway(folder, config, env=env, files={"tools/echo.py": TOOLS}) as gateway:
            yield Scene(gateway=gateway, provider=provider, browser=browser)


@pytest.fixture
def page(scene: Scene) -> Iterator[Page]:
    """A page of somebody who is signed in nowhere yet."""
    context = scene.browser.new_context()
    context.set_default_timeout(30_000)
    yield context.new_page()
    context.close()


def sign_in_and_consent(page: Page, sub: str, *, until: str) -> None:
    """From the consent page's address through the provider's form, back, and on to where the client waits."""

    def moved_on() -> bool:
        if page.url.startswith(until):
            return True
        with suppress(PlaywrightError):  # the page was just left
            if page.locator("input[name=login]").count():
                fill_in(page, sub)
            elif page.get_by_text("Sign in with Example login").count():
                page.get_by_text("Sign in with Example login").click()
            elif page.get_by_role("button", name="Allow").count():
                assert f"user:{sub}" in page.inner_text("body")
                page.get_by_role("button", name="Allow").click()
        return False

    eventually(moved_on, within=PROGRAM_SECONDS, what=lambda: f"{page.url}: {page.inner_text('body')}")


@contextmanager
def beside(run: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Run something in a thread, because the browser has this one; calling what comes back waits for its result."""
    done: queue.Queue[T | BaseException] = queue.Queue()

    def kept() -> None:
        try:
            done.put(run())
        except BaseException as fault:  # noqa: BLE001 - it is raised where it is waited for
            done.put(fault)

    thread = threading.Thread(target=kept, daemon=True)
    thread.start()

    def result() -> T:
        got = done.get(timeout=PROGRAM_SECONDS)
        if isinstance(got, BaseException):
            raise got
        return got

    yield result
    thread.join(PROGRAM_SECONDS)


async def list_and_call(client: Client) -> tuple[list[str], str]:
    """What a client is for."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    (block,) = (await client.call_tool("echo", {"text": "hello"})).content
    return names, str(getattr(block, "text", block))


class Kept(TokenStorage):
    """What the SDK's client keeps, for one run."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


@requirement("ID-oauth-python-sdk")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_python_sdks_client_logs_in_lists_and_calls(scene: Scene, page: Page, mode: str) -> None:
    here = f"http://127.0.0.1:{free_port()}/callback"
    opened: queue.Queue[str] = queue.Queue()
    back: queue.Queue[str] = queue.Queue()

    async def on_redirect(url: str) -> None:
        opened.put(url)

    async def on_callback() -> AuthorizationCodeResult:
        query = httpx2.URL(await asyncio.to_thread(back.get, timeout=PROGRAM_SECONDS)).params
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query["iss"])

    metadata = OAuthClientMetadata.model_validate({"client_name": "the Python SDK", "redirect_uris": [here]})
    login = OAuthClientProvider(
        server_url=scene.mcp,
        client_metadata=metadata,
        storage=Kept(),
        redirect_handler=on_redirect,
        callback_handler=on_callback,
    )

    async def use() -> tuple[list[str], str]:
        http = httpx2.AsyncClient(auth=login, timeout=PROGRAM_SECONDS)
        async with http, Client(streamable_http_client(scene.mcp, http_client=http), mode=mode) as client:
            return await list_and_call(client)

    page.route(f"{here}**", lambda route: route.fulfill(body="Back at the program."))
    with beside(lambda: asyncio.run(use())) as result:
        page.goto(opened.get(timeout=PROGRAM_SECONDS))
        sign_in_and_consent(page, "ada", until=here)
        back.put(page.url)
        assert result() == (["echo"], "hello")
    assert scene.callers() == {"user:ada"}


@requirement("ID-oauth-mcp-remote")
def test_mcp_remote_logs_in_lists_and_calls(scene: Scene, page: Page, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    shim = tmp_path / "bin" / "xdg-open"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {opened}.part && mv {opened}.part {opened}\n', encoding="utf-8")
    shim.chmod(0o755)
    env = {
        "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}",
        "BROWSER": str(shim),
        "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "kept"),
    }
    server = StdioServerParameters(
        command="node",
        args=[str(program("mcp-remote/dist/proxy.js")), scene.mcp, str(port := free_port()), "--allow-http"],
        env=clean_environment(env),
    )

    async def use() -> tuple[list[str], str]:
        async with Client(server, mode="legacy") as client:
            return await list_and_call(client)

    with beside(lambda: asyncio.run(use())) as result:
        eventually(opened.exists, within=PROGRAM_SECONDS)
        page.goto(opened.read_text(encoding="utf-8"))
        sign_in_and_consent(page, "ada", until=f"http://localhost:{port}/")
        assert result() == (["echo"], "hello")
    assert scene.callers() == {"user:ada"}


@contextmanager
def inspector(url: str, folder: Path) -> Iterator[str]:
    """MCP Inspector's web client with one server in its list; where it is."""
    port = free_port()
    env = {
        "HOME": str(folder),
        "CLIENT_PORT": str(port),
        "MCP_SANDBOX_PORT": str(free_port()),
        "MCP_APP_ORIGIN_PORT": str(free_port()),
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_SECRET_STORE": "memory",
        "DANGEROUSLY_OMIT_AUTH": "true",
    }
    launcher = program("@modelcontextprotocol/inspector/clients/launcher/build/index.js")
    out = folder / "inspector.out"
    with out.open("wb") as said:
        process = subprocess.Popen(
            ["node", str(launcher), "--web", "--transport", "http", "--server-url", url],
            env=clean_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        eventually(lambda: f"http://127.0.0.1:{port}" in out.read_text(encoding="utf-8"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(10)


@requirement("ID-oauth-inspector")
def test_mcp_inspector_logs_in_lists_and_calls(scene: Scene, page: Page, tmp_path: Path) -> None:
    with inspector(scene.mcp, tmp_path) as url:
        page.goto(url)
        page.locator("label:has(input[role=switch])").first.click()
        page.wait_for_url(re.compile(re.escape(scene.gateway.url)))
        sign_in_and_consent(page, "ada", until=url)
        page.get_by_text("Tools", exact=True).first.click()
        page.get_by_text("echo", exact=True).first.click()
        page.get_by_role("textbox", name="text").fill("hello from the Inspector")
        page.get_by_role("button", name="Execute Tool").click()
        expect(page.get_by_text("hello from the Inspector").last).to_be_visible()

        def called() -> list[Any]:
            answer = httpx2.get(f"{scene.gateway.url}/api/v1/calls", headers=scene.gateway.headers)
            return [call for call in answer.json()["calls"] if call["result"] == "hello from the Inspector"]

        assert [call["principal"] for call in eventually(called)] == ["user:ada"]
