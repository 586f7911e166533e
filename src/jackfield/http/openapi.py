"""The OpenAPI document, made from the same table that is served.

Above: `routes.py`. Below: `routing.py`. Every status that a route can return is in it: its own, and the
errors that follow from what it takes (a key, a body, a query).
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from jackfield import __version__
from jackfield.http.routing import JSON_MEDIA, SSE_MEDIA, UNGUARDED, Permission, ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.protocol.errors import ErrorAnswer

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"apiKey": []}, {"secretKey": []}, {"login": []}]
_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "secretKey": {"type": "apiKey", "in": "header", "name": "x-secret-key"},
    "login": {"type": "apiKey", "in": "cookie", "name": "jackfield"},
}
_REFUSALS = {
    400: "The body or a parameter is invalid",
    401: "No key, or a wrong one",
    403: "The key may not do this, or the request comes from a foreign page",
    404: "Not found, or not visible to this key",
    408: "The body was not received in time",
    409: "The current state does not allow this",
    410: "It has expired",
    413: "The body is larger than `[server] max_body`",
    415: "The body is not declared as JSON",
    421: "The Host header names another server",
    429: "Too many calls of this tool; `Retry-After` says when to come back",
    500: "A fault of the gateway; its log has the details under the reference in the message",
    502: "The server that the source stands for failed; `error.code` says how",
    503: "The source, the store or the gateway itself is not ready",
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer", "minimum": 0}}}


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole document."""
    routes = tuple(route for route in routes if not route.is_page)
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Jackfield",
            "version": __version__,
            "summary": "The panel where an AI agent's tools plug in",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY_SCHEMES},
    }


def error_statuses(route: Route) -> tuple[int, ...]:
    """Every error status of a route: its own, and those of its kind."""
    statuses = {*route.errors, 400, 403, 500}
    if route.path not in UNGUARDED:
        statuses.add(421)
    if not route.always_open:
        statuses.add(503)
    if route.scope is not None or route.takes_key:
        statuses |= {401, 429}
    if route.body is not None:
        statuses |= {408, 413, 415}
    return tuple(sorted(statuses - set(route.responses)))


class _Schemas:
    """The types of all routes as components, and where each is found."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        types: list[Any] = [ErrorAnswer]
        for route in routes:
            types += [kind for kind in (route.body, route.query) if kind is not None]
            types += [header.type for header in route.headers]
            types += [body.type for body in route.responses.values() if body.type is not None]
        unique = list({id(kind): kind for kind in types}.values())
        schemas, self.components = msgspec.json.schema_components(unique, ref_template=_REF)
        self._by_type = {id(kind): schema for kind, schema in zip(unique, schemas, strict=True)}

    def of(self, kind: Any) -> dict[str, Any]:
        return self._by_type[id(kind)]

    def struct(self, kind: Any) -> dict[str, Any]:
        """The schema of a struct itself; those of a query become parameters."""
        schema: dict[str, Any] = self.components[self.of(kind)["$ref"].rpartition("/")[2]]
        return schema


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation or route.handler.__name__,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route, schemas),
        "responses": _responses(route, schemas),
        "security": [] if route.scope is None and not route.takes_key else list(_SECURITY),
    }
    if route.takes_key and route.scope is None:
        operation["security"].append({})
    if route.scope is not None:
        operation["description"] = f"Needs a key with {_words_for(route.scope)}."
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_is_optional,
            "content": {JSON_MEDIA: {"schema": schemas.of(route.body)}},
        }
    return operation


def _words_for(scope: Scope | Permission) -> str:
    return scope.description.replace("'", "`") if isinstance(scope, Permission) else f"the scope `{scope.value}`"


def _parameters(route: Route, schemas: _Schemas) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(route.path)
    ]
    if route.query is not None:
        query = schemas.struct(route.query)
        required = query.get("required", ())
        found += [
            _query_parameter(name, schema, required=name in required) for name, schema in query["properties"].items()
        ]
    found += [
        {"name": header.name, "in": "header", "description": header.description, "schema": schemas.of(header.type)}
        for header in route.headers
    ]
    return found


def _query_parameter(name: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """A field of a query struct: `x: T | None = None` is a parameter that may be left out, never null."""
    if "anyOf" in schema:
        schema = next(kind for kind in schema["anyOf"] if kind != {"type": "null"})
    schema = dict(schema)
    parameter: dict[str, Any] = {"name": name, "in": "query", "required": required}
    if description := schema.pop("description", None):
        parameter["description"] = description
    return parameter | {"schema": schema}


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    responses = {str(status): _answer(body, schemas) for status, body in route.responses.items()}
    error = {JSON_MEDIA: {"schema": schemas.of(ErrorAnswer)}}
    for status in error_statuses(route):
        responses[str(status)] = {"description": _REFUSALS[status], "content": error}
        if status in (429, 503):
            responses[str(status)]["headers"] = _RETRY_AFTER
    return responses


def _answer(body: ResponseSpec, schemas: _Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": body.description}
    if body.headers:
        answer["headers"] = {
            name: {"description": says, "schema": {"type": "string"}} for name, says in body.headers.items()
        }
    if body.type is not None:
        answer["content"] = {body.media: {"schema": schemas.of(body.type)}}
    elif body.media != JSON_MEDIA:
        answer["content"] = {body.media: {"schema": {"type": "string"}}}
    if body.streams:
        answer.setdefault("content", {})[SSE_MEDIA] = {"schema": {"type": "string"}}
    return answer
