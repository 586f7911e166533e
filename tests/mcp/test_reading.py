"""Resources, templates, prompts and completion of real servers, through `/mcp`, in both eras."""

from functools import partial
from pathlib import Path
from typing import Any

import mcp.types as t
import pytest
from mcp import MCPError

from jackfield.calls.rows import CallFilter, call_page
from tests.mcp.library import Ctx, Library, library
from tests.mcp.scene import Scene, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

ERAS = ["2026-07-28", "legacy"]


def config(shelf: Library, name: str = "docs", more: str = "") -> str:
    return f'[sources.{name}]\nkind = "mcp"\nurl = "{shelf.url}"\n{more}\n'


async def listed(scene: Scene, *, at_least: int = 1) -> list[dict[str, Any]]:
    async def resources() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await scene.ask("resources/list")).json()["result"]["resources"]
        return found if len(found) >= at_least else []

    found: list[dict[str, Any]] = await eventually_async(resources)
    return found


@requirement("MCP2-resources")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_sees_and_uses_all_that_a_server_has(tmp_path: Path, era: str) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        async with scene.client(mode=era) as client:
            resources = (await client.list_resources()).resources
            assert [(one.uri, one.name, one.mime_type, one.size) for one in resources] == [
                ("note://one", "one", "text/plain", 15),
                ("note://two", "two", "text/plain", 16),
            ]
            (template,) = (await client.list_resource_templates()).resource_templates
            assert (template.uri_template, template.title) == ("note://by/{name}", "Notes")
            (prompt,) = (await client.list_prompts()).prompts
            assert (prompt.name, prompt.title, prompt.description) == ("review", "Review", "Reviews code.")
            assert prompt.arguments is not None
            assert prompt.arguments[0].required is True

            read = (await client.read_resource("note://one")).contents[0]
            assert (read.uri, getattr(read, "text", None)) == ("note://one", "The first note.")
            by = (await client.read_resource("note://by/ada")).contents[0]
            assert getattr(by, "text", None) == "A note by ada."
            picture = (await client.read_resource("note://picture")).contents[0]
            assert getattr(picture, "blob", None) == "AAE=", "not listed, and readable all the same"
            got = await client.get_prompt("review", {"code": "x = 1"})
            assert got.description == "A review"
            assert getattr(got.messages[0].content, "text", None) == "Please review x = 1."
            with pytest.raises(MCPError) as missing:
                await client.read_resource("note://three")
            assert missing.value.code == (-32602 if era == "2026-07-28" else -32002)
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("review", {})
            assert refused.value.code == -32602


@requirement("MCP2-kinds")
async def test_what_is_read_is_on_record_with_its_kind(tmp_path: Path) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        await scene.ask("resources/read", {"uri": "note://one"}, headers={"mcp-name": "note://one"})
        await scene.ask("prompts/get", {"name": "review", "arguments": {"code": "x"}})
        page = await scene.gateway.store.read(partial(call_page, CallFilter(), limit=50))
        kinds = {call.tool: (call.kind.value, call.source, call.status.value) for call in page.calls}
        assert kinds == {"note://one": ("resource", "docs", "completed"), "review": ("prompt", "docs", "completed")}


@pytest.mark.parametrize("era", ERAS)
async def test_large_lists_page(tmp_path: Path, era: str) -> None:
    async with library() as shelf:
        shelf.texts = {f"note://{number:04}": "x" for number in range(1, 2_502)}
        shelf.prompts = [t.Prompt(name=f"p{number:04}") for number in range(1_200)]
        async with mcp_scene(tmp_path, config=config(shelf)) as scene:
            await listed(scene, at_least=1_000)
            async with scene.client(mode=era) as client:
                found: list[str] = []
                page = await client.list_resources()
                while True:
                    found += [str(one.uri) for one in page.resources]
                    if page.next_cursor is None:
                        break
                    page = await client.list_resources(cursor=page.next_cursor)
                assert found == sorted(shelf.texts)
                first = await client.list_prompts()
                rest = await client.list_prompts(cursor=first.next_cursor)
                assert [one.name for one in (*first.prompts, *rest.prompts)] == [one.name for one in shelf.prompts]
                assert rest.next_cursor is None


