"""Traces: every call of a gateway with an OTLP endpoint is one span with GenAI names, and nothing of its content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.stories.collector import Collector, running_collector
from tests.waiting import Stopwatch, eventually

CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.guarded]
metadata = { requires_approval = true }
"""
TOOLS = '''
import asyncio


def echo(text: str) -> str:
    """Say the text again."""
    return text


def boom(reason: str) -> str:
    """Fail, always."""
    raise ValueError(reason)


async def wait(seconds: float) -> str:
    """Answer after a while."""
    await asyncio.sleep(seconds)
    return "done"


async def outer(text: str, ctx) -> str:
    """Let another tool say it."""
    return await ctx.call_tool("echo", text=text)


def outer_in_thread(text: str, ctx) -> str:
    """Let another tool say it, from a thread."""
    return ctx.call_tool_sync("echo", text=text)


def guarded() -> None:
    """Only with a person's consent."""
'''
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def gateway(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "20"}
    folder = tmp_path_factory.mktemp("traced")
    with running_gateway(folder, CONFIG, env=env, files={"tools/t.py": TOOLS}) as gateway:
        yield gateway


def execute(
    gateway: RunningGateway, tool: str, *, headers: dict[str, str] | None = None, **body: Any
) -> httpx2.Response:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(url, json=body, headers=gateway.headers | (headers or {}), timeout=20)


@requirement("CON-otel")
def test_a_call_is_one_span_with_the_names_of_the_genai_convention(
    gateway: RunningGateway, collector: Collector
) -> None:
    answer = execute(gateway, "echo", arguments={"text": "hello"}, agent="concierge").json()

    span = collector.span_of(answer["call_id"])
    assert (span.name, span.kind, span.status, span.parent_id) == ("execute_tool echo", "INTERNAL", "UNSET", "")
    assert span.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
        "gen_ai.tool.call.id": answer["call_id"],
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.description": "Say the text again.",
        "gen_ai.agent.name": "concierge",
        "jackfield.source": "local",
        "jackfield.run.id": answer["run_id"],
        "jackfield.call.status": "completed",
    }
    assert span.milliseconds >= answer["execution_time_ms"]
    assert collector.paths == {"/v1/traces"}
    assert span.resource["service.name"] == "jackfield"


@requirement("CON-otel")
def test_a_failed_call_is_an_error_that_says_its_code_and_nothing_of_its_content(
    gateway: RunningGateway, collector: Collector
) -> None:
    answer = execute(gateway, "boom", arguments={"reason": "the customer's name"}).json()

    span = collector.span_of(answer["call_id"])
    assert (span.name, span.status, span.said, span.events) == ("execute_tool boom", "ERROR", "", 0)
    assert span.attributes["error.type"] == answer["error"]["code"] == "tool_error"
    assert span.attributes["jackfield.call.status"] == "failed"
    assert "gen_ai.agent.name" not in span.attributes
    assert b"customer" not in span.bytes


@requirement("CON-otel")
def test_arguments_and_results_stay_out_of_the_span(gateway: RunningGateway, collector: Collector) -> None:
    answer = execute(gateway, "echo", arguments={"text": "a private matter"}).json()

    assert answer["result"] == "a private matter"
    assert b"private" not in collector.span_of(answer["call_id"]).bytes


@requirement("CON-otel")
def test_a_request_with_a_traceparent_gets_its_call_into_that_trace(
    gateway: RunningGateway, collector: Collector
) -> None:
    named = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
    inside = execute(gateway, "echo", headers=named, arguments={"text": "x"}).json()
    streamed = execute(gateway, "echo", headers=named | {"accept": "text/event-stream"}, arguments={"text": "x"})
    alone = execute(gateway, "echo", arguments={"text": "x"}).json()
    garbled = execute(gateway, "echo", headers={"traceparent": "00-nonsense"}, arguments={"text": "x"}).json()

    for call_id in (inside["call_id"], streamed.headers["x-call-id"]):
        span = collector.span_of(call_id)
        assert (span.trace_id, span.parent_id) == (TRACE, PARENT)
    for call_id in (alone["call_id"], garbled["call_id"]):
        span = collector.span_of(call_id)
        assert span.trace_id != TRACE
        assert not span.parent_id


@requirement("CON-otel")
@pytest.mark.parametrize("outer", ["outer", "outer_in_thread"])
def test_a_tool_that_calls_a_tool_is_the_parent_of_its_span(
    gateway: RunningGateway, collector: Collector, outer: str
) -> None:
    named = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    answer = execute(gateway, outer, headers=named, arguments={"text": "x"}).json()
    calls = httpx2.get(
        f"{gateway.url}/api/v1/calls", params={"run_id": answer["run_id"]}, headers=gateway.headers
    ).json()["calls"]
    [inner] = [call for call in calls if call["tool"] == "echo"]

    parent, child = collector.span_of(answer["call_id"]), collector.span_of(inner["id"])

    assert (child.trace_id, child.parent_id) == (parent.trace_id, parent.span_id)
    assert parent.parent_id == PARENT


