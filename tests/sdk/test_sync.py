"""The blocking client is generated from the asynchronous one."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from jackfield.sdk import Client, SyncClient
from jackfield.sdk import sync as blocking

TOP = Path(__file__).parents[2]
RESOURCES = ("tools", "calls", "agents", "runs", "spaces", "workers", "sources", "sessions")


def test_the_blocking_client_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, "make/sync_sdk.py", "--check"], cwd=TOP, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("resource", RESOURCES)
async def test_both_clients_have_the_same_methods_with_the_same_parameters(resource: str) -> None:
    with SyncClient("http://127.0.0.1:9") as client:
        blocking_one = getattr(client, resource)
        async with Client("http://127.0.0.1:9") as other:
            original = getattr(other, resource)
            names = [name for name in dir(original) if not name.startswith("_")]
            assert names == [name for name in dir(blocking_one) if not name.startswith("_")]
            for name in names:
                ours, theirs = inspect.signature(getattr(original, name)), getattr(blocking_one, name)
                assert list(ours.parameters.values()) == list(inspect.signature(theirs).parameters.values())
                assert not inspect.iscoroutinefunction(theirs)


def test_it_says_that_it_is_generated() -> None:
    assert "do not edit" in inspect.getsource(blocking).splitlines()[0]
