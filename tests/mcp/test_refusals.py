"""Calls and reads that `/mcp` refuses, in both eras: each is on record once."""

from functools import partial
from pathlib import Path

import pytest

from jackfield.calls.rows import CallFilter, call_page
from jackfield.model.call import CallStatus
from tests.mcp.scene import mcp_scene
from tests.requirement import requirement

ASKED = (
    ("tools/call", {"name": "nothing", "arguments": {"a": 1}}),
    ("tools/call", {"name": "echo", "arguments": {"text": 5}}),
    ("resources/read", {"uri": "file:///nowhere"}),
    ("prompts/get", {"name": "nothing"}),
)


@requirement("OPS-REFUSAL-recorded")
@pytest.mark.parametrize("is_modern", [True, False])
async def test_what_is_refused_is_on_record(tmp_path: Path, *, is_modern: bool) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = None if is_modern else await scene.shake_hands()
        for method, params in ASKED:
            if session is None:
                await scene.ask(method, params, headers={} if "name" in params else {"mcp-name": str(params["uri"])})
            else:
                await scene.ask_in(session, method, **params)
        found = CallFilter(status=(CallStatus.REFUSED,))
        calls = (await scene.gateway.store.read(partial(call_page, found, limit=10))).calls
        told = sorted((call.kind.value, call.tool, call.error and call.error.code, call.count) for call in calls)
        assert told == [
            ("prompt", "nothing", "prompt_not_found", 1),
            ("resource", "file:///nowhere", "resource_not_found", 1),
            ("tool", "echo", "invalid_arguments", 1),
            ("tool", "nothing", "tool_not_found", 1),
        ]
        assert b'{"a":1}' in {bytes(call.arguments) for call in calls}
        assert sum(scene.gateway.pipeline.counters.refusals.values()) == len(calls)
