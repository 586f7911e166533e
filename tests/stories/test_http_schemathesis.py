"""The OpenAPI document is true: many requests made from it, good and bad, and every answer held against it."""

import re
from collections.abc import Generator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks, positive_data_acceptance
from schemathesis.config._checks import NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test

from jackfield.http.openapi import openapi_document
from tests.examples import examples
from tests.harness.api import ADMIN_KEY, Api, open_api
from tests.routes import DOCUMENTED

EXAMPLES = examples(8)
ANYTHING = """
[[tools]]
name = "anything"
description = "Takes whatever an object can hold."
executionType = "internal"
inputSchema = { type = "object" }
"""
ENDLESS = r"^/(mcp|api/(v1/tools/changes|v1/calls/stream|tools/stream|(smart-)?spaces/\{id\}/stream))$"
"""Their good answers never end; `test_http_streams.py` reads them. Their refusals are asked for below.

`/mcp` speaks a protocol of its own, of which `tests/mcp` knows more than the document."""

DEFINITIONS = frozenset(
    {
        "/api/v1/tools",
        "/api/v1/tools/{name}",
        "/api/v1/sources/test/tool",
        "/api/v1/sources/{name}/tools",
        "/api/sessions",
        "/api/sessions/{id}/messages",
    }
)
"""They take tools, about which a JSON Schema cannot say all: that a url is one, that a schema within it is one."""
CONVERSATIONS = frozenset(
    {"/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses/{id}"}
)
"""They take items and tools in every spelling that clients use, and parameters that make sense only together."""

AGENTS = frozenset({"/api/agents", "/api/agents/{id}", "/api/agents/{id}/goals", "/api/agents/{id}/plans"})
"""They take models by their names, servers, times and zones; and 7.0, an integer to a schema, is no priority."""

PREFERENCES = frozenset({"/api/v1/tools/config", "/api/v1/tools/config/approval"})
"""They are about one key, or about all: not both at once."""

READS = frozenset({"/api/spaces/{id}/read", "/api/smart-spaces/{id}/read"})
"""As with priorities: 7.0 is no place in a stream."""

KEYS = frozenset({"/api/v1/keys", "/api/v1/keys/{name}/rotate"})
"""They take agents, groups and spaces by their names; and 7.0 is no number of seconds."""

FIGURES = frozenset({"/api/v1/overview"})
"""They are of one name at a time."""

DOCUMENTED_IN_PART = DEFINITIONS | CONVERSATIONS | AGENTS | PREFERENCES | READS | KEYS | FIGURES

document = schemathesis.openapi.from_dict(openapi_document(DOCUMENTED))
# One request, one key: invented second keys are refused by design, which `test_http_keys.py` shows.
document.config.generation.update(with_security_parameters=False)
# A body that is invalid for being long may be longer than `max_body` of this gateway, which is then what is refused.
document.config.checks.negative_data_rejection.expected_statuses = [
    *NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES,
    "413",
]
OPERATIONS = sorted(f"{route.method} {route.path}" for route in DOCUMENTED if not re.match(ENDLESS, route.path))


@document.hook
def map_path_parameters(_context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Every other name is that of a real tool, so that requests get further than 404."""
    if parameters and "name" in parameters and len(str(parameters["name"])) % 2:
        return parameters | {"name": "anything"}
    return parameters


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway"), extra=ANYTHING) as opened:
        yield opened


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_is_one_that_the_document_promises(operation: str, api: Api) -> None:
    """As `schema.parametrize()` does it, which invents the requests of all operations in each worker's collection."""
    method, path = operation.split()
    unsaid = [positive_data_acceptance] if path in DOCUMENTED_IN_PART else []
    headers = {"x-api-key": ADMIN_KEY}

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(base_url=api.gateway.url, headers=headers, timeout=30, excluded_checks=unsaid)

    load_all_checks()
    build_operation_test(
        config=document.config,
        operation=document[path][method],
        test_func=check,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()


@pytest.mark.parametrize("path", ["/api/v1/tools/changes", "/api/v1/calls/stream", "/api/tools/stream"])
def test_the_refusals_of_streaming_routes_are_as_documented_too(api: Api, path: str) -> None:
    operation = document[path]["GET"]
    for headers, status in (({}, 401), ({"x-api-key": "sandbox-key"}, 403), ({"host": "evil.example"}, 421)):
        answer = operation.Case().call(base_url=api.gateway.url, headers=headers, timeout=30)
        assert answer.status_code == status
        operation.validate_response(answer)
