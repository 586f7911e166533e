"""Foreign tools behind the doors of a real gateway: held when they change, shown, accepted, at every gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import msgspec
import pytest
from msgspec import Raw

from jackfield.catalog.transactions import get_pin, pin_digests
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Tool, ToolKind
from jackfield.sdk import Client, Conflict, Forbidden
from jackfield.settings import load_settings
from jackfield.sources.base import Invocation, Listing
from tests.harness.api import error_of
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement
from tests.store.intercepting import intercept
from tests.waiting import eventually_async

CONFIG = """\
[auth.keys.caller]
key = "caller-key"
scopes = ["call"]
"""


class ForeignSource:
    """Tools with a definition of their server's, which a test may change."""

    kind: ClassVar[str] = "foreign"
    tool_kind: ClassVar[ToolKind] = ToolKind.MCP
    max_concurrency: int | None = None

    def __init__(self, name: str = "acme", **descriptions: str) -> None:
        self.name = name
        self.descriptions = descriptions

    async def open(self) -> None:
        pass

    async def refresh(self) -> Listing:
        return Listing(tools=tuple(self._tool(name, text) for name, text in self.descriptions.items()))

    def _tool(self, name: str, text: str) -> Tool:
        definition = {"name": name, "description": text, "inputSchema": {"type": "object"}}
        return Tool(source=self.name, name=name, description=text, definition=Raw(msgspec.json.encode(definition)))

    async def execute(self, invocation: Invocation) -> Outcome:
        return done(invocation.tool.description)

    def can_execute(self, tool: Tool) -> bool:
        return tool.name in self.descriptions

    async def close(self) -> None:
        pass


class PinnedGateway:
    """A gateway with one foreign source, and a client with the administrator's key."""

    def __init__(self, gateway: Gateway, client: httpx2.AsyncClient, source: ForeignSource) -> None:
        self.gateway = gateway
        self.client = client
        self.source = source

    async def change(self, **descriptions: str) -> None:
        """The server offers these from now on, and the gateway has seen it."""
        self.source.descriptions = descriptions
        await self.ask("POST", "/api/v1/tools/refresh")

    async def ask(self, method: str, path: str, *, key: str = KEY, status: int = 200, **more: Any) -> Any:
        answer = await self.client.request(method, path, headers={"x-api-key": key}, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.is_success else error_of(answer)

    async def call(self, tool: str, *, status: int = 200) -> Any:
        answer = await self.ask("POST", f"/api/v1/tools/{tool}/execute", json={}, status=status)
        return answer["result"] if status == 200 else answer

    async def tools(self, *, key: str = KEY) -> list[str]:
        return [tool["name"] for tool in (await self.ask("GET", "/api/v1/tools", key=key))["tools"]]

    async def written(self, count: int) -> None:
        """The store has so many pins."""
        await eventually_async(lambda: self._count(count))

    async def _count(self, count: int) -> bool:
        return len(await self.gateway.store.read(pin_digests)) == count


def a_gateway(folder: Path, config: str, store: str) -> Gateway:
    folder.mkdir(exist_ok=True)
    path = folder / "jackfield.toml"
    path.write_text(config, encoding="utf-8")
    return Gateway(load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}))


@asynccontextmanager
async def foreign_source_gateway(
    folder: Path, source: ForeignSource, *, config: str = CONFIG, store: str = "sqlite:///pins.db"
) -> AsyncIterator[PinnedGateway]:
    gateway = a_gateway(folder, config, store)
    gateway._sources.append(source)
    async with gateway, client_of(gateway) as client:
        yield PinnedGateway(gateway, client, source)


CLIENT = {"name": "test", "version": "1"}


