"""Discovery (seed 004): the manifest, one tool, search. All from the catalog's view of the key, all prepared bytes.

Above: `routes.py`. Below: the catalog.
"""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from jackfield.model.journey import HOUSE_HEADER
from jackfield.model.tool import Category, Metadata
from jackfield.web.answers import CACHED, JSON, Answer, Empty, Reply, encode, etag_matches, raw_json_reply
from jackfield.web.records import Time
from jackfield.web.visit import Visit

_HOUSE = HOUSE_HEADER.encode()


class Scenario(Struct, frozen=True, kw_only=True):
    """Which service offers these tools."""

    name: str
    version: str
    description: str
    base_url: str | None


class Parameters(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tool's input as JSON Schema; it may have any other keyword of JSON Schema too."""

    type: Annotated[str, Meta(extra_json_schema={"enum": ["object"]})]
    properties: dict[str, Any]


class ToolEntry(Struct, frozen=True, kw_only=True):
    """One tool of the manifest: seed 004's ToolDefinition, with the digest of its definition and its source."""

    name: str
    description: str
    category: str | None
    parameters: Parameters
    metadata: Metadata
    version: str
    source: str


class Manifest(Struct, frozen=True, kw_only=True):
    """Seed 004's ToolManifest."""

    protocol_version: str
    scenario: Scenario
    tools: list[ToolEntry]
    categories: list[Category]
    generated_at: Time


class FoundTools(Struct, frozen=True, kw_only=True):
    """The best matches first."""

    query: str
    tools: list[ToolEntry]


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words to look for in names, descriptions and tags; no words: the first tools by name."""

    q: Annotated[str, Meta(max_length=1000, description="Words to look for")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="How many tools at most")] = 20


class _Found(Struct, frozen=True, kw_only=True):
    query: str
    tools: list[Raw]


async def list_tools(visit: Visit) -> Answer:
    """The whole manifest, from cache; 304 when the client has it already."""
    view = visit.gateway.catalog.view(visit.principal)
    headers = (*CACHED, (b"etag", view.etag.encode()), (_HOUSE, visit.gateway.house.encode()))
    if etag_matches(visit.header(b"if-none-match"), view.etag):
        return Empty(304, headers)
    return Reply(200, (JSON, *headers), view.manifest)


async def show_tool(visit: Visit) -> Answer:
    """One tool by its name, or by the name its owner gave it."""
    entry = visit.gateway.catalog.view(visit.principal).get(visit.part("name"))
    return raw_json_reply(entry.manifest)


async def search_tools(visit: Visit) -> Answer:
    """Ranked matches."""
    wanted = visit.query(SearchQuery)
    found = visit.gateway.catalog.view(visit.principal).search(wanted.q, limit=wanted.limit)
    return raw_json_reply(encode(_Found(query=wanted.q, tools=[Raw(entry.manifest) for entry in found])))
