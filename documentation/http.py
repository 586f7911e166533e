"""`reference/http.md` and `reference/http-types.md`: every route, from the table that is served."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from documentation.markdown import anchor, page, table
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.http.openapi import openapi_document
from jackfield.http.routing import Route
from jackfield.settings import load_settings

_REF = "#/components/schemas/"
_CONSTRAINTS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} long",
    "maxLength": "at most {} long",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "format": "{}",
}
_NAMES = {"integer": "whole number", "string": "text", "boolean": "true or false", "null": "null", "number": "number"}
_ERRORS_FROM = 400


@cache
def every_route() -> tuple[Route, ...]:
    """The routes of a gateway with an empty config."""
    folder = Path(tempfile.mkdtemp(prefix="jackfield-docs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = folder / "jackfield.toml"
    config.touch()
    environment = {"JACKFIELD_ADMIN_KEY": "k" * 40, "JACKFIELD_STORE": "memory:"}
    return build_app(Gateway(load_settings(config, environment=environment))).routes


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return openapi_document(every_route())


def http_page() -> str:
    """Every operation, by tag, then the routes that are pages or protocols of their own."""
    parts = [
        (
            "Every route of a gateway, made from the table that is served. A running gateway has the same as a page at "
            "`/docs` and as an OpenAPI document at `/openapi.json`; [types](http-types.md) has the records."
        ),
        (
            "Send a key as `Authorization: Bearer KEY`, `x-api-key` or `x-secret-key`. Errors are JSON with a stable "
            "`code`: see [errors](errors.md)."
        ),
    ]
    for tag in [tag["name"] for tag in document()["tags"]]:
        parts.append(f"## {tag}")
        for path, methods in document()["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag]:
                    parts += _operation(method, path, operation)
    pages = [route for route in every_route() if route.is_page]
    parts += [
        "## Pages and protocols",
        "Not in the OpenAPI document: pages for people, and what a protocol of its own describes.",
        table(["route", "what it is"], ((f"`{route.method} {route.path}`", route.summary) for route in pages)),
    ]
    return page("HTTP reference", *parts)


def types_page() -> str:
    """Every record that a route takes or returns."""
    parts = [
        (
            "The records of the [HTTP API](http.md), as the OpenAPI document has them. Fields marked with * are "
            "always there."
        )
    ]
    for name, schema in sorted(document()["components"]["schemas"].items()):
        parts += [f"## {name}", str(schema.get("description", "")), _fields(schema, "")]
        if "properties" not in schema:
            parts.append(_words(schema, ""))
    return page("HTTP types", *parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield f"{operation['summary']}. {operation.get('description', '')}".strip().replace("..", ".")
    parameters = (
        (
            f"`{one['name']}`{'*' if one.get('required') else ''}",
            one["in"],
            _words(one["schema"]),
            str(one.get("description", "")),
        )
        for one in operation["parameters"]
    )
    yield table(["parameter", "in", "type", "meaning"], parameters)
    body = operation.get("requestBody")
    if body is not None:
        yield "Body:" + (" optional." if not body["required"] else "")
        for media in body["content"].values():
            schema = _resolved(media["schema"])
            yield _fields(schema) or _words(media["schema"])
    yield table(["status", "meaning", "body"], _answers(operation))


def _answers(operation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    errors = []
    for status, answer in operation["responses"].items():
        if int(status) >= _ERRORS_FROM:
            errors.append(status)
            continue
        kinds = [
            _words(media["schema"]) if name == "application/json" else f"`{name}`"
            for name, media in answer.get("content", {}).items()
        ]
        yield status, answer["description"], ", or ".join(kinds)
    yield ", ".join(errors), "[errors](errors.md)", ""


def _fields(schema: Mapping[str, Any], types: str = "http-types.md") -> str:
    required = schema.get("required", ())
    rows = (
        (f"`{name}`{'*' if name in required else ''}", _words(one, types), str(one.get("description", "")))
        for name, one in schema.get("properties", {}).items()
    )
    return table(["field", "type", "meaning"], rows)


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        found: Mapping[str, Any] = document()["components"]["schemas"][schema["$ref"].removeprefix(_REF)]
        return found
    return schema


def _words(schema: Mapping[str, Any], types: str = "http-types.md") -> str:
    """A schema as a cell names it; records lead to their fields."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f"[{name}]({types}#{anchor(name)})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_words(one, types) for one in schema[key] if one != {"type": "null"}))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_words(schema['items'], types)}" if schema.get("items") else "list"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_words(inner, types)}" if isinstance(inner, dict) and inner else "object"
    limits = [says.format(schema[name]) for name, says in _CONSTRAINTS.items() if name in schema]
    word = _NAMES.get(str(kind), "any value")
    return re.sub(r"\s+", " ", f"{word}, {', '.join(limits)}" if limits else word)
