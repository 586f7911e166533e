"""The operator's words about sessions: `[sessions.NAME]`, what runs in one and in which sandbox, and `[relay]`.

Above: `settings.py`, which reads the file; the sessions' room. Below: nothing.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[relay]`: how long a caller may take over an answer, and be away, in seconds."""

    timeout: Annotated[float, Meta(gt=0)] = 60
    grace: Annotated[float, Meta(ge=0)] = 0
    """How long a caller's open calls are kept for its return after its stream has closed."""


class SandboxSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program may see and use. Limits of 0 do not limit."""

    kind: Literal["auto", "bubblewrap", "namespaces", "container", "none"] = "auto"
    """`auto`: the strictest that this machine has; `none`: a plain process group, because the operator says so."""
    network: bool = False
    memory: Annotated[int, Meta(ge=0)] = 0
    """Bytes of address space, for each process."""
    cpu: Annotated[float, Meta(ge=0)] = 0
    """Seconds of CPU time, for each process."""
    file_size: Annotated[int, Meta(ge=0)] = 0
    """Bytes of the largest file that may be written."""
    processes: Annotated[int, Meta(ge=0)] = 0
    """How many at once, threads counted."""
    scratch: Annotated[int, Meta(gt=0)] = 268_435_456
    """Bytes that fit in its private temporary folder and home; they are kept in memory."""
    readable: tuple[str, ...] = ()
    """Further folders that may be read."""
    writable: tuple[str, ...] = ()
    """Folders that may be written, besides a private temporary one."""
    container: tuple[str, ...] = ()
    """For `container`: the command that runs one, with `{command}`, `{socket}`, `{name}` and `{env}` in it."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sessions.NAME]`: an agent program that is started for each session."""

    command: tuple[str, ...]
    env: dict[str, str] = {}
    folder: str | None = None
    """Where it starts; relative paths begin at the config's folder."""
    sandbox: SandboxSettings = SandboxSettings()
    timeout: Annotated[float, Meta(ge=0)] = 0
    """Seconds that a session may last; 0: as long as its caller wants."""
    idle_timeout: Annotated[float, Meta(gt=0)] = 1800
    """Seconds without a word from anybody after which a session is ended."""
    max_sessions: Annotated[int, Meta(ge=1)] = 10
    """Sessions of this kind at once."""
