"""The revisions of MCP that are served, and what differs between them. Pure.

Above: the modules of this room. Below: nothing. Two eras: up to 2025-11-25 a client shakes hands once and then has a
session; from 2026-07-28 on every request says for itself who asks and what the client can do.
"""

MODERN = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_HANDSHAKE = HANDSHAKE[-1]
WITH_STRUCTURED_CONTENT = frozenset({"2025-06-18", "2025-11-25", MODERN})
WITHOUT_LINKS = frozenset({"2024-11-05", "2025-03-26"})
WITHOUT_AUDIO = frozenset({"2024-11-05"})
WITH_BATCHES = "2025-03-26"
"""The one revision in which a body may hold several messages."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
"""Keys of `_meta`, from 2026-07-28 on."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def negotiated(requested: str) -> str:
    """What a handshake that asks for `requested` comes to."""
    return requested if requested in HANDSHAKE else LATEST_HANDSHAKE
