"""What a program loads that imports the SDK or the discovery helpers: no part of the server."""

import json
import subprocess
import sys

import pytest

LIGHT = {"discovery", "errors", "model", "protocol", "sdk"}
SERVER_LIBRARIES = {"asyncpg", "uvicorn", "uv", "opentelemetry"}


def loaded_by(module: str) -> set[str]:
    script = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["jackfield.sdk", "jackfield.discovery"])
def test_the_sdk_and_discovery_load_no_server(module: str) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert {name.split(".")[1] for name in loaded if name.startswith("jackfield.")} <= LIGHT
    assert not {name.partition(".")[0] for name in loaded} & SERVER_LIBRARIES


def test_discovery_needs_no_client_and_the_sdk_no_web_framework() -> None:
    assert "jackfield.sdk" not in loaded_by("jackfield.discovery")
    assert not {"starlette", "jsonschema_rs"} & loaded_by("jackfield.sdk")
