"""Servers whose resources and prompts mean us no good: too many, without end, named so that nobody should see them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.base import Listing
from jackfield.sources.foreign import MAX_URI
from jackfield.sources.mcp import list_pages, subscriptions
from jackfield.sources.mcp.handlers import updated_uri
from jackfield.sources.mcp.offers import MAX_OFFERS, MAX_TEMPLATES
from jackfield.sources.mcp.reading import completion_of
from jackfield.sources.mcp.subscriptions import MOST_PARTS, ResourceSubscriptions
from jackfield.sources.mcp.transport import McpClientError
from tests.requirement import requirement
from tests.sources.mcp.scene import raw_json, scene
from tests.sources.mcp.test_http import Server, said
from tests.sources.upstream import Received, Upstream, reply
from tests.waiting import eventually_async

Answers = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Upstream() as upstream:
        yield Server(upstream)


async def listing_of(server: Server, folder: Path, answers: Answers) -> Listing:
    """What the source makes of a server that answers so; lists that are not named are empty."""
    plain = server.answer

    def answer(request: Received) -> Any:
        message = msgspec.json.decode(request.body) if request.method == "POST" else {}
        method, params = message.get("method", ""), message.get("params") or {}
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES}
            body = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
            return reply(200, body, content_type="application/json", mcp_session_id="s1")
        if method in answers:
            return said(message, answers[method](params))
        if method in EMPTY:
            return said(message, {EMPTY[method]: []})
        return plain(request)

    server.upstream.answers["/mcp"] = answer
    async with scene(folder, url=server.url) as far:
        listing = await far.source.refresh()
        assert [tool.name for tool in listing.tools] == ["echo"], "its tools are offered whatever else it does"
        return listing


EMPTY = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def pages(member: str, make: Callable[[int], dict[str, Any]], *, size: int, of: int | None) -> tuple[Any, list[int]]:
    """Answers with pages of a list, which may be without end, and the starts of those that were asked for."""
    asked: list[int] = []

    def page(params: dict[str, Any]) -> dict[str, Any]:
        start = int(params.get("cursor") or 0)
        asked.append(start)
        last = {} if of is not None and start + size >= of else {"nextCursor": str(start + size)}
        return {member: [make(number) for number in range(start, start + size)], **last}

    return page, asked


def resource(number: int) -> dict[str, Any]:
    return {"uri": f"note:///{number}", "name": f"n{number}"}


@requirement("MCP2-hostile-lists")
async def test_of_a_hundred_thousand_resources_the_first_are_offered(server: Server, tmp_path: Path) -> None:
    page, asked = pages("resources", resource, size=10_000, of=100_000)
    listing = await listing_of(server, tmp_path, {"resources/list": page})
    assert len(listing.resources) == MAX_OFFERS
    assert asked == [0, 10_000, 20_000], "the rest is not even asked for"
    assert f"The server lists more than {MAX_OFFERS:,} resources; the first {MAX_OFFERS:,} are used." in listing.faults


@requirement("MCP2-hostile-lists")
async def test_of_too_many_templates_and_prompts_the_first_are_offered(server: Server, tmp_path: Path) -> None:
    def template(number: int) -> dict[str, Any]:
        return {"uriTemplate": f"note:///{number}/{{name}}", "name": f"t{number}"}

    templates, asked = pages("resourceTemplates", template, size=MAX_TEMPLATES + 1, of=None)
    prompts, _ = pages("prompts", lambda number: {"name": f"p{number}"}, size=MAX_OFFERS + 1, of=None)
    listing = await listing_of(server, tmp_path, {"resources/templates/list": templates, "prompts/list": prompts})
    assert (len(listing.templates), len(listing.prompts)) == (MAX_TEMPLATES, MAX_OFFERS)
    assert asked == [0]
    assert len(listing.faults) == 2


@requirement("MCP2-hostile-lists")
async def test_pages_without_end_are_read_up_to_a_number_of_them_and_of_bytes(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_pages, "MAX_PAGES", 40)
    page, asked = pages("resources", resource, size=1, of=None)
    listing = await listing_of(server, tmp_path / "1", {"resources/list": page})
    assert (len(asked), len(listing.resources)) == (40, 40)

    monkeypatch.setattr(list_pages, "MAX_LIST", 50_000)
    large, asked = pages("resources", lambda n: {**resource(n), "description": "x" * 10_000}, size=1, of=None)
    listing = await listing_of(server, tmp_path / "2", {"resources/list": large})
    assert (len(asked), listing.resources) == (5, ())
    assert any("answers to resources/list have more than the 50,000 bytes allowed" in one for one in listing.faults)

    def same(_: dict[str, Any]) -> dict[str, Any]:
        asked.append(0)
        return {"resources": [resource(1)], "nextCursor": "again"}

    asked.clear()
    listing = await listing_of(server, tmp_path / "3", {"resources/list": same})
    assert (len(asked), len(listing.resources)) == (2, 1), "a cursor that was given before ends the list"


STRANGE = ["note://a\x00b", "note://a\nb", "note://\u202egnp.exe", "note://\u200b", "x" * (MAX_URI + 1), "", 7, None]


@requirement("MCP2-hostile-uris")
@pytest.mark.parametrize("uri", [*STRANGE, "x" * 1_000_000], ids=lambda uri: repr(uri)[:20])
async def test_a_uri_or_name_that_nobody_should_see_is_left_out(server: Server, tmp_path: Path, uri: object) -> None:
    listing = await listing_of(
        server,
        tmp_path,
        {
            "resources/list": lambda _: {"resources": [{"uri": uri, "name": "bad"}, resource(1)]},
            "resources/templates/list": lambda _: {"resourceTemplates": [{"uriTemplate": uri, "name": "bad"}]},
            "prompts/list": lambda _: {"prompts": [{"name": uri}, {"name": "good"}]},
        },
    )
    assert [one.uri for one in listing.resources] == ["note:///1"]
    assert (listing.templates, [one.name for one in listing.prompts]) == ((), ["good"])
    assert len(listing.faults) == 3
    assert all(len(fault) < 300 and fault.isprintable() for fault in listing.faults)


@requirement("MCP2-hostile-uris")
async def test_what_is_wrong_with_thousands_is_told_in_a_few_sentences(server: Server, tmp_path: Path) -> None:
    bad = [{"uri": f"note://\x07{number}", "name": "bad"} for number in range(10_000)]
    listing = await listing_of(server, tmp_path, {"resources/list": lambda _: {"resources": bad}})
    assert (listing.resources, len(listing.faults)) == ((), 51)
    assert listing.faults[-1] == "9,950 more of its resources and prompts are left out."


@requirement("MCP2-hostile-updates")
@pytest.mark.parametrize("uri", ["note://a\x1bb", "x" * (MAX_URI + 1), 7, None])
def test_an_update_of_what_cannot_be_a_resource_is_not_passed_on(uri: object) -> None:
    assert updated_uri(raw_json({"uri": uri})) is None
    assert updated_uri(raw_json({"uri": "note://a"})) == "note://a"


@requirement("MCP2-hostile-lists")
def test_a_completion_has_a_hundred_values_and_is_not_large() -> None:
    found = msgspec.json.decode(completion_of(raw_json({"completion": {"values": ["x"] * 5_000}})))["completion"]
    assert (len(found["values"]), found["hasMore"]) == (100, True)
    with pytest.raises(McpClientError, match="262,144 are allowed"):
        completion_of(raw_json({"completion": {"values": ["x" * 300_000]}}))


class Followed:
    """Subscriptions to a server of the handshake era, without the server."""

    def __init__(self) -> None:
        agreement = SimpleNamespace(tells_of=lambda *_: True, is_modern=False)
        self.asked: list[str] = []
        self._connection: Any = SimpleNamespace(agreement=agreement, subscribe=self._subscribe)
        self.all = ResourceSubscriptions("far", self._connect)
        self.heard: list[str] = []

    async def _connect(self) -> Any:
        return self._connection

    async def _subscribe(self, uri: str) -> None:
        self.asked.append(uri)

    async def add(self, uri: str) -> None:
        await self.all.add(uri, self.heard.append)


@pytest.fixture
async def followed() -> AsyncIterator[Followed]:
    made = Followed()
    yield made
    await made.all.close()


@requirement("MCP2-hostile-updates")
async def test_a_flood_of_updates_is_passed_on_a_few_times_a_second(followed: Followed) -> None:
    await followed.add("note://a")
    began = time.monotonic()
    for _ in range(5_000):
        followed.all.updated("note://a")
    assert followed.heard == ["note://a"], "the first at once"
    await eventually_async(lambda: len(followed.heard) == 2)
    assert time.monotonic() - began >= subscriptions.PAUSE_SECONDS * 0.9
    await asyncio.sleep(subscriptions.PAUSE_SECONDS * 1.5)
    assert followed.heard == ["note://a"] * 2, "what came meanwhile is one more"
    assert (followed.all._gathered, followed.all._pauses) == ({}, {})


@requirement("MCP2-hostile-updates")
async def test_of_a_flood_of_different_parts_a_bounded_number_is_kept(followed: Followed) -> None:
    await followed.add("note://a/")
    for number in range(10_000):
        followed.all.updated(f"note://a/{number}")
    assert len(followed.all._gathered["note://a/"]) == MOST_PARTS + 1
    await eventually_async(lambda: len(followed.heard) == MOST_PARTS + 2)
    assert followed.heard[-1] == "note://a/", "the others are told of as a whole"


@requirement("MCP2-hostile-updates")
async def test_updates_that_nobody_follows_cost_little_however_much_is_followed(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5_000):
        await followed.add(f"note://{number}")
    began = time.process_time()
    for number in range(2_000):
        followed.all.updated(f"other://{number}/" + "a/" * 1_000)
    assert time.process_time() - began < 2
    assert followed.heard == []
    monkeypatch.setattr(subscriptions, "DEEPEST", 3)
    followed.all.updated("note://7/a/b")
    followed.all.updated("note://8/a/b/c/d/e")
    assert followed.heard == ["note://7/a/b"]


@requirement("MCP2-hostile-subscriptions")
async def test_of_one_server_a_bounded_number_of_resources_is_followed(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 3)
    for uri in ("a://1", "a://2", "a://3", "a://1"):
        await followed.add(uri)
    assert followed.asked == ["a://1", "a://2", "a://3"]
    with pytest.raises(RpcError, match="3 resources of 'far' are subscribed to already"):
        await followed.add("a://4")
    followed.all.remove("a://2", followed.heard.append)
    await followed.add("a://4")
    for uri in ("a://1", "a://1", "a://3", "a://4"):
        followed.all.updated(uri)
        followed.all.remove(uri, followed.heard.append)
    assert (followed.all._listeners, followed.all._folders) == ({}, {})
    assert (followed.all._gathered, followed.all._pauses) == ({}, {})
