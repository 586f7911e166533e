"""What a part of the stress run saw, and what was wrong with it."""

import sys
import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

SHOWN = 20
"""Violations that are written out; the rest are counted."""
EVERY_SECONDS = 5.0


class Report(Struct, kw_only=True):
    """One part's findings, gathered while it runs."""

    part: str
    seed: int
    seen: Counter[str] = field(default_factory=Counter)
    """How often each thing happened."""
    violations: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def expect(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like an assertion
        """Note a violation unless it holds."""
        if not holds:
            self.violations.append(otherwise)

    @property
    def summary(self) -> str:
        """One line for people."""
        verdict = "ok" if not self.violations else f"{len(self.violations)} VIOLATIONS"
        seen = ", ".join(f"{what} {count}" for what, count in sorted(self.seen.items()))
        return f"{self.part}: {verdict} in {time.monotonic() - self.began:.0f} s (seed {self.seed}): {seen}"

    @property
    def complaint(self) -> str:
        """The first violations, a line each."""
        more = len(self.violations) - SHOWN
        shown = self.violations[:SHOWN] + ([f"… and {more} more"] if more > 0 else [])
        return "\n".join(f"  {line}" for line in shown)


def progress_of(report: Report, total: int, *, say: Callable[[str], object] | None = None) -> Callable[[int], None]:
    """Tells how many of `total` are done, every few seconds on a line of its own."""
    said_at = time.monotonic()
    tell = say or (lambda line: print(line, file=sys.stderr, flush=True))

    def tell_of(done: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= EVERY_SECONDS:
            said_at = time.monotonic()
            tell(f"{report.part}: {done} of {total}, {len(report.violations)} violations")

    return tell_of
