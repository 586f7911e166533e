"""`/metrics` as Prometheus reads it, and the files of `deploy/` and docs/metrics.md that name what is there."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from jackfield.calls import transactions as call_tx
from jackfield.calls.messages import cancelled
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.metrics import FOR_ALL, METRICS
from jackfield.model.call import Outcome, done
from jackfield.settings import load_settings
from jackfield.sources.base import Invocation
from jackfield.store.postgres import READERS
from tests.calls.harness import OPS, FunctionSource, pipeline_harness
from tests.harness.in_process import KEY, client_of, in_process_gateway, serve_on_port
from tests.requirement import requirement
from tests.waiting import eventually_async

ROOT = Path(__file__).parents[2]
TOOLS = '''
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


def boom() -> str:
    """Fails."""
    raise ValueError("no")
'''
CONFIG = """
[sources.local]
kind = "files"
path = "tools.py"
[sources.local.tools.boom]
metadata = { requires_approval = true }
[sources.other]
kind = "files"
path = "none/*.py"
[models.default]
provider = "scripted"
script = "script.toml"
[auth.keys.reader]
key = "reader-key"
scopes = ["read"]
[auth.keys.caller]
key = "caller-key"
scopes = ["call"]
[auth.keys.limited]
key = "limited-key"
scopes = ["call"]
tools = ["add"]
"""
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Scene:
    """A gateway, and its figures by name and labels."""

    def __init__(self, gateway: Gateway, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.client = client

    async def execute(self, tool: str, arguments: dict[str, Any] | None = None, *, key: str | None = None) -> Any:
        headers = {} if key is None else {"x-api-key": key}
        body = {"arguments": arguments or {}}
        return (await self.client.post(f"/api/v1/tools/{tool}/execute", json=body, headers=headers)).json()

    async def samples(self, *, key: str | None = None) -> Samples:
        answer = await self.client.get("/metrics", headers={} if key is None else {"x-api-key": key})
        assert answer.status_code == 200
        families = list(text_string_to_metric_families(answer.text))
        assert all(family.documentation and family.type != "unknown" for family in families)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    async def value(self, name: str, *, key: str | None = None, **labels: str) -> float | None:
        return (await self.samples(key=key)).get((name, tuple(sorted(labels.items()))))

    async def outcomes(self) -> dict[tuple[str, str, str], float]:
        """(tool, principal, outcome) → calls."""
        return {
            (labels["tool"], labels["principal"], labels["outcome"]): value
            for (name, given), value in (await self.samples()).items()
            if name == "jackfield_calls_total" and (labels := dict(given))
        }


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "script.toml").write_text('[[turns]]\nsay = "Hello there"\n')
    async with in_process_gateway(tmp_path, CONFIG) as (gateway, client):
        yield Scene(gateway, client)


@requirement("OPS-METRICS-families")
async def test_every_metric_is_there_with_help_and_type_and_names_as_prometheus_wants_them(scene: Scene) -> None:
    text = (await scene.client.get("/metrics")).text
    found = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in METRICS:
        family = found[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert (metric.kind == "counter") is metric.name.endswith("_total")
        assert (metric.kind == "histogram") is metric.name.endswith("_duration_seconds")
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)
    assert len(found) == len(METRICS)
    assert text.count("# HELP ") == text.count("# TYPE ") == len(METRICS)


@requirement("OPS-METRICS-families")
async def test_calls_refusals_requests_and_tokens_are_counted(scene: Scene) -> None:
    assert (await scene.execute("add", {"a": 1}))["status"] == "completed"
    await scene.execute("add", {"a": "x"})
    await scene.execute("nothing_of_that_name")
    asked = {"model": "default", "input": "Hi"}
    assert (await scene.client.post("/v1/responses", json=asked)).status_code == 200
    assert (await scene.client.get("/nowhere")).status_code == 404
    value = scene.value
    assert await value("jackfield_call_duration_seconds_count", tool="add", source="local") == 1
    assert await value("jackfield_refusals_total", code="invalid_arguments") == 1
    assert await value("jackfield_refusals_total", code="tool_not_found") == 1
    assert await scene.outcomes() == {
        ("add", "admin", "completed"): 1,
        ("add", "admin", "refused"): 1,
        ("(other)", "admin", "refused"): 1,
    }
    path = "/api/v1/tools/{name}/execute"
    assert await value("jackfield_http_requests_total", method="POST", route=path, status="200") == 1
    assert await value("jackfield_http_requests_total", method="POST", route=path, status="404") == 1
    assert await value("jackfield_http_requests_total", method="GET", route="(none)", status="404") == 1
    assert await value("jackfield_http_request_duration_seconds_count", method="POST", route=path) == 3
    assert await value("jackfield_model_tokens_total", model="default", direction="output") == 2
    assert (await value("jackfield_model_tokens_total", model="default", direction="input") or 0) > 0
    assert await value("jackfield_store_up") == 1
    assert await value("jackfield_streams_open", kind="sse") == 0


@requirement("OPS-METRICS-once")
async def test_a_call_that_waits_is_a_gauge_until_it_is_over_and_then_counts_once(scene: Scene) -> None:
    approved, rejected = [(await scene.execute("boom"))["call_id"] for _ in range(2)]
    waiting = {"status": "pending_approval"}
    assert await scene.value("jackfield_calls_waiting", **waiting) == 2
    oldest = await scene.value("jackfield_calls_waiting_oldest_seconds", **waiting)
    assert oldest is not None
    assert 0 <= oldest < 60
    assert await scene.value("jackfield_calls_waiting_oldest_seconds", status="pending") == 0
    assert await scene.outcomes() == {}
    for call_id, decision in ((approved, "approve"), (rejected, "reject")):
        assert (await scene.client.post(f"/api/v1/calls/{call_id}/{decision}", json={})).is_success

    async def both_over() -> bool:
        return await scene.outcomes() == {("boom", "admin", "failed"): 1, ("boom", "admin", "rejected"): 1}

    await eventually_async(both_over)
    assert await scene.value("jackfield_calls_waiting", **waiting) == 0


@requirement("OPS-METRICS-once")
@pytest.mark.parametrize("at_another_gateway", [False, True])
async def test_a_call_that_is_cancelled_while_it_runs_counts_where_it_was_cancelled(
    tmp_path: Path, *, at_another_gateway: bool
) -> None:
    began = asyncio.Event()

    async def slow(_: Invocation) -> Outcome:
        began.set()
        await asyncio.sleep(60)
        return done(None)

    source = FunctionSource()
    source.offer("slow", slow)
    async with pipeline_harness(source, tmp_path) as harness:
        waiting = asyncio.create_task(harness.call("slow"))
        await began.wait()
        [call_id] = harness.executor._running
        if at_another_gateway:
            running = harness.executor.running(call_id)
            assert running is not None
            await harness.executor._record(running)
            await harness.store.write(partial(call_tx.settle_cancelled, call_id, cancelled(call_id)))
            harness.executor.stop(call_id)
        else:
            await harness.pipeline.cancel(call_id, principal=OPS)
        await waiting
        counted = {} if at_another_gateway else {("slow", "local", "ops", "cancelled"): 1}
        assert harness.executor.counters.calls == counted


@requirement("OPS-METRICS-permissions")
async def test_a_key_gets_the_figures_of_what_it_may_see(scene: Scene) -> None:
    await scene.execute("add", {"a": 1})
    await scene.execute("add", {"a": 1}, key="caller-key")
    await scene.execute("boom", key="caller-key")
    reader = await scene.samples(key="reader-key")
    principals = {dict(labels)["principal"] for name, labels in reader if name == "jackfield_calls_total"}
    assert principals == {"(other)"}
    of_add = {"tool": "add", "source": "local", "outcome": "completed"}
    assert await scene.value("jackfield_calls_total", key="reader-key", principal="(other)", **of_add) == 2
    assert await scene.value("jackfield_calls_total", key="caller-key", principal="caller", **of_add) == 1
    assert await scene.value("jackfield_calls_total", principal="caller", **of_add) == 1
    limited = await scene.samples(key="limited-key")
    assert {re.sub("_(bucket|sum|count)$", "", name) for name, _ in limited} == {metric.name for metric in FOR_ALL}
    assert {dict(labels).get("tool", "add") for _, labels in limited} == {"add"}
    assert {dict(labels).get("source", "local") for _, labels in limited} == {"local"}


@requirement("OPS-METRICS-families")
async def test_while_the_store_is_away_the_rest_is_still_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_script: object) -> object:
        await asyncio.sleep(60)
        return None

    monkeypatch.setattr("jackfield.gateway.metrics.STORE_ANSWERS_WITHIN", 0.01)
    monkeypatch.setattr(scene.gateway.store, "read", away)
    samples = await scene.samples()
    assert samples["jackfield_store_up", ()] == 0
    assert not any(name.startswith("jackfield_calls_waiting") for name, _ in samples)


@requirement("OPS-METRICS-families")
async def test_streams_are_counted_while_they_are_open(scene: Scene) -> None:
    async with (
        serve_on_port(scene.gateway) as url,
        httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}) as client,
    ):

        async def is_open(count: int) -> bool:
            return f'jackfield_streams_open{{kind="sse"}} {count}\n' in (await client.get("/metrics")).text

        assert await is_open(0)
        async with client.stream("GET", "/api/v1/calls/stream") as stream:
            assert stream.status_code == 200
            assert await is_open(1)
        await eventually_async(partial(is_open, 0))


def exposed() -> set[str]:
    """Every name that a query may use."""
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    return {metric.name + end for metric in METRICS for end in ends.get(metric.kind, ("",))}


def expressions() -> list[str]:
    """Every query of the dashboard and the alert rules."""
    dashboard = json.loads((ROOT / "deploy/grafana/jackfield.json").read_text())
    rules = yaml.safe_load((ROOT / "deploy/prometheus/jackfield.rules.yml").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    found += [one["query"]["query"] for one in dashboard["templating"]["list"] if isinstance(one["query"], dict)]
    return found + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


@requirement("OPS-METRICS-deploy")
def test_the_dashboard_and_the_rules_use_metrics_and_labels_that_exist() -> None:
    labels = {label for metric in METRICS for label in metric.labels} | {"instance", "job", "le"}
    used: set[str] = set()
    for expression in expressions():
        names = set(re.findall(r"jackfield_\w+", expression))
        assert names <= exposed(), expression
        used |= names
        matched = re.findall(r'(\w+)=~?"', expression)
        grouped = [name for group in re.findall(r"by \(([^)]*)\)", expression) for name in re.split(r",\s*", group)]
        assert {*matched, *grouped} <= labels, expression
    assert {metric.name for metric in METRICS} <= {re.sub("_(bucket|sum|count)$", "", name) for name in used} | {
        "jackfield_source_tools"
    }


@requirement("OPS-METRICS-deploy")
def test_the_dashboard_is_one_that_grafana_imports_and_each_alert_says_what_to_do() -> None:
    dashboard = json.loads((ROOT / "deploy/grafana/jackfield.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    assert dashboard["uid"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])
    rules = yaml.safe_load((ROOT / "deploy/prometheus/jackfield.rules.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        assert rule["alert"].startswith("Jackfield")
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
    scrape = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert scrape["rule_files"] == ["jackfield.rules.yml"]


@requirement("OPS-METRICS-deploy")
def test_the_documentation_has_every_metric_with_its_type_and_labels() -> None:
    written = (ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"(?m)^\| `(jackfield_\w+)` \| (\w+) \|([^|]*)\|", written)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert documented == {metric.name: (metric.kind, metric.labels) for metric in METRICS}
    assert set(re.findall(r"jackfield_\w+", written)) <= exposed() | {metric.name for metric in METRICS}


@requirement("OPS-METRICS-once", "OPS-METRICS-families")
async def test_two_gateways_count_a_call_once_that_runs_at_one_and_is_cancelled_at_the_other(
    tmp_path: Path, postgres_url: str
) -> None:
    config = f'store = {{ url = "{postgres_url}" }}\n[sources.local]\nkind = "files"\npath = "slow.py"\n'
    slow = 'import asyncio\n\n\nasync def slow() -> None:\n    """Takes long."""\n    await asyncio.sleep(60)\n'
    async with AsyncExitStack() as stack:
        scenes = []
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "slow.py").write_text(slow)
            (folder / "jackfield.toml").write_text(config)
            settings = load_settings(folder / "jackfield.toml", environment={"JACKFIELD_ADMIN_KEY": KEY})
            gateway = await stack.enter_async_context(Gateway(settings))
            scenes.append(Scene(gateway, await stack.enter_async_context(client_of(gateway))))
        first, second = scenes
        calling = asyncio.create_task(first.execute("slow"))

        async def running() -> str | None:
            found = (await second.client.get("/api/v1/calls", params={"status": "running"})).json()["calls"]
            return found[0]["id"] if found else None

        call_id = await eventually_async(running)
        assert (await second.client.post(f"/api/v1/calls/{call_id}/cancel")).is_success
        assert (await calling)["status"] == "cancelled"
        assert await second.outcomes() == {("slow", "admin", "cancelled"): 1}
        assert await first.outcomes() == {}
        for scene in scenes:
            assert await scene.value("jackfield_postgres_connections_limit", pool="readers") == READERS
            busy = await scene.value("jackfield_postgres_connections", pool="readers", state="busy")
            assert busy is not None
            assert 0 <= busy <= READERS
