"""Spans of calls, as an in-memory collector gets them; `tests/stories/test_telemetry.py` has a real one."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from jackfield.calls.telemetry import continue_trace, open_telemetry
from jackfield.calls.tracing import OtelTelemetry, attributes_of
from jackfield.errors import InvalidArguments, SourceUnavailable
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Invocation
from tests.calls.harness import FunctionSource, Harness, pipeline_harness
from tests.requirement import requirement
from tests.store.calls import a_call

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def echo(invocation: Invocation) -> Outcome:
    return done(invocation.arguments)


@pytest.fixture
def collected() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def harness(collected: InMemorySpanExporter, tmp_path: Path) -> AsyncIterator[Harness]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(collected))
    source = FunctionSource()
    source.offer("echo", echo, input_schema={"type": "object", "maxProperties": 0})
    async with pipeline_harness(source, tmp_path) as made:
        made.executor.telemetry = OtelTelemetry(provider)
        yield made


def only(collected: InMemorySpanExporter) -> ReadableSpan:
    [span] = collected.get_finished_spans()
    return span


def attributes(span: ReadableSpan) -> Mapping[str, object]:
    return span.attributes or {}


async def test_a_call_that_its_source_would_not_take_is_a_span_with_that_error(
    harness: Harness, collected: InMemorySpanExporter
) -> None:
    harness.source.fault = ConnectionError("no route")
    await harness.source_registry.refresh()
    with pytest.raises(SourceUnavailable):
        await harness.call("echo")

    span = only(collected)
    assert (span.name, span.status.status_code) == ("execute_tool echo", StatusCode.ERROR)
    assert attributes(span)["error.type"] == "source_unavailable"
    assert "jackfield.call.status" not in attributes(span)


async def test_a_refused_request_is_no_span(harness: Harness, collected: InMemorySpanExporter) -> None:
    with pytest.raises(InvalidArguments):
        await harness.call("echo", {"text": "x"})

    assert collected.get_finished_spans() == ()


async def test_a_call_that_a_stopping_gateway_interrupted_is_a_span_with_that_error(
    harness: Harness, collected: InMemorySpanExporter
) -> None:
    began = asyncio.Event()

    async def hold(_: Invocation) -> Outcome:
        began.set()
        await asyncio.Event().wait()
        return done(None)

    harness.source.offer("hold", hold)
    await harness.source_registry.refresh()
    call = asyncio.create_task(harness.call("hold"))
    await began.wait()
    await harness.pipeline.close(grace=0.01)
    await call

    assert attributes(only(collected))["error.type"] == "interrupted"


async def test_a_call_whose_caller_went_away_still_ends_its_span(
    harness: Harness, collected: InMemorySpanExporter
) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def hold(_: Invocation) -> Outcome:
        began.set()
        await go.wait()
        return done(None)

    harness.source.offer("hold", hold)
    await harness.source_registry.refresh()
    caller = asyncio.create_task(harness.call("hold"))
    await began.wait()
    caller.cancel()
    await asyncio.wait([caller])
    go.set()
    await harness.pipeline.close(grace=5)

    assert attributes(only(collected))["jackfield.call.status"] == "completed"


@requirement("CON-otel")
async def test_the_trace_of_a_request_is_that_of_its_task_and_of_no_other(
    harness: Harness, collected: InMemorySpanExporter
) -> None:
    async def request(headers: dict[bytes, bytes]) -> None:
        continue_trace(headers)
        await harness.call("echo")

    header = {b"traceparent": f"00-{TRACE}-{PARENT}-01".encode(), b"tracestate": b"vendor=7"}
    await asyncio.gather(request(header), request({}), request({b"traceparent": b"00-\xff-x"}))

    inside, *others = sorted(collected.get_finished_spans(), key=lambda span: span.parent is None)
    assert inside.parent is not None
    assert f"{inside.parent.trace_id:032x}-{inside.parent.span_id:016x}" == f"{TRACE}-{PARENT}"
    assert inside.parent.trace_state.get("vendor") == "7"
    assert [span.parent for span in others] == [None, None]


async def test_a_trace_that_is_not_sampled_gets_no_span_from_us(
    harness: Harness, collected: InMemorySpanExporter
) -> None:
    continue_trace({b"traceparent": f"00-{TRACE}-{PARENT}-00".encode()})

    await harness.call("echo")

    assert collected.get_finished_spans() == ()


def test_a_tool_that_the_client_runs_is_a_function_and_a_long_description_is_cut() -> None:
    tool = Tool(source="request", name="ask", kind=ToolKind.FUNCTION, description="x" * 5_000)

    told = attributes_of(a_call(), tool)

    assert told["gen_ai.tool.type"] == "function"
    assert told["gen_ai.tool.description"] == "x" * 1_000
    assert "gen_ai.tool.type" not in attributes_of(a_call(), None)


@pytest.mark.parametrize("environment", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, {"OTEL_SERVICE_NAME": "x"}])
def test_nobody_to_send_to_is_no_telemetry(environment: dict[str, str]) -> None:
    assert open_telemetry(environment, gateway_id="gw_1") is None
