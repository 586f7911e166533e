"""Definitions that an administrator refuses: held until the source offers something else, or somebody accepts them."""

from pathlib import Path
from typing import Any

import httpx2

from jackfield.catalog.transactions import refused_definitions
from jackfield.gateway.server import build_app
from jackfield.sdk import Client, Conflict
from tests.catalog.test_pins_api import ForeignSource, PinnedGateway, api, foreign_source_gateway
from tests.harness.in_process import KEY
from tests.requirement import requirement
from tests.waiting import eventually_async

__all__ = ["api"]


async def held(api: PinnedGateway) -> list[str]:
    """What waits for a decision."""
    sources = (await api.ask("GET", "/readyz"))["sources"]
    found: list[str] = next(source["held"] for source in sources if source["name"] == "acme")
    return found


async def notices(api: PinnedGateway) -> str:
    return "\n".join(notice["message"] for notice in (await api.ask("GET", "/readyz"))["notices"])


async def audited(api: PinnedGateway) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.ask("GET", "/api/v1/audit?action=definition.refused"))["audit"]
    return found


@requirement("OPS-definitions-refused")
async def test_what_is_refused_stays_held_and_waits_for_nobody_until_the_source_offers_something_else(
    api: PinnedGateway,
) -> None:
    await api.change(add="Adds, and mails it.", mail="Mails.")
    seen = (await api.ask("GET", "/api/v1/tools/add/diff"))["digest"]
    assert await held(api) == ["add"]
    refused = await api.ask("POST", "/api/v1/sources/acme/refuse", json={"digests": {"add": seen}})
    assert refused == {"source": "acme", "tools": ["add"], "prompts": [], "templates": []}

    assert await held(api) == []
    assert await notices(api) == ""
    assert await api.tools() == ["mail"]
    answer = await api.call("add", status=403)
    assert (answer["code"], "an administrator refused" in answer["message"]) == ("definition_changed", True)
    [change] = (await api.ask("GET", "/api/v1/sources/acme/diff"))["tools"]
    assert (change["held"], change["refused_by"], change["digest"]) == (True, "admin", seen)
    assert change["refused_at"] is not None
    [entry] = await audited(api)
    assert (entry["subject"], entry["actor"], entry["after"]) == ("acme:add", "admin", {"sha256": seen})
    assert entry["before"]["sha256"] != seen
    for path in ("/api/v1/sources/acme/refuse", "/api/v1/sources/acme/accept"):
        assert (await api.ask("POST", path))["tools"] == [], "nothing waits"

    await api.change(add="Adds, and deletes it.", mail="Mails.")
    assert await held(api) == ["add"]
    assert "'jackfield accept acme'" in await notices(api)
    assert "'jackfield accept add'" in (await api.call("add", status=403))["message"]
    await api.change(add="Adds.", mail="Mails.")
    assert await api.call("add") == "Adds."
    await api.change(add="Adds, and mails it.", mail="Mails.")
    assert (await api.tools(), await held(api)) == (["mail"], [])

    accepted = await api.ask("POST", "/api/v1/tools/add/accept", json={"digest": seen})
    assert accepted["accepted"] is True
    assert await api.call("add") == "Adds, and mails it."
    assert await api.gateway.store.read(refused_definitions) == {}


@requirement("OPS-definitions-refused")
async def test_only_what_was_seen_is_refused_and_only_by_administrators(api: PinnedGateway) -> None:
    await api.change(add="Two.", mail="Two.")
    for path in ("/api/v1/sources/acme/refuse", "/api/v1/tools/add/refuse"):
        assert (await api.ask("POST", path, key="caller-key", status=403))["code"] == "forbidden"
    conflict = await api.ask("POST", "/api/v1/tools/add/refuse", json={"digest": "0" * 64}, status=409)
    assert "changed again" in conflict["message"]
    await api.ask("POST", "/api/v1/sources/acme/refuse", json={"digests": {"add": "0" * 64}}, status=409)
    assert (await api.ask("POST", "/api/v1/tools/add/refuse")) == {"tool": "add", "refused": True}
    assert await held(api) == ["mail"]
    assert [tool["name"] for tool in (await api.ask("POST", "/api/v1/sources/acme/accept"))["tools"]] == ["mail"]
    assert await api.tools() == ["mail"]
    assert (await api.ask("POST", "/api/v1/tools/mail/refuse")) == {"tool": "mail", "refused": False}
    await api.ask("POST", "/api/v1/sources/nowhere/refuse", status=404)
    await api.ask("POST", "/api/v1/tools/nothing/refuse", status=404)

    transport = httpx2.ASGITransport(app=build_app(api.gateway))
    async with Client("http://localhost:8420", KEY, transport=transport) as client:
        await api.change(add="Three.", mail="Three.")
        [add, mail] = await client.sources.diff("acme")
        try:
            await client.sources.refuse("acme", {add.key: mail.digest})
        except Conflict:
            await client.sources.refuse("acme", {add.key: add.digest})
        await client.tools.refuse("mail", mail.digest)
        assert [change.refused_by for change in await client.sources.diff("acme")] == ["admin", "admin"]


@requirement("OPS-definitions-refused")
async def test_a_new_tool_is_refused_too_and_stays_so_after_a_restart(tmp_path: Path) -> None:
    config = '[sources.acme]\nkind = "files"\npath = "none/*.py"\non_new = "hold"\n'
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Adds."), config=config) as api:
        await api.written(1)
        await api.change(add="Adds.", late="Comes later.")
        assert await held(api) == ["late"]
        await api.ask("POST", "/api/v1/sources/acme/refuse")
        assert (await held(api), await api.tools()) == ([], ["add"])
        [entry] = await audited(api)
        assert entry["before"] is None
    source = ForeignSource(add="Adds.", late="Comes later.")
    async with foreign_source_gateway(tmp_path, source, config=config) as api:
        assert (await held(api), await api.tools()) == ([], ["add"])
        await api.ask("POST", "/api/v1/tools/late/accept")
        assert await api.tools() == ["add", "late"]


@requirement("OPS-definitions-refused")
async def test_what_one_gateway_refuses_is_refused_at_every_other(tmp_path: Path, postgres_url: str) -> None:
    one, other = ForeignSource(add="Adds."), ForeignSource(add="Adds.")
    async with (
        foreign_source_gateway(tmp_path / "a", one, store=postgres_url) as a,
        foreign_source_gateway(tmp_path / "b", other, store=postgres_url) as b,
    ):
        await a.written(1)
        for api in (a, b):
            await api.change(add="Adds more.")
        await a.ask("POST", "/api/v1/sources/acme/refuse")

        async def knows() -> bool:
            return await held(b) == []

        await eventually_async(knows)
        assert (await b.ask("GET", "/api/v1/tools/add/diff"))["refused_by"] == "admin"