class McpTalk:
    """A client of the handshake era, as plain as can be."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._headers = {"x-api-key": KEY, "accept": "application/json"}
        self._number = 0

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        answer = await self._client.post("/mcp", json=message, headers=self._headers)
        if session := answer.headers.get("mcp-session-id"):
            self._headers["mcp-session-id"] = session
        return answer.json()["result"]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[PinnedGateway]:
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Adds.", mail="Mails.")) as api:
        await api.written(2)
        yield api


@requirement("CON-pin-quarantine")
async def test_a_tool_whose_definition_changed_is_held_until_its_diff_is_accepted(api: PinnedGateway) -> None:
    assert await api.call("add") == "Adds."
    await api.change(add="Adds. Then mails what it added.", mail="Mails.")
    assert await api.tools() == ["mail"]
    for path in ("/api/v1/tools/add/execute", "/api/v1/tools/add"):
        method = "POST" if path.endswith("execute") else "GET"
        refused = await api.ask(method, path, status=403)
        assert refused["code"] == "definition_changed"
        assert "'jackfield accept add'" in refused["message"]
    assert await api.call("mail") == "Mails."

    diff = await api.ask("GET", "/api/v1/tools/add/diff")
    assert (diff["name"], diff["source"], diff["held"]) == ("add", "acme", True)
    assert diff["pinned"]["description"] == "Adds."
    assert diff["offered"]["description"] == "Adds. Then mails what it added."
    assert '-  "description": "Adds.",' in diff["diff"]
    assert '+  "description": "Adds. Then mails what it added.",' in diff["diff"]

    accepted = await api.ask("POST", "/api/v1/tools/add/accept")
    assert accepted["accepted"] is True
    assert accepted["tool"]["description"] == "Adds. Then mails what it added."
    assert await api.tools() == ["add", "mail"]
    assert await api.call("add") == "Adds. Then mails what it added."
    pin = await api.gateway.store.read(partial(get_pin, "acme", "add"))
    assert pin is not None
    assert pin.accepted_by == "admin"


async def test_the_change_is_said_in_readiness_to_those_who_may_read(api: PinnedGateway) -> None:
    await api.change(add="Else.", mail="Mails.")
    body = await api.ask("GET", "/readyz")
    assert {source["name"]: source["held"] for source in body["sources"]}["acme"] == ["add"]
    [notice] = body["notices"]
    assert "'jackfield accept acme'" in notice["message"]
    opened = (await api.client.get("/readyz", headers={"x-api-key": ""})).json()
    assert all("held" not in source for source in opened.get("sources", []))


async def test_only_an_administrator_sees_a_change_and_accepts_it(api: PinnedGateway) -> None:
    await api.change(add="Else.", mail="Mails.")
    for method, path in (
        ("GET", "/api/v1/tools/add/diff"),
        ("POST", "/api/v1/tools/add/accept"),
        ("GET", "/api/v1/sources/acme/diff"),
        ("POST", "/api/v1/sources/acme/accept"),
    ):
        assert (await api.ask(method, path, key="caller-key", status=403))["code"] == "forbidden"
    assert await api.tools(key="caller-key") == ["mail"]


async def test_a_change_that_came_after_the_one_that_was_seen_is_not_accepted(api: PinnedGateway) -> None:
    await api.change(add="Second.", mail="Mails.")
    seen = (await api.ask("GET", "/api/v1/tools/add/diff"))["digest"]
    await api.change(add="Third.", mail="Mails.")
    refused = await api.ask("POST", "/api/v1/tools/add/accept", json={"digest": seen}, status=409)
    assert "changed again" in refused["message"]
    assert await api.tools() == ["mail"]
    now = (await api.ask("GET", "/api/v1/tools/add/diff"))["digest"]
    assert (await api.ask("POST", "/api/v1/tools/add/accept", json={"digest": now}))["accepted"] is True


async def test_a_whole_source_is_accepted_at_once_or_not_at_all(api: PinnedGateway) -> None:
    await api.change(add="Two.", mail="Two.")
    changes = (await api.ask("GET", "/api/v1/sources/acme/diff"))["tools"]
    assert [change["name"] for change in changes] == ["add", "mail"]
    digests = {change["name"]: change["digest"] for change in changes}
    await api.change(add="Two.", mail="Three.")
    await api.ask("POST", "/api/v1/sources/acme/accept", json={"digests": digests}, status=409)
    assert await api.tools() == []
    accepted = await api.ask("POST", "/api/v1/sources/acme/accept")
    assert [tool["name"] for tool in accepted["tools"]] == ["add", "mail"]
    assert await api.tools() == ["add", "mail"]
    assert (await api.ask("POST", "/api/v1/sources/acme/accept"))["tools"] == []


async def test_of_a_source_only_what_was_seen_is_accepted(api: PinnedGateway) -> None:
    await api.change(add="Two.", mail="Mails.")
    digests = {"add": (await api.ask("GET", "/api/v1/tools/add/diff"))["digest"]}
    await api.change(add="Two.", mail="Two.")
    await api.ask("POST", "/api/v1/sources/acme/accept", json={"digests": digests})
    assert await api.tools() == ["add"]


async def test_what_is_not_held_or_not_foreign_or_not_there_is_said(api: PinnedGateway) -> None:
    diff = await api.ask("GET", "/api/v1/tools/add/diff")
    assert (diff["held"], diff["diff"], diff["pinned"]) == (False, "", diff["offered"])
    assert (await api.ask("POST", "/api/v1/tools/add/accept"))["accepted"] is False
    await api.ask(
        "POST",
        "/api/v1/tools",
        status=201,
        json={"name": "own", "description": "x", "inputSchema": {}, "executionType": "internal"},
    )
    for method, word in (("GET", "diff"), ("POST", "accept")):
        assert "not a foreign tool" in (await api.ask(method, f"/api/v1/tools/own/{word}", status=404))["message"]
        assert (await api.ask(method, f"/api/v1/tools/none/{word}", status=404))["code"] == "tool_not_found"
        assert "no source 'none'" in (await api.ask(method, f"/api/v1/sources/none/{word}", status=404))["message"]


async def test_pins_outlive_the_gateway_that_wrote_them(tmp_path: Path) -> None:
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Adds.")):
        pass  # what was seen is pinned before the gateway is gone
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Else.")) as api:
        assert await api.tools() == []
        await api.change(add="Adds.")
        assert await api.tools() == ["add"]


async def test_the_operator_may_take_changes_unseen(tmp_path: Path) -> None:
    config = CONFIG + '[sources.acme]\nkind = "files"\npath = "none/*.py"\non_change = "accept"\n'
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Adds."), config=config) as api:
        await api.change(add="Else.")
        assert await api.call("add") == "Else."


async def test_pins_that_cannot_be_read_hold_every_foreign_tool_and_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ForeignSource(add="Adds.")
    async with foreign_source_gateway(tmp_path, source):
        pass
    may_read = asyncio.Event()

    class ForgetfulGateway(Gateway):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            read = self.store.read

            async def digests() -> dict[tuple[str, str], str]:
                if not may_read.is_set():
                    raise OSError("the disk is gone")
                return await read(pin_digests)

            intercept(monkeypatch, self.store, pin_digests, digests)

    monkeypatch.setattr("jackfield.catalog.pinning.FIRST_PAUSE", 0.02)
    monkeypatch.setattr(f"{__name__}.Gateway", ForgetfulGateway)
    async with foreign_source_gateway(tmp_path, source) as api:
        assert await api.tools() == []
        assert (await api.call("add", status=503))["code"] == "unavailable"
        may_read.set()
        await eventually_async(lambda: _offers(api, "add"))
        assert await api.call("add") == "Adds."


async def _offers(api: PinnedGateway, tool: str) -> bool:
    return tool in await api.tools()


async def test_gateways_on_one_database_share_their_pins_and_what_is_accepted(
    tmp_path: Path, postgres_url: str
) -> None:
    one, other = ForeignSource(add="Adds."), ForeignSource(add="Adds.")
    async with (
        foreign_source_gateway(tmp_path / "a", one, store=postgres_url) as a,
        foreign_source_gateway(tmp_path / "b", other, store=postgres_url) as b,
    ):
        await a.written(1)
        for api in (a, b):
            await api.change(add="Else.")
            assert await api.tools() == []
        await a.ask("POST", "/api/v1/tools/add/accept")
        assert await a.tools() == ["add"]
        await eventually_async(lambda: _offers(b, "add"))


async def test_of_two_gateways_that_saw_different_things_first_the_one_that_wrote_first_counts(
    tmp_path: Path, postgres_url: str
) -> None:
    async with foreign_source_gateway(tmp_path / "a", ForeignSource(add="Adds."), store=postgres_url) as a:
        await a.written(1)
        async with foreign_source_gateway(tmp_path / "b", ForeignSource(add="Else."), store=postgres_url) as b:
            assert (await b.tools(), await a.tools()) == ([], ["add"])


async def test_the_sdk_shows_and_accepts(api: PinnedGateway) -> None:
    await api.change(add="Two.", mail="Two.")
    transport = httpx2.ASGITransport(build_app(api.gateway))
    async with Client("http://localhost:8420", KEY, transport=transport) as client:
        change = await client.tools.diff("add")
        assert change.held
        with pytest.raises(Conflict):
            await client.tools.accept("add", "0" * 64)
        assert (await client.tools.accept("add", change.digest)).description == "Two."
        [left] = await client.sources.diff("acme")
        [taken] = await client.sources.accept("acme", {left.name: left.digest})
        assert taken.name == "mail"
    async with Client("http://localhost:8420", "caller-key", transport=transport) as client:
        with pytest.raises(Forbidden):
            await client.tools.diff("add")


async def test_mcp_clients_do_not_see_a_held_tool_and_are_told_why_a_call_is_refused(api: PinnedGateway) -> None:
    await api.change(add="Else.", mail="Mails.")
    client = McpTalk(api.client)
    await client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT})
    listed = await client.ask("tools/list", {})
    assert [tool["name"] for tool in listed["tools"]] == ["mail"]
    called = await client.ask("tools/call", {"name": "add", "arguments": {}})
    assert called["isError"] is True
    assert "is held" in called["content"][0]["text"]
