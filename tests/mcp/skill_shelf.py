"""An MCP server with skills (SEP-2640), made with the SDK; tests change what it says and what it gives."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as t
from mcp import MCPError
from mcp.server.lowlevel import Server
from pydantic import BaseModel

from tests.mcp.library import Ctx, Library, library

EXTENSION = "io.modelcontextprotocol/skills"


class _Listing(BaseModel):
    cursor: str | None = None


class _OfUri(BaseModel):
    uri: str
    cursor: str | None = None


class SkillShelf(Library):
    """One listed skill, `refunds`, and one that is only found by its URI, `secret-menu`."""

    def __init__(self, name: str = "shelf", *, directories: bool = True) -> None:
        super().__init__(name)
        self.directories = directories
        self.texts |= {
            "skill://acme/refunds/SKILL.md": "---\nname: refunds\ndescription: How refunds work\n---\nAsk first.\n",
            "skill://acme/refunds/forms/a.txt": "A form.",
            "skill://secret-menu/SKILL.md": "---\nname: secret-menu\ndescription: Not listed\n---\nHello.\n",
        }
        self.listed = ["skill://acme/refunds/SKILL.md"]
        self.entries: dict[str, dict[str, Any]] = {}
        """What it says of a skill instead of the truth."""
        self.asked: list[tuple[str, str | None]] = []

    def entry(self, uri: str) -> dict[str, Any]:
        root = uri.removesuffix("/SKILL.md")
        _, head, _ = self.texts[uri].split("---\n", 2)
        frontmatter = dict(line.split(": ", 1) for line in head.splitlines())
        files = [
            {"uri": one, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text.encode())}
            for one, text in self.texts.items()
            if one.startswith(f"{root}/")
        ]
        return self.entries.get(uri) or {"uri": uri, "frontmatter": frontmatter, "resources": files}

    async def list_resources(self, _ctx: Ctx, _params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[])

    async def list_skills(self, _ctx: Ctx, _params: _Listing) -> dict[str, Any]:
        return {"skills": [self.entry(uri) for uri in self.listed], "ttlMs": 0, "cacheScope": "public"}

    async def get_skill(self, _ctx: Ctx, params: _OfUri) -> dict[str, Any]:
        self.asked.append(("skills/get", params.uri))
        if not params.uri.endswith("/SKILL.md") or params.uri not in self.texts:
            raise MCPError(-32602, "No such skill")
        return {"skill": self.entry(params.uri), "ttlMs": 0, "cacheScope": "public"}

    async def read_directory(self, _ctx: Ctx, params: _OfUri) -> dict[str, Any]:
        self.asked.append((params.uri, params.cursor))
        if params.uri != "skill://acme/refunds":
            raise MCPError(-32602, "Not a directory")
        if params.cursor is None:
            first = {"uri": "skill://acme/refunds/SKILL.md", "name": "refunds", "title": "Refunds"}
            return {"resources": [first], "nextCursor": "2"}
        more = {"uri": "skill://acme/refunds/forms", "name": "forms", "mimeType": "inode/directory"}
        return {"resources": [more]}

    def server(self) -> Server[Any]:
        server = super().server()
        server.add_request_handler("skills/list", _Listing, self.list_skills)
        server.add_request_handler("skills/get", _OfUri, self.get_skill)
        server.add_request_handler("resources/directory/read", _OfUri, self.read_directory)
        server.instructions = "Ask before you refund."
        server.extensions = {EXTENSION: {"directoryRead": True} if self.directories else {}}
        return server


@asynccontextmanager
async def skill_shelf() -> AsyncIterator[SkillShelf]:
    shelf = SkillShelf()
    async with library(made=shelf):
        yield shelf
