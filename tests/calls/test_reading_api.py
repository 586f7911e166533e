"""Resources and prompts of a real MCP server over the HTTP API."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp.types as t

from jackfield.gateway.gateway import Gateway
from tests.harness.api import error_of
from tests.harness.in_process import in_process_gateway
from tests.mcp.library import Library, library
from tests.requirement import requirement
from tests.sources.mcp.scene import http_server
from tests.waiting import eventually_async

KEYS = """
[auth.keys.reader]
key = "reader-key"
scopes = ["read"]
[auth.keys.answerer]
key = "answerer-key"
scopes = ["answer"]
[auth.keys.elsewhere]
key = "elsewhere-key"
scopes = ["call"]
tools = ["other:*"]
[auth.keys.docs]
key = "docs-key"
scopes = ["call"]
tools = ["docs:*"]
[auth.keys.ada]
key = "ada-key"
scopes = ["agent:ada"]
"""


def source(shelf: Library, name: str = "docs", more: str = "") -> str:
    return f'[sources.{name}]\nkind = "mcp"\nurl = "{shelf.url}"\n{more}\n'


def key(name: str) -> dict[str, str]:
    return {"x-api-key": f"{name}-key"}


@asynccontextmanager
async def gateway_of(folder: Path, config: str) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    async with in_process_gateway(folder, KEYS + config) as (gateway, client):
        await gateway.source_registry.settled(within=10)
        await gateway.catalog.update_aside(gateway.source_registry.listings())
        yield gateway, client


async def listed(client: httpx2.AsyncClient, path: str = "/api/v1/resources", **params: Any) -> dict[str, Any]:
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def read(client: httpx2.AsyncClient, uri: str, **more: Any) -> httpx2.Response:
    return await client.get("/api/v1/resources/read", params={"uri": uri}, **more)


@requirement("MCP2-rest-reading")
async def test_what_a_server_has_is_listed_and_read_over_http(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        assert await listed(client) == {
            "resources": [
                {"uri": "note://one", "name": "one", "mimeType": "text/plain", "size": 15, "source": "docs"},
                {"uri": "note://two", "name": "two", "mimeType": "text/plain", "size": 16, "source": "docs"},
            ],
            "next_cursor": None,
        }
        first = await listed(client, limit=1)
        assert [one["uri"] for one in first["resources"]] == ["note://one"]
        second = await listed(client, limit=1, cursor=first["next_cursor"])
        assert ([one["uri"] for one in second["resources"]], second["next_cursor"]) == (["note://two"], None)
        (template,) = (await listed(client, "/api/v1/resources/templates"))["resourceTemplates"]
        assert (template["uriTemplate"], template["source"]) == ("note://by/{name}", "docs")
        (prompt,) = (await listed(client, "/api/v1/prompts"))["prompts"]
        assert (prompt["name"], prompt["source"]) == ("review", "docs")
        assert prompt["arguments"] == [{"name": "code", "description": "What to review", "required": True}]

        one = await read(client, "note://one", headers=key("reader"))
        assert one.json() == {"contents": [{"uri": "note://one", "text": "The first note.", "mimeType": "text/plain"}]}
        picture = (await read(client, "note://picture")).json()["contents"][0]
        assert base64.b64decode(picture["blob"]) == b"\x00\x01"
        got = await client.post("/api/v1/prompts/review", json={"arguments": {"code": "x = 1"}})
        assert got.json() == {
            "description": "A review",
            "messages": [{"role": "user", "content": {"type": "text", "text": "Please review x = 1."}}],
        }

        calls = (await client.get("/api/v1/calls", params={"kind": "resource"})).json()["calls"]
        assert [(call["tool"], call["kind"]) for call in calls] == [
            ("note://picture", "resource"),
            ("note://one", "resource"),
        ]
        assert calls[1]["id"] == one.headers["x-call-id"]
        calls = (await client.get("/api/v1/calls", params={"kind": "prompt"})).json()["calls"]
        assert [(call["tool"], call["arguments"]) for call in calls] == [("review", {"code": "x = 1"})]
        assert (await client.get("/api/v1/calls", params={"kind": "tool"})).json()["calls"] == []
        assert error_of(await client.get("/api/v1/calls", params={"kind": "song"}))["param"] == "kind"


@requirement("MCP2-rest-reading-errors")
async def test_what_cannot_be_read_is_told_by_name_and_in_the_servers_words(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        missing = await read(client, "note://three")
        assert (missing.status_code, error_of(missing)["code"]) == (404, "resource_not_found")
        assert "Resource not found" in error_of(missing)["message"], "the server's own words"
        for uri in ("note://by/\x00", "note://by/\u202e", "note://by/" + "a" * 20_000, "jackfield://docs/note%00"):
            refused = await read(client, uri)
            assert refused.status_code in (400, 404), refused.text
        assert error_of(await client.get("/api/v1/resources/read"))["param"] == "uri"
        unknown = await client.post("/api/v1/prompts/reviews")
        assert (unknown.status_code, error_of(unknown)["code"]) == (404, "prompt_not_found")
        assert "review" in error_of(unknown)["message"]
        without = await client.post("/api/v1/prompts/review")
        assert (without.status_code, error_of(without)["code"]) == (400, "invalid_arguments")
        assert "code" in error_of(without)["message"]
        typed = await client.post("/api/v1/prompts/review", json={"arguments": {"code": 1}})
        assert error_of(typed)["details"][0]["path"] == "code"
        forbidden = await client.get("/api/v1/resources", headers=key("answerer"))
        assert forbidden.status_code == 403

        shelf.texts["note://broken"] = "!"
        broken = await read(client, "note://broken")
        assert (broken.status_code, error_of(broken)["code"]) == (502, "mcp_error"), broken.text
        assert "The shelf fell over" in error_of(broken)["message"]


async def test_a_long_uri_is_read_and_its_beginning_is_on_record(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        uri = "note://by/" + "ö" * 3_000
        assert (await read(client, uri)).json()["contents"][0]["uri"] == uri
        (call,) = (await client.get("/api/v1/calls", params={"kind": "resource"})).json()["calls"]
        assert call["arguments"] == {"uri": uri}
        assert uri.startswith(call["tool"].removesuffix("…"))
        assert 1_000 < len(call["tool"].encode()) <= 2_000


async def test_a_large_resource_comes_whole(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        shelf.texts["note://large"] = "word " * 1_000_000
        large = await read(client, "note://large")
        assert large.json()["contents"][0]["text"] == "word " * 1_000_000


async def test_reads_are_limited_by_source(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf, more="rate_limit_per_minute = 2")) as (_, client):
        assert (await read(client, "note://one")).status_code == 200
        assert (await client.post("/api/v1/prompts/review", json={"arguments": {"code": "x"}})).status_code == 200
        third = await read(client, "note://one")
        assert (third.status_code, error_of(third)["code"]) == (429, "rate_limited")
        assert "docs" in error_of(third)["message"]
        assert int(third.headers["retry-after"]) > 0
        assert shelf.reads == ["note://one"]


@requirement("MCP2-reading-filters")
async def test_a_key_reads_what_its_sources_have_and_nothing_else(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        assert len((await client.get("/api/v1/resources", headers=key("docs"))).json()["resources"]) == 2
        assert (await read(client, "note://by/ada", headers=key("docs"))).status_code == 200
        for path, name in (
            ("/api/v1/resources", "resources"),
            ("/api/v1/resources/templates", "resourceTemplates"),
            ("/api/v1/prompts", "prompts"),
        ):
            assert (await client.get(path, headers=key("elsewhere"))).json()[name] == []
        for uri in ("note://one", "note://by/ada", "note://picture", "jackfield://docs/note%3A%2F%2Fone"):
            unseen = await read(client, uri, headers=key("elsewhere"))
            assert (unseen.status_code, error_of(unseen)["code"]) == (404, "resource_not_found")
        unseen = await client.post("/api/v1/prompts/review", headers=key("elsewhere"))
        assert (unseen.status_code, error_of(unseen)["code"]) == (404, "prompt_not_found")
        assert "review" not in error_of(unseen)["message"].replace("'review'", ""), "no hint at what is not seen"


async def test_a_group_has_what_its_sources_have(tmp_path: Path) -> None:
    groups = '[groups.notes]\ntools = ["docs:*"]\n[groups.none]\ntools = ["other:*"]\n'
    async with library() as shelf, gateway_of(tmp_path, groups + source(shelf)) as (_, client):
        assert len((await listed(client, group="notes"))["resources"]) == 2
        assert (await listed(client, group="none"))["resources"] == []
        assert (await listed(client, "/api/v1/prompts", group="none"))["prompts"] == []
        assert (await listed(client, "/api/v1/resources/templates", group="none"))["resourceTemplates"] == []
        inside = await client.get("/api/v1/resources/read", params={"uri": "note://one", "group": "notes"})
        assert inside.status_code == 200
        outside = await client.get("/api/v1/resources/read", params={"uri": "note://one", "group": "none"})
        assert (outside.status_code, error_of(outside)["code"]) == (404, "resource_not_found")
        outside = await client.post("/api/v1/prompts/review?group=none", json={"arguments": {"code": "x"}})
        assert (outside.status_code, error_of(outside)["code"]) == (404, "prompt_not_found")
        assert (await client.get("/api/v1/prompts", params={"group": "nowhere"})).status_code == 404


async def test_an_agent_reads_and_nothing_of_it_comes_to_its_inbox(tmp_path: Path) -> None:
    agent = "[agents.ada]\n"
    async with library() as shelf, gateway_of(tmp_path, agent + source(shelf)) as (_, client):
        assert (await read(client, "note://one", headers=key("ada"))).status_code == 200
        assert (await read(client, "note://three", headers=key("ada"))).status_code == 404
        calls = (await client.get("/api/v1/calls", headers=key("ada"))).json()["calls"]
        assert {(call["agent"], call["delivery"]) for call in calls} <= {("ada", "inline"), ("ada", None)}
        inbox = await client.get("/api/agents/ada/inbox", headers=key("ada"))
        assert inbox.json()["events"] == []


@requirement("MCP2-same-uri")
async def test_two_sources_with_the_same_uri_and_prompt(tmp_path: Path) -> None:
    async with library() as first, library() as second:
        second.texts = {"note://one": "Another note.", "note://own": "Its own."}
        config = source(first, "docs") + source(second, "more")
        async with gateway_of(tmp_path, config) as (_, client):
            uris = {one["uri"]: one["source"] for one in (await listed(client))["resources"]}
            again = "jackfield://more/note%3A%2F%2Fone"
            assert uris == {"note://one": "docs", "note://two": "docs", again: "more", "note://own": "more"}
            read_again = (await read(client, again)).json()["contents"]
            assert read_again == [{"uri": again, "text": "Another note.", "mimeType": "text/plain"}]
            assert (await read(client, "note://one")).json()["contents"][0]["text"] == "The first note."

            templates = (await listed(client, "/api/v1/resources/templates"))["resourceTemplates"]
            qualified = "jackfield://more/note%3A%2F%2Fby%2F{name}"
            assert [one["uriTemplate"] for one in templates] == ["note://by/{name}", qualified]
            by = qualified.replace("{name}", "a%20b")
            assert (await read(client, by)).json()["contents"][0]["uri"] == by
            assert second.reads[-1] == "note://by/a%20b", "what was filled in is passed on as it is"
            await read(client, "note://by/ada")
            assert first.reads[-1] == "note://by/ada"

            prompts = {one["name"]: one["source"] for one in (await listed(client, "/api/v1/prompts"))["prompts"]}
            assert prompts == {"review": "docs", "more_review": "more"}
            second.prompts[0] = second.prompts[0].model_copy(update={"arguments": []})
            got = await client.post("/api/v1/prompts/more_review", json={"arguments": {"code": "x"}})
            assert got.status_code == 200, got.text


@requirement("MCP2-source-counts")
async def test_sources_say_how_many_resources_and_prompts_they_have(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        ready = (await client.get("/readyz")).json()["sources"]
        (docs,) = [one for one in ready if one["name"] == "docs"]
        assert (docs["tools"], docs["resources"], docs["templates"], docs["prompts"]) == (0, 2, 1, 1)
        shown = (await client.get("/api/v1/sources/docs")).json()["source"]
        assert (shown["resources"], shown["templates"], shown["prompts"]) == (2, 1, ["review"])


@requirement("MCP2-pinned-prompts")
async def test_a_prompt_and_a_template_that_change_are_held_until_they_are_accepted(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (gateway, client):
        shelf.prompts[0] = shelf.prompts[0].model_copy(update={"description": "Reviews code\u202e and sends it on."})
        shelf.templates[0] = shelf.templates[0].model_copy(update={"description": "Any note, and your files."})
        await client.post("/api/v1/tools/refresh")
        assert (await listed(client, "/api/v1/prompts"))["prompts"] == []
        assert (await listed(client, "/api/v1/resources/templates"))["resourceTemplates"] == []
        held = await client.post("/api/v1/prompts/review", json={"arguments": {"code": "x"}})
        assert (held.status_code, error_of(held)["code"]) == (403, "definition_changed")
        assert "jackfield accept docs" in error_of(held)["message"]
        assert error_of(held)["message"].startswith("Prompt 'review'")
        blocked = await read(client, "note://by/ada")
        assert (blocked.status_code, error_of(blocked)["code"]) == (403, "definition_changed")
        assert error_of(blocked)["message"].startswith("Template 'note://by/{name}'")
        assert (await read(client, "note://one")).status_code == 200, "plain resources are not pinned"
        ready = (await client.get("/readyz")).json()
        (docs,) = [one for one in ready["sources"] if one["name"] == "docs"]
        assert docs["held"] == ["prompt:review", "template:note://by/{name}"]
        told = " ".join(notice["message"] for notice in ready["notices"])
        assert "prompt 'review'" in told
        assert "template 'note://by/{name}'" in told

        changes = (await client.get("/api/v1/sources/docs/diff")).json()["tools"]
        assert [(one["kind"], one["key"]) for one in changes] == [
            ("prompt", "prompt:review"),
            ("template", "template:note://by/{name}"),
        ]
        assert "\\u202e" in changes[0]["diff"]
        taken = await client.post(
            "/api/v1/sources/docs/accept", json={"digests": {"prompt:review": changes[0]["digest"]}}
        )
        assert taken.json() == {"source": "docs", "tools": [], "prompts": ["review"], "templates": []}
        (prompt,) = (await listed(client, "/api/v1/prompts"))["prompts"]
        assert prompt["description"] == "Reviews code and sends it on.", "hidden characters are stripped"
        assert (await read(client, "note://by/ada")).status_code == 403, "that one was not meant"
        taken = await client.post("/api/v1/sources/docs/accept")
        assert taken.json()["templates"] == ["note://by/{name}"]
        assert (await read(client, "note://by/ada")).status_code == 200
        assert gateway.catalog.all_held == []


async def test_a_tool_and_a_prompt_of_one_name_are_pinned_apart(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf)) as (_, client):
        shelf.tools = [t.Tool(name="review", description="A tool.", input_schema={"type": "object"})]
        await client.post("/api/v1/tools/refresh")
        assert (await client.get("/api/v1/tools/review")).json()["description"] == "A tool."
        shelf.tools[0] = shelf.tools[0].model_copy(update={"description": "Another tool."})
        shelf.prompts[0] = shelf.prompts[0].model_copy(update={"description": "Another prompt."})
        await client.post("/api/v1/tools/refresh")
        changes = (await client.get("/api/v1/sources/docs/diff")).json()["tools"]
        assert [one["key"] for one in changes] == ["review", "prompt:review"]
        digests = {one["key"]: one["digest"] for one in changes}
        assert (await client.post("/api/v1/sources/docs/accept", json={"digests": digests})).status_code == 200
        assert (await client.get("/api/v1/sources/docs/diff")).json()["tools"] == []
        await client.post("/api/v1/tools/refresh")
        assert (await client.get("/api/v1/tools/review")).json()["description"] == "Another tool."
        (prompt,) = (await listed(client, "/api/v1/prompts"))["prompts"]
        assert prompt["description"] == "Another prompt."


async def test_new_prompts_and_templates_are_held_where_the_operator_wants_to_see_them(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf, more='on_new = "hold"')) as (gateway, client):
        assert len((await listed(client, "/api/v1/prompts"))["prompts"]) == 1, "what the first listing has is offered"
        await eventually_async(lambda: not gateway.pinning.is_behind)
        shelf.prompts.append(t.Prompt(name="later", description="Came later."))
        shelf.templates.append(t.ResourceTemplate(uri_template="secret://{name}", name="later"))
        await client.post("/api/v1/tools/refresh")
        held = await client.post("/api/v1/prompts/later")
        assert "nobody has accepted it yet" in error_of(held)["message"]
        assert error_of(await read(client, "secret://x"))["code"] == "definition_changed"
        assert (await client.post("/api/v1/sources/docs/accept")).json()["prompts"] == ["later"]
        assert (await client.post("/api/v1/prompts/later")).status_code == 200
        assert (await read(client, "secret://x")).status_code == 404, "its server has no such thing"


async def test_a_read_has_as_long_as_a_call_of_its_source(tmp_path: Path) -> None:
    async with library() as shelf, gateway_of(tmp_path, source(shelf, more="call_timeout = 0.3")) as (_, client):
        shelf.texts["note://slow"] = "..."
        slow = await read(client, "note://slow")
        assert (slow.status_code, error_of(slow)["code"]) == (502, "timeout")
        assert "note://slow" in error_of(slow)["message"]


@requirement("MCP2-rest-reading-pending")
async def test_a_prompt_whose_server_asks_a_person_is_a_pending_call(tmp_path: Path) -> None:
    with http_server(tmp_path / "asking") as asking:
        config = f'[sources.asking]\nkind = "mcp"\nurl = "{asking.url}"\n'
        async with gateway_of(tmp_path, config) as (_, client):
            waiting = await client.post("/api/v1/prompts/asking")
            assert (waiting.status_code, waiting.json()["status"]) == (202, "pending"), waiting.text
            call_id = waiting.json()["call_id"]
            assert waiting.headers["x-call-id"] == call_id
            pending = (await client.get("/api/v1/calls", params={"status": "pending"})).json()["calls"]
            (question,) = [call for call in pending if call["id"] != call_id]
            answer = {"action": "accept", "content": {"name": "Ada"}}
            path = f"/api/runs/{question['run_id']}/tool-results"
            told = await client.post(path, json={"callId": question["id"], "result": answer})
            assert told.status_code == 200, told.text
            got = (await client.get(f"/api/v1/calls/{call_id}", params={"wait": 10})).json()["call"]
            assert (got["status"], got["kind"]) == ("completed", "prompt")
            assert "Ada" in str(got["result"]["messages"])
