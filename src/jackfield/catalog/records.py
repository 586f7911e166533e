"""Tools on the wire: seed 004's manifest."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from jackfield.model.text import Time
from jackfield.model.tool import Category, Metadata


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
