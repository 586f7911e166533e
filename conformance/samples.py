"""Contents and schemas that the suite's scenarios look for."""

from typing import Any

import mcp.types as t

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
STRING: dict[str, Any] = {"type": "string"}
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": STRING, "city": STRING}},
    },
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
WITH_HEADERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    },
}


def strings(*names: str) -> dict[str, Any]:
    """The schema of an object with these texts, all of them needed."""
    return {"type": "object", "properties": dict.fromkeys(names, STRING), "required": list(names)}


def image() -> t.ImageContent:
    return t.ImageContent(data=PNG, mime_type="image/png")


def audio() -> t.AudioContent:
    return t.AudioContent(data=WAV, mime_type="audio/wav")


def resource(uri: str, text: str, *, kind: str = "text/plain") -> t.EmbeddedResource:
    return t.EmbeddedResource(resource=t.TextResourceContents(uri=uri, mime_type=kind, text=text))
