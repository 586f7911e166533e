"""One MCP call with an OAuth token, beside the same call with a key, at the same gateway, by the same principal.

The tool gives its arguments back, in the gateway's own process, so that little hides what a token costs; in the era
without sessions each request shows its token. The token is one of the gateway's own authorization server.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from bench.budget import Bench, Budget
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.load import Job
from bench.processes import BenchError, Load, Server, running_gateway, running_load
from bench.rows.mcp import CONNECTIONS, META, MODERN, TALK, line_of
from bench.subjects import http_request
from conformance.tokens import granted

CALLER_KEY = "key-of-the-bench-caller"
TEXT = "as it was said"
CONFIG = f"""\
[auth.keys.caller]
key = "{CALLER_KEY}"

[[tools]]
name = "repeat"
description = "Give the arguments back."
executionType = "internal"
inputSchema = {{ type = "object", properties = {{ text = {{ type = "string" }} }}, required = ["text"] }}
"""
ROW = "MCP call with an OAuth token"
WITH_KEY = "with a key"


def measure(bench: Bench) -> list[Line]:
    """Milliseconds to an answer, p50, and what each call costs the gateway."""
    folder = bench.folder / "oauth"
    folder.mkdir()
    (folder / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    with running_gateway(folder, tools=1) as gateway, running_load() as load:
        token = granted(f"http://127.0.0.1:{gateway.port}", {"key": CALLER_KEY}).access_token
        turns: list[Callable[[], Sample]] = []
        for bearer in (token, CALLER_KEY):
            job = _job(gateway, bearer, bench.budget)
            _check(load, job)
            turns.append(partial(load.median_ms, gateway, job))
        taken = take_turns(bench.budget.rounds, *turns)
    with_token, with_key = (Figure(unit=MILLISECONDS, samples=samples) for samples in taken)
    lines = [line_of(f"{ROW}, p50", with_token, with_key, WITH_KEY, None)]
    costs = [figure.costs for figure in (with_token, with_key)]
    if costs[0] is not None and costs[1] is not None:
        lines.append(line_of(f"{ROW}, CPU per call", costs[0], costs[1], WITH_KEY, Bar(limit=1.05)))
    return lines


def _job(gateway: Server, bearer: str, budget: Budget) -> Job:
    params = {"name": "repeat", "arguments": {"text": TEXT}, "_meta": META}
    headers = {
        "Authorization": f"Bearer {bearer}",
        "Accept": TALK["Accept"],
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "repeat",
    }
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    request = http_request("POST", "/mcp", body=body, headers=headers)
    return Job(port=gateway.port, requests=[request], connections=CONNECTIONS, seconds=budget.seconds)


def _check(load: Load, job: Job) -> None:
    """One answer, to see that calls arrive at the tool."""
    once = msgspec.structs.replace(job, connections=1, seconds=10.0, most=1)
    answer = load.run(once, expect=200).last_answer
    if TEXT not in answer or '"isError":true' in answer:
        raise BenchError(f"The tool did not answer: {answer}")
