"""A real OTLP/HTTP collector on loopback, in a thread: takes spans as protobuf and keeps them as plain data."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from tests.waiting import eventually


class ReceivedSpan(Struct, frozen=True, kw_only=True):
    """One span as it arrived; ids are hex, no parent is ''."""

    name: str
    kind: str
    status: str
    said: str
    """The status's description."""
    trace_id: str
    span_id: str
    parent_id: str
    milliseconds: float
    attributes: dict[str, str]
    events: int
    resource: dict[str, str]
    bytes: bytes

    @property
    def call_id(self) -> str:
        return self.attributes["gen_ai.tool.call.id"]


class Collector:
    """`answering` cleared: requests are taken and never answered, as by a collector that hangs."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[ReceivedSpan] = []
        self.paths: set[str] = set()
        self.answering = threading.Event()
        self.answering.set()

    def span_of(self, call_id: str) -> ReceivedSpan:
        """The one span of this call, when it has arrived."""
        eventually(lambda: [span for span in self.spans if span.call_id == call_id])
        [found] = [span for span in self.spans if span.call_id == call_id]
        return found

    def take(self, path: str, body: bytes) -> None:
        self.paths.add(path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            told = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            self.spans += [_read(span, told) for scope in resource.scope_spans for span in scope.spans]


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector, and its port free again at the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            collector.answering.wait()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
            """Say nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector = Collector(server.server_address[1])
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        serving.start()
        try:
            yield collector
        finally:
            collector.answering.set()
            server.shutdown()
            serving.join(5)


def _read(span: ProtoSpan, resource: dict[str, str]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=ProtoSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        status=type(span.status).StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        said=span.status.message,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        milliseconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6,
        attributes={pair.key: pair.value.string_value for pair in span.attributes},
        events=len(span.events),
        resource=resource,
        bytes=span.SerializeToString(),
    )