@requirement("CON-otel")
def test_a_cancelled_call_is_a_span_that_says_so(gateway: RunningGateway, collector: Collector) -> None:
    stream_url = f"{gateway.url}/api/v1/tools/wait/execute"
    headers = gateway.headers | {"accept": "text/event-stream"}
    with httpx2.stream("POST", stream_url, json={"arguments": {"seconds": 60}}, headers=headers) as stream:
        call_id = stream.headers["x-call-id"]
        httpx2.post(f"{gateway.url}/api/v1/calls/{call_id}/cancel", headers=gateway.headers).raise_for_status()
        stream.read()

    span = collector.span_of(call_id)
    assert (span.status, span.attributes["jackfield.call.status"]) == ("UNSET", "cancelled")


def test_what_never_became_a_call_is_no_span(gateway: RunningGateway, collector: Collector) -> None:
    refused = execute(gateway, "echo", arguments={"text": 1})
    asked = execute(gateway, "guarded", arguments={})
    last = execute(gateway, "echo", arguments={"text": "x"}).json()

    assert (refused.status_code, asked.status_code) == (400, 202)
    collector.span_of(last["call_id"])
    assert not [span for span in collector.spans if span.name == "execute_tool guarded"]
    assert not [span for span in collector.spans if span.attributes.get("error.type") == "invalid_arguments"]


@requirement("CON-otel")
def test_a_gateway_that_stops_sends_the_spans_it_still_holds(tmp_path: Path) -> None:
    with running_collector() as collector:
        env = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/spans",
            "OTEL_BSP_SCHEDULE_DELAY": "600000",
            "OTEL_SERVICE_NAME": "lobby",
        }
        with running_gateway(tmp_path, CONFIG, env=env, files={"tools/t.py": TOOLS}) as gateway:
            calls = [execute(gateway, "echo", arguments={"text": str(n)}).json()["call_id"] for n in range(20)]
            assert collector.spans == []
            assert gateway.stop() == 0

        assert sorted(span.call_id for span in collector.spans) == sorted(calls)
        assert collector.paths == {"/spans"}
        assert {span.resource["service.name"] for span in collector.spans} == {"lobby"}


def test_a_collector_that_hangs_holds_up_neither_calls_nor_the_stop(tmp_path: Path) -> None:
    with running_collector() as collector:
        collector.answering.clear()
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "20"}
        with running_gateway(tmp_path, CONFIG, env=env, files={"tools/t.py": TOOLS}) as gateway:
            first = execute(gateway, "echo", arguments={"text": "x"}).json()
            collector.span_of(first["call_id"])
            assert execute(gateway, "echo", arguments={"text": "y"}).json()["result"] == "y"
            watch = Stopwatch()
            assert gateway.stop() == 0

        assert watch.seconds() < 8
        assert "The last spans were not taken within 1 s and are lost." in gateway.log


def test_without_the_packages_the_gateway_works_and_says_once_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'opentelemetry'\")")
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(hidden.parent)}

    with running_gateway(tmp_path, CONFIG, env=env, files={"tools/t.py": TOOLS}) as gateway:
        answers = [execute(gateway, "echo", arguments={"text": "x"}).json()["result"] for _ in range(3)]
        log = gateway.log

    assert answers == ["x", "x", "x"]
    assert [line.partition(": ")[2] for line in log.splitlines() if "OTEL" in line] == [
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent: No module named 'opentelemetry'. "
            "Cure: pip install 'jackfield[otel]'"
        )
    ]


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded(tmp_path: Path) -> None:
    tool = (
        'import sys\n\n\ndef loaded() -> bool:\n    """Whether it is."""\n    return "opentelemetry" in sys.modules\n'
    )
    with running_gateway(tmp_path, CONFIG, files={"tools/t.py": tool}) as gateway:
        assert execute(gateway, "loaded", arguments={}).json()["result"] is False


def test_the_spans_of_many_calls_arrive_once_each(gateway: RunningGateway, collector: Collector) -> None:
    before = len(collector.spans)
    with httpx2.Client(headers=gateway.headers, timeout=20) as client:
        url = f"{gateway.url}/api/v1/tools/echo/execute"
        calls = {client.post(url, json={"arguments": {"text": "x"}}).json()["call_id"] for _ in range(300)}

    eventually(lambda: len(collector.spans) >= before + 300)
    assert sorted(span.call_id for span in collector.spans if span.call_id in calls) == sorted(calls)
