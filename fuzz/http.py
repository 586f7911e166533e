"""Requests that follow one another, made up by schemathesis from the OpenAPI document: `make fuzz ARGS=--http`.

What one answer names, the next request asks for, changes or deletes: schemathesis finds the links in the document.
Every answer is held against it.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.harness.api import ADMIN_KEY, open_api
from tests.stories.test_http_schemathesis import ANYTHING, ENDLESS, OPERATIONS

BEYOND_THE_DOCUMENT = ("positive_data_acceptance", "unsupported_method", "missing_required_header", "ignored_auth")
"""What a JSON Schema cannot say of a body, and what `test_http_keys.py` shows."""


def fuzz_http(*, seconds: int) -> int:
    """The exit code: 0 if every answer was one that the document promises."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        "--phases=stateful",
        f"--max-time={seconds}",
        "--max-examples=100000",
        "--request-timeout=30",
        f"--header=x-api-key: {ADMIN_KEY}",
        f"--exclude-path-regex={ENDLESS}",
        f"--exclude-checks={','.join(BEYOND_THE_DOCUMENT)}",
        "--exclude-path=/api/v1/config/reload",
    ]
    print(f"{len([one for one in OPERATIONS if not re.search(ENDLESS, one)])} operations, {seconds} s")
    with tempfile.TemporaryDirectory() as folder, open_api(Path(folder), extra=ANYTHING) as api:
        return subprocess.run([*command, f"{api.gateway.url}/openapi.json"], cwd=folder, check=False).returncode
