"""`jackfield resources` and `prompts`, and the SDK's `resources` and `prompts`, with a real MCP server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.sdk import (
    Client,
    DefinitionChanged,
    InvalidArguments,
    PromptArgument,
    PromptNotFound,
    ResourceNotFound,
    SyncClient,
    UpstreamFailed,
)
from tests.harness.in_process import KEY, make_gateway, serve_on_port
from tests.harness.process import run_cli
from tests.mcp.library import Library, library
from tests.requirement import requirement


class Shop:
    """A gateway in front of a library, and the commands that use it."""

    def __init__(self, gateway: Gateway, shelf: Library, url: str, folder: Path) -> None:
        self.gateway = gateway
        self.shelf = shelf
        self.url = url
        self.folder = folder

    async def run(self, *arguments: str) -> "CompletedProcess[str]":
        env = {"JACKFIELD_URL": self.url, "JACKFIELD_KEY": KEY}
        return await asyncio.to_thread(run_cli, *arguments, cwd=self.folder, env=env)

    async def printed(self, *arguments: str) -> str:
        done = await self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def refused(self, *arguments: str) -> str:
        done = await self.run(*arguments)
        assert done.returncode == 2, done.stdout
        return done.stderr


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with library() as shelf:
        config = f'[sources.docs]\nkind = "mcp"\nurl = "{shelf.url}"\n'
        async with make_gateway(tmp_path, config) as gateway, serve_on_port(gateway) as url:
            await gateway.source_registry.settled(within=10)
            await gateway.catalog.update_aside(gateway.source_registry.listings())
            yield Shop(gateway, shelf, url, tmp_path)


@requirement("MCP2-cli-reading")
async def test_resources_are_listed_and_read_at_the_command_line(shop: Shop) -> None:
    header, *rows = (await shop.printed("resources")).splitlines()
    assert header.split() == ["URI", "SOURCE", "TYPE", "NAME"]
    assert [row.split() for row in rows] == [
        ["note://one", "docs", "text/plain", "one"],
        ["note://two", "docs", "text/plain", "two"],
    ]
    assert "note://by/{name}" in await shop.printed("resources", "templates")
    assert await shop.printed("resources", "read", "note://one") == "The first note.\n"
    assert json.loads(await shop.printed("resources", "--json"))["resources"][0]["source"] == "docs"
    assert json.loads(await shop.printed("resources", "read", "note://one", "--json"))["contents"][0]["text"]
    binary = await shop.refused("resources", "read", "note://picture")
    assert "image/png, 2 bytes" in binary
    assert "-o FILE" in binary
    await shop.printed("resources", "read", "note://picture", "-o", "picture.png")
    assert (shop.folder / "picture.png").read_bytes() == b"\x00\x01"
    assert "Did you mean 'note://one'?" in await shop.refused("resources", "read", "notes://one")
    assert "needs the URI" in await shop.refused("resources", "read")

    details = await shop.printed("sources", "docs")
    assert "prompts: review" in details
    assert "2 resources, 1 template" in details


@requirement("MCP2-cli-reading")
async def test_prompts_are_listed_and_got_at_the_command_line(shop: Shop) -> None:
    header, row = (await shop.printed("prompts")).splitlines()
    assert header.split() == ["NAME", "SOURCE", "ARGUMENTS", "DESCRIPTION"]
    assert row.split() == ["review", "docs", "code", "Reviews", "code."]
    assert await shop.printed("prompts", "get", "review", "--arg", "code=x = 1") == "user:\nPlease review x = 1.\n"
    got = json.loads(await shop.printed("prompts", "get", "review", "--arg", "code=x", "--json"))
    assert got["messages"][0]["role"] == "user"
    assert "Did you mean 'review'?" in await shop.refused("prompts", "get", "reviewer")
    assert "code" in await shop.refused("prompts", "get", "review")
    assert "NAME=VALUE" in await shop.refused("prompts", "get", "review", "--arg", "code")


@requirement("MCP2-cli-accept")
async def test_held_prompts_and_templates_are_shown_and_accepted(shop: Shop) -> None:
    shop.shelf.prompts[0] = shop.shelf.prompts[0].model_copy(update={"description": "Reviews code, and more."})
    shop.shelf.templates[0] = shop.shelf.templates[0].model_copy(update={"description": "Any note."})
    await shop.printed("sources", "--refresh")
    assert "accept docs" in await shop.refused("prompts", "get", "review", "--arg", "code=x")
    assert "'review' is a prompt of 'docs'. 'jackfield accept docs'" in await shop.refused("accept", "review")
    accepted = await shop.printed("accept", "docs", "--yes")
    assert "prompt review of docs" in accepted
    assert '+  "description": "Reviews code, and more."' in accepted
    assert "template note://by/{name} of docs" in accepted
    assert "Accepted: review, note://by/{name}." in accepted
    assert "and more" in await shop.printed("prompts")
    assert await shop.printed("resources", "read", "note://by/ada") == "A note by ada.\n"
    assert "Nothing of 'docs' is quarantined." in await shop.printed("accept", "docs")


@requirement("MCP2-sdk-reading")
async def test_the_sdk_lists_reads_and_gets(shop: Shop) -> None:
    shop.shelf.texts |= {f"page://{number:04}": "Text." for number in range(1_200)}
    async with Client(shop.url, KEY) as client:
        await client.tools.refresh()
        resources = await client.resources.list()
        assert len(resources) == 1_202, "page after page"
        assert (resources[0].uri, resources[0].source, resources[0].mime_type) == ("note://one", "docs", "text/plain")
        (template,) = await client.resources.templates()
        assert (template.uri_template, template.title) == ("note://by/{name}", "Notes")
        (part,) = await client.resources.read("note://one")
        assert (part.text, part.data) == ("The first note.", b"The first note.")
        (picture,) = await client.resources.read("note://picture")
        assert (picture.mime_type, picture.data) == ("image/png", b"\x00\x01")
        with pytest.raises(ResourceNotFound, match="Resource not found"):
            await client.resources.read("note://three")
        shop.shelf.texts["note://broken"] = "!"
        with pytest.raises(UpstreamFailed, match="The shelf fell over") as failed:
            await client.resources.read("note://broken")
        assert failed.value.code == "mcp_error"

        (prompt,) = await client.prompts.list()
        assert prompt.arguments == (PromptArgument(name="code", description="What to review", required=True),)
        got = await client.prompts.get("review", code="x = 1")
        assert (got.description, got.messages[0].role, got.messages[0].text) == (
            "A review",
            "user",
            "Please review x = 1.",
        )
        with pytest.raises(PromptNotFound):
            await client.prompts.get("absent")
        with pytest.raises(InvalidArguments):
            await client.prompts.get("review")
        on_record = (await client.calls.list(kind="prompt")).calls
        assert sorted((call.tool, call.status) for call in on_record) == [
            ("absent", "refused"),
            ("review", "completed"),
            ("review", "refused"),
        ]
        assert [source.prompts for source in (await client.ready()).sources if source.name == "docs"] == [1]
        shop.shelf.prompts[0] = shop.shelf.prompts[0].model_copy(update={"title": "Another"})
        await client.tools.refresh()
        with pytest.raises(DefinitionChanged):
            await client.prompts.get("review", code="x")
    await asyncio.to_thread(_blocking, shop.url)


def _blocking(url: str) -> None:
    with SyncClient(url, KEY) as client:
        assert client.resources.read("note://two")[0].text == "The second note."
        assert client.prompts.list() == ()