@requirement("MCP2-read-limits")
async def test_a_source_takes_so_many_reads_a_minute(tmp_path: Path) -> None:
    limited = "rate_limit_per_minute = 2"
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf, more=limited)) as scene:
        await listed(scene)
        async with scene.client(mode="legacy") as client:
            await client.read_resource("note://one")
            await client.get_prompt("review", {"code": "x"})
            with pytest.raises(MCPError, match="takes no more reads this minute"):
                await client.read_resource("note://two")
        assert shelf.reads == ["note://one"]


@pytest.mark.parametrize("uri", ["note://a\u0000b", "note://" + "x" * 20_000])
async def test_a_uri_that_cannot_be_is_not_found(tmp_path: Path, uri: str) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        session = await scene.shake_hands()
        assert (await scene.ask_in(session, "resources/read", uri=uri))["code"] == -32002
        assert shelf.reads == []


async def test_a_server_without_tools_is_up(tmp_path: Path) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        (status,) = [one for one in scene.gateway.source_registry.statuses() if one.name == "docs"]
        assert status.status.value == "up"


@requirement("MCP2-completion")
@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_completed_by_their_server(tmp_path: Path, era: str) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        async with scene.client(mode=era) as client:
            for ref in (t.PromptReference(name="review"), t.ResourceTemplateReference(uri="note://by/{name}")):
                found = await client.complete(ref, {"name": "code", "value": "al"})
                assert found.completion.values == ["alpha", "alphabet"]
            with pytest.raises(MCPError, match="Unknown prompt"):
                await client.complete(t.PromptReference(name="none"), {"name": "code", "value": ""})


@requirement("MCP2-pinned-prompts")
@pytest.mark.parametrize("era", ERAS)
async def test_what_changed_after_trust_is_neither_listed_nor_given(tmp_path: Path, era: str) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        shelf.prompts[0] = shelf.prompts[0].model_copy(update={"arguments": []})
        shelf.templates[0] = shelf.templates[0].model_copy(update={"description": "Any file of yours."})
        await shelf.announce()
        await eventually_async(lambda: len(scene.gateway.catalog.all_held) == 2)
        async with scene.client(mode=era) as client:
            assert (await client.list_prompts()).prompts == []
            assert (await client.list_resource_templates()).resource_templates == []
            with pytest.raises(MCPError, match="Prompt 'review' is held: 'docs' changed its definition"):
                await client.get_prompt("review", {"code": "x"})
            with pytest.raises(MCPError, match="jackfield accept docs"):
                await client.read_resource("note://by/ada")
            with pytest.raises(MCPError, match="is held"):
                await client.complete(t.PromptReference(name="review"), {"name": "code", "value": ""})
        held = scene.gateway.catalog.held_of("docs")
        await scene.gateway.pinning.accept(held, seen={}, accepted_by="ops")
        async with scene.client(mode=era) as client:
            assert [one.name for one in (await client.list_prompts()).prompts] == ["review"]
            assert (await client.read_resource("note://by/ada")).contents


@requirement("MCP2-reading-secrets")
async def test_no_secret_leaves_with_what_is_read_completed_or_refused(tmp_path: Path) -> None:
    secret = "s3cr3t-token"

    class Telling(Library):
        async def complete(self, _ctx: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
            if params.argument.value:
                raise MCPError(-32050, f"No {secret}", {"why": secret})
            return t.CompleteResult(completion=t.Completion(values=[secret]))

    shelf = Telling()
    shelf.texts["note://one"] = f"It is {secret}."
    source = config(shelf, more='headers = { authorization = "Bearer ${TOKEN}" }')
    async with library(made=shelf), mcp_scene(tmp_path, source, environment={"TOKEN": secret}) as scene:
        await listed(scene)
        ref = {"type": "ref/prompt", "name": "review"}
        told = [
            await scene.ask("resources/read", {"uri": "note://one"}, headers={"mcp-name": "note://one"}),
            await scene.ask("completion/complete", {"ref": ref, "argument": {"name": "code", "value": ""}}),
            await scene.ask("completion/complete", {"ref": ref, "argument": {"name": "code", "value": "x"}}),
        ]
        assert not [one.text for one in told if secret in one.text]
        assert "It is " in told[0].text
        assert told[2].json()["error"]["code"] == -32050
