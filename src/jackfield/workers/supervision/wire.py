"""The words between gateway, zygote and minders: one JSON object per line.

The standard library's json, because a command's words may hold bytes that are no UTF-8 (as lone surrogates).
Above: `link.py`, `zygote.py`, `minder.py`. Below: nothing of ours.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict


class Mount(TypedDict):
    """One thing in a sandbox's file system: what is at this path."""

    kind: Literal["read", "write", "private", "empty", "device", "text", "link", "proc", "pts"]
    at: str
    source: str
    """A path outside; for `text` what is in the file, for `link` where it leads; for the others nothing."""


class Namespaces(TypedDict):
    """A private view of the machine: these files, own processes, and the network or none."""

    mounts: list[Mount]
    """In the order in which they are made."""
    scratch: int
    """Bytes that fit in all `private` folders together."""
    network: bool


class Limits(TypedDict):
    """For the command and each process that it starts. 0 does not limit."""

    memory: int
    cpu: int
    file_size: int
    processes: int


class Confinement(TypedDict):
    """What a command may not do."""

    limits: Limits
    gains_privileges: bool
    """Whether it may become more than it is, as setuid programs do."""
    namespaces: NotRequired[Namespaces]


class Start(TypedDict):
    """A command to start; its descriptors 0, 1 and 2 travel beside the line's first byte."""

    command: list[str]
    env: dict[str, str]
    cwd: str
    confinement: NotRequired[Confinement]


class Order(TypedDict):
    """From the gateway: one of `start` and `end`. `end` is the grace in seconds before force."""

    id: int
    start: NotRequired[Start]
    end: NotRequired[float]


class Report(TypedDict):
    """To the gateway: one of `started` (its pid), `failed` (what could not be done, and errno), `exited` (its code)."""

    id: int
    started: NotRequired[int]
    failed: NotRequired[tuple[str, int]]
    exited: NotRequired[int]


def line(message: Order | Report) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Lines:
    """Puts lines together from the pieces that a socket gives."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that are complete with this piece."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            whole = b"".join([*self._pieces, end])
            self._pieces.clear()
            yield json.loads(whole)
        if rest:
            self._pieces.append(rest)
