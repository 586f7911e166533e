"""What the operator says about sessions, and what all of them are given. Above: `registry.py`. Below: the settings."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from jackfield.sessions.program import Place
from jackfield.settings import Settings
from jackfield.settings.types import AgentSettings, RelaySettings, SessionSettings
from jackfield.workers.host import WorkerHost

INHERITED = ("PATH", "HOME", "LANG")
"""What a program finds of the gateway's own environment."""


class Terms(Struct, frozen=True, kw_only=True):
    """The config's words, and where things are."""

    agents: Mapping[str, AgentSettings]
    programs: Mapping[str, SessionSettings]
    relay: RelaySettings
    folder: Path
    """Where the sockets are."""
    place: Place
    """Where programs run."""
    redact: Callable[[str], str]


def terms_of(settings: Settings, *, worker_host: WorkerHost, redact: Callable[[str], str]) -> Terms:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**inherited, "JACKFIELD_URL": settings.url}
    return Terms(
        agents=settings.agents,
        programs=settings.sessions,
        relay=settings.relay,
        folder=settings.data / "sessions",
        place=Place(worker_host=worker_host, base=settings.folder, environment=environment),
        redact=redact,
    )
