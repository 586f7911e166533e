"""`examples/provider` in a process of its own, on a free port, stopped by its pid; and other services of one file."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.process import clean_environment, free_port
from tests.waiting import eventually

FRUIT_SHOP = Path(__file__).parents[2] / "examples/provider/service.py"


@dataclass(frozen=True, kw_only=True)
class RunningService:
    """A service that listens."""

    url: str
    process: "subprocess.Popen[bytes]" = field(repr=False)


@contextmanager
def running_service(
    file: Path = FRUIT_SHOP, *, env: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[RunningService]:
    """Run a file that listens on `PORT`, and end it."""
    chosen = port or free_port()
    process = subprocess.Popen(
        [sys.executable, str(file)],
        env=clean_environment({"PORT": str(chosen), **(env or {})}),
        stdin=subprocess.DEVNULL,
    )

    def listens() -> bool:
        assert process.poll() is None, "the service ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", chosen)) == 0

    try:
        eventually(listens, within=20)
        yield RunningService(url=f"http://127.0.0.1:{chosen}", process=process)
    finally:
        process.kill()
        process.wait(10)
