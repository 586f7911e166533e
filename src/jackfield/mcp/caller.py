"""Who makes a request, and what was agreed with them."""

from typing import Any

from msgspec import Struct

from jackfield.mcp.sessions import Session
from jackfield.model.principal import Principal
from jackfield.protocol.mcp import MODERN


class Caller(Struct, frozen=True, kw_only=True):
    """The client behind one request. Of the handshake era it has a session, except while it shakes hands."""

    principal: Principal
    revision: str
    capabilities: dict[str, Any] = {}
    session: Session | None = None
    search_above: int = 0
    """Catalogs with more tools than this are searched, not listed; 0: never."""
    headers: dict[bytes, bytes] = {}
    takes_events: bool = False
    """Whether an answer may be a stream."""

    @property
    def is_modern(self) -> bool:
        return self.revision == MODERN
