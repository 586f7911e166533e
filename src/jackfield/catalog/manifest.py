"""Seed 004's manifest, as bytes. Each tool is encoded once; a manifest of many is their bytes, joined.

Above: `merge.py` (one tool) and `view.py` (the whole). Below: msgspec. Field names and order are the seed's, every
field is there whatever its value, and each tool also has `version` and `source`. Five places where a reader could
expect something else:

- `parameters` is the tool's own schema; only `type` and `properties` are added where it lacks them. `required` and
  `additionalProperties` are not, because an absent one means something in JSON Schema and `null` does not.
- `timeout_seconds` is the limit that will be enforced, whichever setting it comes from, so it is never null.
- An example has `expected_output` only where the tool gives one; the seed's examples have none.
- A tool that other gateways pass on has `via`, the houses it came through, so that none takes back its own.
- `modifies_state` and `sensitive_output`, which the seed does not have, stand only where they are true, and
  `async_behavior` never: whoever calls the tool here is told `pending` and follows the call, not its owner's work.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from jackfield.model.tool import Category, Example, JsonSchema, Metadata, Tool, ToolKind
from jackfield.settings import ScenarioSettings

PROTOCOL_VERSION = "1.0"
_BEYOND = frozenset({"modifies_state", "sensitive_output", "async_behavior"})
"""Metadata that the seed does not have."""
_encode = msgspec.json.Encoder().encode
_encode_canonically = msgspec.json.Encoder(order="sorted").encode


def version_of(name: str, tool: Tool) -> str:
    """A digest of all that a caller relies on: equal in every process, and different after any change of it.

    The order of keys does not count. Where the tool lives (`execution`) and its source's own options (`config`) are
    left out: callers do not see them, and they may hold secrets.
    """
    relied_on = {
        "name": name,
        "source": tool.source,
        "foreign_name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "kind": ToolKind.MCP if tool.kind is ToolKind.MCP else ToolKind.INTERNAL,  # a version outlives who runs it
        "type": tool.type,
        "execution_type": tool.execution_type,
        "visible": tool.visible,
        "is_async": tool.is_async,
        "timeout_ms": tool.timeout_ms,
        "expires_in_ms": tool.expires_in_ms,
        "category": tool.category,
        "metadata": _said(tool.metadata),
    }
    return hashlib.sha256(_encode_canonically(relied_on)).hexdigest()[:32]


def _said(metadata: Metadata) -> dict[str, Any]:
    """The seed's fields always, later ones where they are set: a version outlives what is added to the model."""
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
    said = {
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
    return said | {name: value for name, value in beyond.items() if value}


def _example(example: Example) -> dict[str, Any]:
    shown = {"description": example.description, "input": example.input}
    return shown if example.expected_output is None else shown | {"expected_output": example.expected_output}


class Manifest(msgspec.Struct, frozen=True):
    """A whole manifest and its ETag, which does not depend on when it was generated."""

    body: bytes
    etag: str


def assemble(
    tools: Iterable[bytes], *, scenario: ScenarioSettings, categories: Iterable[Category], generated_at: datetime
) -> Manifest:
    """The manifest of these tools, already encoded."""
    head = _encode({"protocol_version": PROTOCOL_VERSION, "scenario": scenario})[:-1]
    body = b"".join((head, b',"tools":[', b",".join(tools), b'],"categories":', _encode(list(categories))))
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Manifest(b"".join((body, b',"generated_at":', _encode(timestamp(generated_at)), b"}")), etag)


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: `2024-01-15T10:30:00.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
