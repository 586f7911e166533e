"""Seed 004's manifest as JSON bytes. Each tool is encoded once; a manifest joins the bytes of its tools.

Field names and order are the seed's, every field is always present, and each tool also has `version` and `source`. What
a reader might not expect:

- `parameters` is the tool's own schema; only `type` and `properties` are added where it lacks them. `required` and
  `additionalProperties` are not, because absent means something in JSON Schema and `null` does not.
- `timeout_seconds` is the enforced limit, whichever setting it comes from, so it is never null.
- An example has `expected_output` only where the tool gives one; the seed's examples have none.
- A tool that other gateways pass on has `via`, the clusters it came through, so that none imports its own.
- `modifies_state` and `sensitive_output`, which the seed does not have, are present only where they are true, and
  `async_behavior` never: a caller of this gateway gets `pending` and follows the call, not its owner's operation.
"""

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.tool import Category, Example, JsonSchema, Metadata, Tool, ToolKind

PROTOCOL_VERSION = "1.0"
CACHE_HEADERS = (
    ("cache-control", "public, max-age=60"),
    ("vary", "Authorization, X-Api-Key, X-Secret-Key, Cookie"),
)
"""A manifest may be cached for a minute, for requests with the same key."""
_BEYOND = frozenset({"modifies_state", "sensitive_output", "async_behavior", "verify"})
"""Metadata that the seed does not have."""
_encode = msgspec.json.Encoder().encode
_encode_canonically = msgspec.json.Encoder(order="sorted").encode


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def is_semver(version: str) -> bool:
    """Whether this is a semantic version: `1.4.0`, `2.0.0-rc.1`, `1.0.0+build.5`."""
    return len(version) <= 100 and _SEMVER.fullmatch(version) is not None  # noqa: PLR2004 - longer ones are nonsense


class ScenarioInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who publishes the manifest; in the config, the section `[scenario]`."""

    name: str = "jackfield"
    """What this gateway is called in its manifest."""
    version: str = "1.0.0"
    """A semantic version of what it offers."""
    description: str = "Tools behind a Jackfield gateway"
    """What it offers; MCP clients see it as instructions."""
    base_url: str | None = None
    """Where it can be reached, for readers of the manifest."""


def version_of(name: str, tool: Tool) -> str:
    """A digest of everything that a caller relies on: the same in every process, and different after any change.

    The order of keys does not matter. Where the tool runs (`execution`) and its source's own options (`config`) are
    left out: callers do not see them, and they may contain secrets.
    """
    relied_on = {
        "name": name,
        "source": tool.source,
        "foreign_name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "kind": ToolKind.MCP if tool.kind is ToolKind.MCP else ToolKind.INTERNAL,  # whoever runs it
        "type": tool.type,
        "execution_type": tool.execution_type,
        "visible": tool.visible,
        "is_async": tool.is_async,
        "timeout_ms": tool.timeout_ms,
        "expires_in_ms": tool.expires_in_ms,
        "category": tool.category,
        "metadata": _relied_on_metadata(tool.metadata),
    }
    return hashlib.sha256(_encode_canonically(relied_on)).hexdigest()[:32]


def _relied_on_metadata(metadata: Metadata) -> dict[str, Any]:
    """The seed's fields always, later ones only when set, so that a version survives additions to the model."""
    return {field: value for field, value in msgspec.structs.asdict(metadata).items() if value or field not in _BEYOND}


def tool_json(name: str, tool: Tool, version: str) -> bytes:
    """One tool as the manifest and `GET /api/v1/tools/{name}` show it."""
    shown: dict[str, Any] = {
        "name": name,
        "description": tool.description,
        "category": tool.category,
        "parameters": parameters_of(tool.input_schema),
        "metadata": _metadata(tool),
        "version": version,
        "source": tool.source,
    }
    return _encode(shown | {"via": tool.via} if tool.via else shown)


def parameters_of(schema: JsonSchema) -> JsonSchema:
    """The schema with `type` "object" and `properties`, as models' APIs want it."""
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        return schema
    return {"type": "object", "properties": schema.get("properties", {})} | {
        key: value for key, value in schema.items() if key not in {"type", "properties"}
    }


def _metadata(tool: Tool) -> dict[str, Any]:
    metadata = tool.metadata
    shown = {
        "enabled_by_default": metadata.enabled_by_default,
        "requires_approval": metadata.requires_approval,
        "timeout_seconds": -(-tool.deadline_ms // 1000),
        "rate_limit_per_minute": metadata.rate_limit_per_minute,
        "cost_estimate": metadata.cost_estimate,
        "long_running": metadata.long_running or metadata.async_behavior is not None,
        "idempotent": metadata.idempotent,
        "tags": metadata.tags,
        "examples": [_example(example) for example in metadata.examples],
    }
    beyond = {"modifies_state": metadata.modifies_state, "sensitive_output": metadata.sensitive_output}
    return shown | {name: value for name, value in beyond.items() if value}


def _example(example: Example) -> dict[str, Any]:
    shown = {"description": example.description, "input": example.input}
    return shown if example.expected_output is None else shown | {"expected_output": example.expected_output}


class Manifest(Struct, frozen=True):
    """A manifest and its ETag, which does not depend on the time of generation."""

    body: bytes
    etag: str


def assemble(
    tools: Iterable[bytes], *, scenario: ScenarioInfo, categories: Iterable[Category], generated_at: datetime
) -> Manifest:
    """The manifest of these tools, already encoded."""
    head = _encode({"protocol_version": PROTOCOL_VERSION, "scenario": scenario})[:-1]
    body = b"".join((head, b',"tools":[', b",".join(tools), b'],"categories":', _encode(list(categories))))
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Manifest(b"".join((body, b',"generated_at":', _encode(timestamp(generated_at)), b"}")), etag)


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: `2024-01-15T10:30:00.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Whether an If-None-Match header names this ETag: `*`, or a list, weak or strong."""
    if if_none_match is None:
        return False
    bare = etag.removeprefix("W/")
    given = [one.strip() for one in if_none_match.split(",")]
    return "*" in given or any(one.removeprefix("W/") == bare for one in given)
