"""Calls as OpenTelemetry spans with GenAI names, sent by OTLP over HTTP (`jackfield[otel]`).

Above: `telemetry.py`, which loads this when there is somebody to send to. Below: OpenTelemetry's SDK, which reads its
own OTEL_* variables. Names: https://github.com/open-telemetry/semantic-conventions-genai, "Execute tool span".
Arguments, results and the words of errors stay out: they are the caller's.
"""

import asyncio
import contextvars
import logging
import threading

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from jackfield import __version__
from jackfield.catalog.catalog import Entry
from jackfield.errors import Refused
from jackfield.model.call import Call, CallStatus
from jackfield.model.tool import Tool, ToolKind
from jackfield.model.trace_context import IncomingTrace, incoming_trace

log = logging.getLogger("jackfield.telemetry")

FLUSH_SECONDS = 1.0
"""How long a gateway that stops waits for the collector to take the last spans."""
LONGEST_DESCRIPTION = 1_000

_w3c = TraceContextTextMapPropagator()


class OtelTelemetry:
    """Spans to an OTLP endpoint."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("jackfield", __version__)

    def begin(self, call: Call, entry: Entry | None) -> "OtelSpan":
        """The span of a call, as a child of what is under way in this task: a tool's call, or a request's trace."""
        attributes = attributes_of(call, None if entry is None else entry.tool)
        span = self._tracer.start_span(
            f"execute_tool {call.tool}", context=_parent(), kind=SpanKind.INTERNAL, attributes=attributes
        )
        return OtelSpan(span)

    async def close(self) -> None:
        """Send what is left. A thread does it that nobody has to wait for: the SDK would, for half a minute."""
        flushing = threading.Thread(target=self._provider.shutdown, name="jackfield-spans", daemon=True)
        flushing.start()
        await asyncio.to_thread(flushing.join, FLUSH_SECONDS)
        if flushing.is_alive():
            log.warning("The last spans were not taken within %g s and are lost.", FLUSH_SECONDS)


class OtelSpan:
    """One call's span."""

    __slots__ = ("_span", "context", "trace_id")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.trace_id = format(span.get_span_context().trace_id, "032x")
        self.context = contextvars.copy_context()
        self.context.run(otel_context.attach, trace.set_span_in_context(span))
        # What a tool asks of another gateway belongs to this span.
        carried: dict[str, str] = {}
        self.context.run(_w3c.inject, carried)
        if "traceparent" in carried:
            self.context.run(incoming_trace.set, IncomingTrace(carried["traceparent"], carried.get("tracestate")))

    def settled(self, call: Call) -> None:
        self._span.set_attribute("jackfield.call.status", call.status.value)
        for note in call.hooks:
            told: dict[str, str | float] = {
                "jackfield.hook.name": note.name,
                "jackfield.hook.on": note.on,
                "jackfield.hook.ms": note.ms,
            }
            self._span.add_event("jackfield.hook", told | {"jackfield.hook.decision": note.decision})
        if call.status in (CallStatus.FAILED, CallStatus.REFUSED):
            self._failed(call.error.code if call.error is not None else "_OTHER")
        self._span.end()

    def broke_off(self, fault: Exception) -> None:
        self._failed(fault.code if isinstance(fault, Refused) else type(fault).__qualname__)
        self._span.end()

    def _failed(self, code: str) -> None:
        self._span.set_attribute("error.type", code)
        self._span.set_status(StatusCode.ERROR)


def open_tracing(gateway_id: str) -> OtelTelemetry:
    """Begin to send spans to where the environment says."""
    ours = Resource(
        {"service.name": "jackfield", "service.version": __version__, "service.instance.id": gateway_id},
    )
    resource = Resource.create().merge(ours).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTelemetry(provider)


def attributes_of(call: Call, tool: Tool | None) -> dict[str, str]:
    """What is known of a call when it begins."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "jackfield.source": call.source,
        "jackfield.run.id": call.run_id,
    }
    if tool is not None:
        # The convention's words: a `function` is run by the client, an `extension` on the agent's side, as ours are.
        attributes["gen_ai.tool.type"] = "function" if tool.kind is ToolKind.FUNCTION else "extension"
        if tool.description:
            attributes["gen_ai.tool.description"] = tool.description[:LONGEST_DESCRIPTION]
    if call.agent is not None:
        attributes["gen_ai.agent.name"] = call.agent
    return attributes


def _parent() -> otel_context.Context | None:
    """What the span hangs on; None: what OpenTelemetry has in this task, or nothing."""
    incoming = incoming_trace.get()
    if incoming is None or trace.get_current_span().get_span_context().is_valid:
        return None
    headers = {"traceparent": incoming.parent}
    if incoming.state is not None:
        headers["tracestate"] = incoming.state
    return _w3c.extract(headers)
