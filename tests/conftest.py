"""What holds for every test: no word from the developer's own shell, bounded and repeatable property tests."""

import os
import signal

from hypothesis import settings

pytest_plugins = ["tests.postgres", "tests.reports", "tests.shown"]

settings.register_profile("jackfield", deadline=None, max_examples=100)
settings.register_profile("jackfield-ci", deadline=None, max_examples=100, derandomize=True, print_blob=True)
settings.load_profile("jackfield-ci" if os.environ.get("CI") else "jackfield")

# A shell's background job ignores Ctrl-C, and every process that a test starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test ARGS=…` hands its words down to every make that a test starts.
for name in [name for name in os.environ if name.startswith(("JACKFIELD_", "OTEL_", "MAKE", "PG"))] + [
    "ARGS",
    "PYTHON",
]:
    os.environ.pop(name, None)
