"""The operator's words about agents: `[agents.NAME]`. An agent made over the API is described by the same fields.

Above: `settings.py`, which reads the file; the agents' room. Below: nothing.
"""

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from jackfield.errors import ConfigError

_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,64}")


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.NAME]`: who it is, how it thinks, what it may use and where it is found."""

    model: str | None = None
    """A name under `[models]`; None: `default`, or the first one."""
    name: str | None = None
    """How people see it; None: its id."""
    description: str = ""
    instructions: str = ""
    tools: tuple[str, ...] = ("*",)
    """Names, globs or `source:*`; an empty list is none. Built-in tools and its own servers' are always there."""
    spaces: tuple[str, ...] = ()
    """Spaces that it is a member of; one that does not exist is made."""
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 20
    """How often its model is asked in one cycle."""
    timeout: Annotated[float, Meta(gt=0)] = 600
    """Seconds that one cycle may take."""
    context_tokens: Annotated[int, Meta(ge=1000)] = 24_000
    """About how much of its past it keeps word by word; older cycles stay as their summaries."""
    max_exchanges: Annotated[int, Meta(ge=1, le=1000)] = 12
    """Messages that agents may send each other in a row, before a person, a plan or a service has to say something."""
    mcp: dict[str, Any] = {}
    """Servers of its own, in seed 003's shape: `servers = [{ name, url, transport, allowedTools }]`."""


def check_agent_id(name: str, *, where: str) -> None:
    """Ids of agents and spaces appear in urls, scopes and logs."""
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{where}: the id {name!r} may have 1 to 64 letters, digits, '_', '.' or '-', not '.' or '..'. Rename it."
        )
