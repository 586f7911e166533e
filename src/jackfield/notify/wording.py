"""What a message says to people: a title, lines, and where to go. Pure.

Text of tools, callers and sources is foreign: it loses its hidden characters and line breaks here, and is escaped by
whoever writes it into a format.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.redaction import cut
from jackfield.notify.types import TEST_TYPE, Message

LONGEST_TITLE = 140
LONGEST_LINE = 500


class Wording(Struct, frozen=True, kw_only=True):
    """One message for people."""

    title: str
    lines: tuple[tuple[str, str], ...]
    """What each is, and what it says."""
    link: str | None = None
    link_text: str = ""


def wording_of(message: Message) -> Wording:
    """What a message says."""
    return _WORDINGS[message.type](message.data)


def one_line(text: str, limit: int = LONGEST_LINE) -> str:
    """On one line, without control and hidden characters, and not too long."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return cut(" ".join(plain.split()), limit)


def _about_call(title: str, data: dict[str, Any], link: str = "", link_text: str = "") -> Wording:
    error = data.get("error") or {}
    lines = (
        ("Asked by", _by(data)),
        ("Why", _text(data, "reason")),
        ("Source", _text(data, "source")),
        ("Arguments", "" if data.get("arguments") is None else msgspec.json.encode(data["arguments"]).decode()),
        ("Error", f"{error.get('code', '')}: {error.get('message', '')}" if error else ""),
        ("Since", _text(data, "created_at")),
        ("Until", _text(data, "expires_at")),
        ("Call", _text(data, "call_id")),
    )
    return _made(title, lines, data.get(link), link_text)


def _plain(title: str, data: dict[str, Any], *names: str) -> Wording:
    return _made(title, tuple((name.capitalize().replace("_", " "), _text(data, name)) for name in names))


def _made(title: str, lines: tuple[tuple[str, str], ...], link: str | None = None, link_text: str = "") -> Wording:
    shown = tuple((label, one_line(value)) for label, value in lines if value)
    return Wording(title=one_line(title, LONGEST_TITLE), lines=shown, link=link, link_text=link_text)


def _by(data: dict[str, Any]) -> str:
    """Who asks, and in whose name."""
    agent, principal = data.get("agent"), _text(data, "principal")
    return f"{agent} (for {principal})" if agent and principal != f"agent:{agent}" else str(agent or principal)


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return "" if value is None else str(value)


_WORDINGS: dict[str, Callable[[dict[str, Any]], Wording]] = {
    "call.pending_approval": lambda data: _about_call(
        f"{_by(data)} asks to run {_text(data, 'tool')}", data, "approval_url", "Review it"
    ),
    "call.pending": lambda data: _about_call(
        f"{_text(data, 'tool')} waits for an answer", data, "answer_url", "Answer it"
    ),
    "call.pending_login": lambda data: _about_call(
        f"{_text(data, 'tool')} waits for a login at {_text(data, 'login_source')}", data, "login_url", "Log in"
    ),
    "call.failed": lambda data: _about_call(f"{_text(data, 'tool')} failed", data),
    "source.down": lambda data: _plain(f"Source {_text(data, 'source')} is down", data, "error", "since"),
    "source.up": lambda data: _plain(f"Source {_text(data, 'source')} is up again", data, "since"),
    "tool.quarantined": lambda data: _plain(
        f"{_text(data, 'tool')} of {_text(data, 'source')} is held until somebody accepts it", data, "reason", "command"
    ),
    "agent.failed": lambda data: _plain(f"Agent {_text(data, 'agent')} gave up", data, "reason", "run_id"),
    TEST_TYPE: lambda data: _plain("A test of this notification target", data, "sent_by"),
}
