"""How many examples a property test tries: few in `make test`, ten times as many in `make stress`."""

import os

TIMES = int(os.environ.get("TESTS_TIMES", "1"))


def examples(count: int) -> int:
    """So many, or a multiple of it where `TESTS_TIMES` asks for more."""
    return count * TIMES
