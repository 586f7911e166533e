"""What holds for every test: no word from the developer's own shell, bounded and repeatable property tests."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import examples

pytest_plugins = ["tests.postgres", "tests.reports", "tests.shown"]

# How long it takes to make up an example depends on what else the machine does: no test fails for that.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("jackfield", UNTIMED, max_examples=examples(50))
settings.register_profile("jackfield-ci", UNTIMED, max_examples=examples(50), derandomize=True, print_blob=True)
settings.load_profile("jackfield-ci" if os.environ.get("CI") else "jackfield")

# Bytecode is kept even where the environment says otherwise: each process that a test starts would compile everything.
sys.dont_write_bytecode = False

# A shell's background job ignores Ctrl-C, and every process that a test starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test ARGS=…` hands its words down to every make that a test starts.
for name in [name for name in os.environ if name.startswith(("JACKFIELD_", "OTEL_", "MAKE", "PG"))] + [
    "ARGS",
    "PYTHON",
]:
    os.environ.pop(name, None)


LONG_SECONDS = 240


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: one that begins last would leave all workers but one without work."""
    items.sort(key=lambda item: not _is_long(item))


def _is_long(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] >= LONG_SECONDS


@pytest.fixture(scope="session", autouse=True)
def _state_folder() -> Iterator[None]:
    """What the SDK keeps between two runs of a program is not the developer's."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        yield
