"""`notifications/message`: during a call to its client, outside calls to the sessions that want them.

Above: `server.py` and `tools_call.py`. Below: the sources' logs, and the sessions' streams.
"""

from typing import Any

from msgspec import UNSET

from jackfield.catalog.catalog import Catalog
from jackfield.mcp.sessions import McpSession, McpSessions
from jackfield.protocol.jsonrpc import notification
from jackfield.protocol.mcp import LOG_LEVELS
from jackfield.sources.base import LogNote
from jackfield.sources.logs import SourceLogs, lower_level


class LogMessages:
    """What servers say outside calls, for administrators' sessions that set a level.

    Many clients share a server's connection, and nothing says whose work such a line is about: it may hold what another
    key's call was about.
    """

    def __init__(self, sessions: McpSessions, catalog: Catalog, logs: SourceLogs) -> None:
        self._catalog = catalog
        self._logs = logs
        self._listening: dict[str, McpSession] = {}
        """Sessions that set a level."""
        sessions.on_end = self._ended
        logs.listen(self._heard)

    def set_level(self, session: McpSession, level: str) -> None:
        """`logging/setLevel`; servers that log less than this are told."""
        session.log_level = level
        self._listening[session.id] = session
        self._tell_servers()

    def _ended(self, session: McpSession) -> None:
        if self._listening.pop(session.id, None) is not None:
            self._tell_servers()

    def _tell_servers(self) -> None:
        lowest: str | None = None
        for session in self._listening.values():
            if session.log_level is not None:
                lowest = lower_level(session.log_level, lowest)
        self._logs.want(lowest)

    def _heard(self, sources: frozenset[str], note: LogNote) -> None:
        message: bytes | None = None
        for session in self._listening.values():
            if session.follower is None or not session.viewer.is_admin:
                continue
            if is_wanted(note, session.log_level) and self._sees(session, sources):
                message = message or log_notification(note)
                session.push.offer(message)

    def _sees(self, session: McpSession, sources: frozenset[str]) -> bool:
        """Whether the session may use a tool, resource or prompt of one of these sources."""
        catalog, viewer = self._catalog, session.viewer
        views = (catalog.view(viewer), catalog.resources(viewer), catalog.prompts(viewer))
        return any(not sources.isdisjoint(view.sources) for view in views)


def is_wanted(note: LogNote, least: str | None) -> bool:
    """Whether a client that asked for messages from this level on gets this one."""
    return least is not None and LOG_LEVELS.index(note.level) >= LOG_LEVELS.index(least)


def log_notification(note: LogNote) -> bytes:
    params: dict[str, Any] = {"level": note.level, "data": note.message if note.data is UNSET else note.data}
    if note.logger is not None:
        params["logger"] = note.logger
    return notification("notifications/message", params)
