"""One span a call, and what a call brings along from other gateways: its trace, its hops, its time limit.

Above: the executor begins and ends spans; handlers say which trace a request belongs to. Below: `tracing.py`, the only
module that knows OpenTelemetry. It is loaded when an endpoint is set, so that a gateway without one pays nothing.
"""

import contextvars
import importlib
import logging
import re
from collections.abc import Mapping
from typing import Protocol, cast

from jackfield.catalog.catalog import Entry
from jackfield.errors import BadRequest, CallLoop
from jackfield.model.call import Call
from jackfield.model.trace_context import (
    MOST_HOPS,
    TIMEOUT_HEADER,
    VIA_HEADER,
    IncomingTrace,
    incoming_trace,
    via,
)

log = logging.getLogger("jackfield.telemetry")

_VIA = VIA_HEADER.encode()
_TIMEOUT = TIMEOUT_HEADER.encode()
LONGEST_WAY = 4_000
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Either of OpenTelemetry's own variables says where spans go."""
TRACING = "jackfield.calls.tracing"


class CallSpan(Protocol):
    """The span of one call that is under way."""

    context: contextvars.Context
    """What the tool runs in, so that the tools it calls become children of this span."""
    trace_id: str
    """The trace that it belongs to, as W3C spells it."""

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


class _TracingModule(Protocol):
    """What `tracing.py` has to offer."""

    def open_tracing(self, gateway_id: str) -> Telemetry: ...


def open_telemetry(environment: Mapping[str, str], *, gateway_id: str) -> Telemetry | None:
    """Spans for whoever is named in `environment`; None when nobody is, or the packages for it are missing."""
    variable = next((name for name in ENDPOINTS if environment.get(name, "").strip()), None)
    if variable is None:
        return None
    try:
        tracing = cast("_TracingModule", importlib.import_module(TRACING))
    except ImportError as fault:
        log.warning("%s is set, but no spans are sent: %s. Cure: pip install 'jackfield[otel]'", variable, fault)
        return None
    return tracing.open_tracing(gateway_id)


def continue_trace(headers: Mapping[bytes, bytes]) -> None:
    """Calls of this task belong to the trace that the request names, if it names one."""
    parent = headers.get(b"traceparent")
    if parent is not None:
        state = headers.get(b"tracestate")
        decoded = None if state is None else state.decode("latin-1")
        incoming_trace.set(IncomingTrace(parent.decode("latin-1"), decoded))


def continue_trace_context(headers: Mapping[bytes, bytes], *, cluster_id: str, tool: str) -> int | None:
    """Calls of this task go on from where the request comes; gives the time it leaves them in ms, if it says.

    A call that was here before is refused, and one that has come through too many gateways, so that gateways of
    gateways never ask each other in circles.
    """
    if b"traceparent" in headers:
        continue_trace(headers)
    if (said := headers.get(_VIA)) is not None:
        via.set(_hops(said, cluster_id=cluster_id, tool=tool))
    left = headers.get(_TIMEOUT)
    if left is None:
        return None
    if not left.isdigit() or len(left) > 12 or int(left) == 0:  # noqa: PLR2004 - more than any call may take
        raise BadRequest(f"The header {TIMEOUT_HEADER} must be whole milliseconds above 0.", param=TIMEOUT_HEADER)
    return int(left)


def _hops(said: bytes, *, cluster_id: str, tool: str) -> tuple[str, ...]:
    if len(said) > LONGEST_WAY:
        raise BadRequest(f"The header {VIA_HEADER} is far too long.", param=VIA_HEADER)
    hops = tuple(part for one in said.decode("latin-1").split(",") if (part := one.strip()))
    if not all(map(_CLUSTER_ID.fullmatch, hops)):
        raise BadRequest(f"The header {VIA_HEADER} names houses by letters, digits and '_'.", param=VIA_HEADER)
    if cluster_id in hops:
        raise CallLoop(
            f"The call of '{tool[:100]}' came back to this gateway, which had it passed on {len(hops)} "
            f"{'hop' if len(hops) == 1 else 'hops'} ago. Two gateways offer each other's tools; "
            "take the tool out of one of the two with allowed_tools."
        )
    if len(hops) > MOST_HOPS:
        raise CallLoop(
            f"The call of '{tool[:100]}' has come through {len(hops)} gateways; {MOST_HOPS} are as many as it may. "
            "Have the gateways ask each other more directly."
        )
    return hops
