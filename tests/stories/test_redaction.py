"""A tool that says the secret it was given, in every way it can: nobody reads it, wherever the words go."""

import json
from pathlib import Path
from typing import Any

import httpx2

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.sources.workers import worker_file
from tests.waiting import eventually

SECRET = "k/9+" + "zQ" * 40
CONFIG = """
[sources.leaky]
kind = "files"
path = "leaky.py"
secrets = ["LEAKY_KEY", "PIN"]

[sources.leaky.tools.short]
category = "x"
"""
TOOLS = """
import json, sys
from typing import TypedDict
from jackfield_tool import get_secret, report_progress

class Answer(TypedDict):
    count: int

def nested() -> dict:
    secret = get_secret("LEAKY_KEY")
    inner = json.dumps({"key": secret}).replace("/", "\\\\/").replace("+", "\\\\u002B")
    return {"plain": secret, "inner": inner, "twice": json.dumps({"inner": inner}), "pin": "pin " + get_secret("PIN")}

def fails() -> str:
    raise ValueError(json.dumps(get_secret("LEAKY_KEY")).replace("/", "\\\\/"))

def wrong() -> Answer:
    return {"count": "x" + get_secret("LEAKY_KEY")}

def shouts() -> str:
    secret = get_secret("LEAKY_KEY")
    report_progress(1, message=secret)
    for length in (8192, 8192 + 4096):
        print("a" * (length - 20) + secret, file=sys.stderr)
    print("the end", file=sys.stderr)
    return "done"
"""


def call(gateway: RunningGateway, tool: str) -> dict[str, Any]:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    answer = httpx2.post(url, json={"arguments": {}}, headers=gateway.headers, timeout=60)
    body: dict[str, Any] = answer.json()
    return body


@requirement("SAFE-redaction-every-form")
def test_a_secret_is_in_no_result_error_record_or_log_in_whatever_form(tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(worker_file(TOOLS))
    with running_gateway(tmp_path, CONFIG, env={"LEAKY_KEY": SECRET, "PIN": "q7x4"}) as gateway:
        result = call(gateway, "nested")["result"]
        assert result["plain"] == "[redacted]"
        assert json.loads(result["inner"]) == {"key": "[redacted]"}
        assert json.loads(json.loads(result["twice"])["inner"]) == {"key": "[redacted]"}
        assert result["pin"] == "pin [redacted]"

        failed = call(gateway, "fails")["error"]["message"]
        assert "[redacted]" in failed

        wrong = call(gateway, "wrong")["error"]["message"]
        assert "must be an integer, got a string 'x[redacted]…'" in wrong, "it was cut before"

        assert call(gateway, "shouts")["result"] == "done"
        url = f"{gateway.url}/api/v1/workers/leaky/log"

        def lines() -> list[str]:
            answer = httpx2.get(url, headers=gateway.headers)
            return [line["text"] for line in answer.json()["lines"]]

        eventually(lambda: "the end" in lines())
        first, second = [line for line in lines() if line.startswith("aaaa")]
        assert first.endswith("a[redacted]")
        assert second.endswith(" bytes left out]")

        records = httpx2.get(f"{gateway.url}/api/v1/calls", headers=gateway.headers).text
        for text in (records, gateway.log, failed, wrong, *lines()):
            assert "zQzQ" not in text
            assert "q7x4" not in text
