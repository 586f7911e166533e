"""docs/notifications.md: its config loads, and its receiver runs and takes what a gateway sends."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from jackfield.settings import load_settings
from jackfield.settings.notify import NotifyFilter, NotifySettings
from tests.harness.in_process import in_process_gateway
from tests.harness.process import free_port
from tests.notify.receiver import SECRET
from tests.notify.test_delivery import TOOLS, call
from tests.waiting import eventually_async

DOCUMENT = (Path(__file__).parents[2] / "docs/notifications.md").read_text(encoding="utf-8")
[CONFIG] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
[RECEIVER] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_config_that_is_explained_loads_and_has_every_key(tmp_path: Path) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text(CONFIG, encoding="utf-8")
    environment = {"OPS_WEBHOOK_SECRET": SECRET, "SLACK_WEBHOOK_URL": "https://slack.example/x", "MAIL_PASSWORD": "x-1"}
    settings = load_settings(path, environment=environment)
    assert {target.kind for target in settings.notify.values()} == {"webhook", "slack", "email"}
    names = [name.rstrip("_") for name in (*NotifySettings.__struct_fields__, *NotifyFilter.__struct_fields__)]
    assert [name for name in names if not re.search(rf"\b{name} =", CONFIG)] == []


async def test_the_receiver_that_is_explained_takes_what_is_sent_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "receiver.py"
    program.write_text(RECEIVER, encoding="utf-8")
    port = free_port()
    environment = os.environ | {"OPS_WEBHOOK_SECRET": SECRET, "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    config = f"""
[notify.good]
kind = "webhook"
url = "http://127.0.0.1:{port}/"
secret = "{SECRET}"
on = ["call.pending"]

[notify.bad]
kind = "webhook"
url = "http://127.0.0.1:{port}/"
secret = "whsec_{"A" * 32}"
on = ["call.pending"]
"""
    try:
        async with in_process_gateway(tmp_path, TOOLS + config) as (_, client):
            call_id = await call(client, "confirm")
            assert process.stdout is not None
            async with asyncio.timeout(60):
                assert (await process.stdout.readline()).split() == [b"call.pending", call_id.encode()]

            async def refused() -> bool:
                answer = await client.get("/api/v1/notifications?status=failed&target=bad")
                return bool(answer.json()["notifications"])

            await eventually_async(refused)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("key", ["type", "timestamp", "data"])
def test_the_body_that_is_shown_has_its_keys(key: str) -> None:
    assert f'"{key}"' in re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)[0]
