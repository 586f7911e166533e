# /// script
# requires-python = ">=3.11"
# dependencies = ["segno>=1.6"]
# ///
"""A tool with a dependency: by the block above it runs in a process of its own, and its first call installs segno."""

from typing import Annotated

import segno
from jackfield_tool import log

HALVES = {(0, 0): " ", (0, 1): "▄", (1, 0): "▀", (1, 1): "█"}
QUIET = 2


def qr_code(text: Annotated[str, "What the code says: a link, a phone number, some words"]) -> str:
    """Draw a text as a QR code, two rows of it to a line, for a phone to read from the screen."""
    with log("qr_code", length=len(text)) as span:
        code = segno.make(text, micro=False)
        span.add(version=code.designator)
    rows = [list(row) for row in code.matrix_iter(border=QUIET)]
    rows.append([0] * len(rows[0]))
    return "\n".join(
        "".join(HALVES[upper, lower] for upper, lower in zip(above, below, strict=True))
        for above, below in zip(rows[::2], rows[1::2], strict=False)
    )
