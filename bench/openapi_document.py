"""An OpenAPI document in the shape of a large public one: hundreds of operations over shared and cyclic schemas.

Above: `rows/openapi.py`, and the tests of `kind = "openapi"`. Made here, of nobody's words.
"""

from typing import Any

import msgspec

NOUNS = ("account", "invoice", "order", "parcel", "device", "ticket", "report", "member", "branch", "release")
OPERATIONS_PER_RESOURCE = 5


def large_document(operations: int = 1_000, *, server: str = "/v1") -> bytes:
    """A document with so many operations, in fives per resource, each answering with half a dozen shapes."""
    resources = [f"{NOUNS[n % len(NOUNS)]}{n}" for n in range(operations // OPERATIONS_PER_RESOURCE)]
    schemas: dict[str, Any] = _shared()
    paths: dict[str, Any] = {}
    for number, name in enumerate(resources):
        schemas |= _schemas(name, next_one=resources[(number + 1) % len(resources)])
        paths |= _paths(name)
    document = {
        "openapi": "3.0.3",
        "info": {"title": "A large service", "version": "2026-01-01"},
        "servers": [{"url": server}],
        "tags": [{"name": noun, "description": f"All about one {noun}."} for noun in NOUNS],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {
                "page": _query("page", {"type": "integer", "minimum": 1, "default": 1}),
                "per_page": _query("per_page", {"type": "integer", "minimum": 1, "maximum": 100, "default": 30}),
                "sort": _query("sort", {"type": "string", "enum": ["created", "updated", "name"]}),
            },
            "responses": {"Problem": _answer("#/components/schemas/Problem", "It did not work.")},
        },
    }
    return msgspec.json.encode(document)


def _shared() -> dict[str, Any]:
    return {
        "Problem": {
            "type": "object",
            "properties": {"message": {"type": "string"}, "causes": {"type": "array", "items": _ref("Problem")}},
        },
        "Owner": {
            "type": "object",
            "required": ["login"],
            "properties": {
                "login": {"type": "string", "pattern": "^[a-z0-9-]+$"},
                "email": {"type": "string", "format": "email", "nullable": True},
                "team": _ref("Team"),
            },
        },
        "Team": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "lead": _ref("Owner"),
                "parent": {"nullable": True, "allOf": [_ref("Team")]},
            },
        },
        "Condition": {
            "oneOf": [
                {"type": "string"},
                {"type": "object", "properties": {"all": {"type": "array", "items": _ref("Condition")}}},
                {"type": "object", "properties": {"not": _ref("Condition")}},
            ]
        },
    }


def _schemas(name: str, *, next_one: str) -> dict[str, Any]:
    """What is sent to a resource, and the larger thing that it answers with. Those are a ring."""
    fields: dict[str, Any] = {
        f"field_{n}": {"type": "string", "description": f"The field number {n} of one {name}.", "maxLength": 200}
        for n in range(12)
    }
    sent = {
        **fields,
        "id": {"type": "string", "readOnly": True},
        "name": {"type": "string", "minLength": 1, "description": f"What the {name} is called."},
        "owner": _ref("Owner"),
        "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 50},
        "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "rule": _ref("Condition"),
        "follows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}},
    }
    return {
        f"{name}_input": {"type": "object", "required": ["name"], "properties": sent},
        f"{name}": {
            "allOf": [
                _ref(f"{name}_input"),
                {
                    "type": "object",
                    "properties": {
                        **{f"shown_{n}": {"type": "string", "description": f"Text {n}."} for n in range(30)},
                        "next": _ref(next_one),
                        "parent": _ref(name),
                    },
                },
            ]
        },
    }


def _paths(name: str) -> dict[str, Any]:
    tag = name.rstrip("0123456789")
    one = {"$ref": f"#/components/schemas/{name}"}
    body = {"required": True, "content": {"application/json": {"schema": _ref(f"{name}_input")}}}

    def operation(does: str, **more: Any) -> dict[str, Any]:
        return {
            "operationId": f"{does}_{name}",
            "summary": f"{does.capitalize()} one {name}",
            "description": f"How to {does} a thing of the kind {name}. " * 4,
            "tags": [tag],
            "responses": {
                "200": _answer(one["$ref"], "It worked."),
                "default": {"$ref": "#/components/responses/Problem"},
            },
            **more,
        }

    shared = [{"$ref": f"#/components/parameters/{name}"} for name in ("page", "per_page", "sort")]
    by_id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        f"/{name}": {
            "get": operation("list", parameters=shared),
            "post": operation("create", requestBody=body),
        },
        f"/{name}/{{id}}": {
            "parameters": [by_id],
            "get": operation("read"),
            "put": operation("replace", requestBody=body),
            "delete": operation("remove"),
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": f"The {name} of the list.", "schema": schema}


def _answer(reference: str, text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": {"$ref": reference}}}}
