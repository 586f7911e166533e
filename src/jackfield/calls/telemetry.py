"""One span a call, for whoever collects traces: what the executor asks for, and whether there is anybody to ask.

Above: the executor begins and ends spans; the doors say which trace a request belongs to. Below: `tracing.py`, the only
module that knows OpenTelemetry. It is loaded when an endpoint is set, so that a gateway without one pays nothing.
"""

import contextvars
import importlib
import logging
from collections.abc import Mapping
from typing import Protocol, cast

from jackfield.catalog.catalog import Entry
from jackfield.model.call import Call
from jackfield.model.trace_context import IncomingTrace, incoming_trace

log = logging.getLogger("jackfield.telemetry")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Either of OpenTelemetry's own variables says where spans go."""
INHABITANT = "jackfield.calls.tracing"


class CallSpan(Protocol):
    """The span of one call that is under way."""

    context: contextvars.Context
    """What the tool runs in, so that the tools it calls become children of this span."""

    def settled(self, call: Call) -> None:
        """The call is over, and this is how."""

    def broke_off(self, fault: Exception) -> None:
        """It came to nothing: its source or the store would not have it."""


class Telemetry(Protocol):
    """Where spans go. Nothing here blocks or raises; spans that cannot be delivered are dropped."""

    def begin(self, call: Call, entry: Entry | None) -> CallSpan:
        """A call begins, in the trace of its request or of the tool that made it."""

    async def close(self) -> None:
        """Send what is left, within a second."""


class _Inhabitant(Protocol):
    """What `tracing.py` has to offer."""

    def open_tracing(self, gateway_id: str) -> Telemetry: ...


def open_telemetry(environment: Mapping[str, str], *, gateway_id: str) -> Telemetry | None:
    """Spans for whoever is named in `environment`; None when nobody is, or the packages for it are missing."""
    variable = next((name for name in ENDPOINTS if environment.get(name, "").strip()), None)
    if variable is None:
        return None
    try:
        inhabitant = cast("_Inhabitant", importlib.import_module(INHABITANT))
    except ImportError as fault:
        log.warning("%s is set, but no spans are sent: %s. Cure: pip install 'jackfield[otel]'", variable, fault)
        return None
    return inhabitant.open_tracing(gateway_id)


def continue_trace(headers: Mapping[bytes, bytes]) -> None:
    """Calls of this task belong to the trace that the request names, if it names one."""
    parent = headers.get(b"traceparent")
    if parent is not None:
        state = headers.get(b"tracestate")
        decoded = None if state is None else state.decode("latin-1")
        incoming_trace.set(IncomingTrace(parent.decode("latin-1"), decoded))
