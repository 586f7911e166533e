"""What hooks do is in the trace."""

from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from jackfield.calls.tracing import OtelTelemetry
from tests.hooks.harness import execute, hooked
from tests.hooks.test_hooks import AFTER, BEFORE, DECIDING
from tests.requirement import requirement


def hooks_in(span: ReadableSpan) -> list[tuple[object, object]]:
    assert {event.name for event in span.events} == {"jackfield.hook"}
    told = [event.attributes or {} for event in span.events]
    assert all(isinstance(one["jackfield.hook.ms"], float) for one in told)
    return [(one["jackfield.hook.name"], one["jackfield.hook.decision"]) for one in told]


@requirement("HOOK-traced")
async def test_what_each_hook_did_is_in_the_trace_also_of_a_call_that_it_denied(tmp_path: Path) -> None:
    collected, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(collected))
    async with hooked(tmp_path, DECIDING, BEFORE + AFTER) as (gateway, client):
        gateway._executor.telemetry = OtelTelemetry(provider)
        assert (await execute(client, "echo", text="a mail")).json()["result"] == {"said": "[mail]"}
        assert (await execute(client, "echo", text="no")).status_code == 403
        [refused] = (await client.get("/api/v1/calls?status=refused")).json()["calls"]
    changed, denied = collected.get_finished_spans()
    assert hooks_in(changed) == [("decide", "allow"), ("review", "replace")]
    assert hooks_in(denied) == [("decide", "deny")]
    told = denied.attributes or {}
    assert (told["error.type"], told["jackfield.call.status"]) == ("denied_by_hook", "refused")
    assert denied.status.status_code is StatusCode.ERROR
    assert told["gen_ai.tool.call.id"] == refused["id"]
