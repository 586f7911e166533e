"""What a run of `make conformance` is to cover. Every leg is a function of it: `Leg = (Plan) -> Iterator[Run]`."""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from conformance.results import Run
from conformance.suite import Asked, Tools


class Plan(Struct, frozen=True, kw_only=True):
    """Which revisions and subjects, with what."""

    tools: Tools
    folder: Path
    """For what the run leaves behind; each leg makes folders of its own in it."""
    revisions: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    """Those to run, by name; all where it is empty."""
    only: tuple[str, ...] = ()
    """These scenarios; all where it is empty."""
    legacy: bool = False
    """The server behind a gateway is of the handshake era."""

    def asked(self, revision: str) -> Asked:
        return Asked(revision=revision, only=self.only)

    def has(self, subject: str) -> bool:
        return not self.subjects or subject in self.subjects


Leg = Callable[[Plan], Iterator[Run]]
