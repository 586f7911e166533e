"""API records that the gateway sends and the SDK reads, where both need the same fields."""

from msgspec import UNSET, Raw, Struct, UnsetType


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of a running call."""

    progress: float
    total: float | None = None
    message: str | None = None
    meta: Raw | UnsetType = UNSET
    """The `_meta` that an MCP server sent with it."""


class LogNote(Struct, frozen=True, kw_only=True):
    """A log message of a tool's server during the call."""

    level: str
    """As MCP names them: debug, info, notice, warning, error, critical, alert, emergency."""
    message: str
    """As text, on one line and of a limited length."""
    logger: str | None = None
    data: Raw | UnsetType = UNSET
    """What the server said, where that is more than the message: JSON, or a text of several lines."""


class ToolsChanged(Struct, frozen=True, kw_only=True):
    """Tool names that were added, removed or changed. All three empty: only the categories changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    version: str

    @property
    def names_tools(self) -> bool:
        return bool(self.added or self.removed or self.changed)
