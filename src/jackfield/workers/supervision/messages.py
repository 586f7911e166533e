"""What gateway, zygote and monitors send each other: one JSON object per line.

The standard library's json, because a command line may hold bytes that are not UTF-8 (as lone surrogates).
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict

FIRST_TEXT_FD = 100


class Mount(TypedDict):
    """One path in a sandbox's file system."""

    kind: Literal["read", "write", "private", "empty", "device", "text", "link", "proc", "pts"]
    at: str
    source: str
    """A path outside; for `text` the content of the file, for `link` its target; empty for the others."""


class Namespaces(TypedDict):
    """A private view of the machine: these files, own processes, and the network or none."""

    mounts: list[Mount]
    """In mount order."""
    scratch: int
    """Bytes that all `private` folders may hold together."""
    network: bool


class ResourceLimits(TypedDict):
    """For the command and each process that it starts. 0: no limit."""

    memory: int
    cpu: int
    file_size: int
    processes: int


class Wrapper(TypedDict):
    """The command is a sandbox program (bubblewrap), which starts the real one. SIGTERM goes to the real one."""

    texts: list[str]
    """Contents of files that it gets as descriptors, from `FIRST_TEXT_FD` on."""


class Confinement(TypedDict):
    """What a command may not do."""

    limits: ResourceLimits
    gains_privileges: bool
    """Whether setuid programs work."""
    namespaces: NotRequired[Namespaces]
    wrapper: NotRequired[Wrapper]


class Start(TypedDict):
    """A command to start; its descriptors 0, 1 and 2 are passed with the line's first byte."""

    command: list[str]
    env: dict[str, str]
    cwd: str
    confinement: NotRequired[Confinement]


class Order(TypedDict):
    """From the gateway: `start`, or `end` with the seconds between SIGTERM and SIGKILL."""

    id: int
    start: NotRequired[Start]
    end: NotRequired[float]


class StatusReport(TypedDict):
    """To the gateway: one of `started` (its pid), `failed` (the step and errno), `exited` (its code)."""

    id: int
    started: NotRequired[int]
    failed: NotRequired[tuple[str, int]]
    exited: NotRequired[int]


def encode(message: Order | StatusReport) -> bytes:
    return json.dumps(message).encode() + b"\n"


class MessageReader:
    """Messages from the chunks that a socket yields."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes) -> Iterator[Any]:
        *lines, self._partial = (self._partial + data).split(b"\n")
        return map(json.loads, lines)
