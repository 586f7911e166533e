"""Health, metrics, the OpenAPI document and the plain page."""

import re
from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.api import Api, open_api
from tests.requirement import requirement

BROKEN = 'def half(:\n    """Never parsed."""\n'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    extra = '[sources.second]\nkind = "files"\npath = "second/*.py"\n'
    files = {"tools/broken.py": BROKEN, "second/more.py": 'def echo() -> str:\n    """Another."""\n    return "2"\n'}
    with open_api(tmp_path_factory.mktemp("gateway"), extra=extra, files=files) as opened:
        yield opened


@requirement("CON-health")
def test_the_process_says_that_it_lives(api: Api) -> None:
    answer = api.ask("GET", "/healthz", key=None)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@requirement("CON-health")
def test_readiness_lists_each_source_with_its_state(api: Api) -> None:
    answer = api.ask("GET", "/readyz", key="answerer")
    body = answer.json()
    assert answer.status_code == 200
    assert (body["status"], body["store"]) == ("ready", "ok")
    assert body["version"]
    sources = {source["name"]: source for source in body["sources"]}
    assert sources["local"] == {
        "name": "local",
        "kind": "files",
        "status": "faulty",
        "error": "tools/broken.py, line 1: invalid syntax. Correct it; until then the file offers no tools.",
        "resources": 0,
        "templates": 0,
        "prompts": 0,
        "tools": sources["local"]["tools"],
    }
    assert sources["local"]["tools"] > 5


@requirement("SAFE-readyz-without-key")
def test_without_a_key_readiness_is_status_and_store_only(api: Api) -> None:
    for key in (None, "sandbox"):
        answer = api.ask("GET", "/readyz", key=key)
        assert (answer.status_code, answer.json()) == (200, {"status": "ready", "store": "ok"})


def test_readiness_says_whose_name_had_to_change_and_how_to_cure_it(api: Api) -> None:
    [notice] = api.ask("GET", "/readyz", key="reader").json()["notices"]
    assert set(notice["sources"]) == {"local", "second"}
    assert "echo" in notice["message"]


def test_faults_of_tool_files_are_told_to_those_who_may_read(api: Api) -> None:
    def faults(key: str) -> list[list[str] | None]:
        sources = api.ask("GET", "/readyz", key=key).json()["sources"]
        return [source.get("faults") for source in sources if source["name"] == "local"]

    [told] = faults("reader")
    assert told is not None
    assert "broken.py" in told[0]
    assert str(api.gateway.folder) not in told[0]
    assert faults("answerer") == [None]


def samples(text: str) -> dict[str, float]:
    """The samples of a page in Prometheus' text format, every line of it checked."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP jackfield_\w+ .+|TYPE jackfield_\w+ (counter|gauge|histogram))", line)
            continue
        sample = re.fullmatch(r'(jackfield_\w+(?:\{\w+="(?:[^"\\]|\\.)*"(?:,\w+="(?:[^"\\]|\\.)*")*\})?) (\S+)', line)
        assert sample is not None, line
        found[sample[1]] = float(sample[2])
    return found


@requirement("CON-health")
def test_metrics_count_calls_by_tool_and_status(api: Api) -> None:
    before = samples(api.ask("GET", "/metrics", key="reader").text)
    api.execute("add", {"a": 1})
    api.execute("boom")
    answer = api.ask("GET", "/metrics", key="reader")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    after = samples(answer.text)
    completed = 'jackfield_calls_total{tool="add",source="local",principal="(other)",outcome="completed"}'
    failed = 'jackfield_calls_total{tool="boom",source="local",principal="(other)",outcome="failed"}'
    assert after[completed] == before.get(completed, 0) + 1
    assert after[failed] == before.get(failed, 0) + 1
    assert after["jackfield_calls_running"] == 0
    assert after['jackfield_source_up{source="local",kind="files"}'] == 1
    everything = 'jackfield_call_duration_seconds_bucket{tool="add",source="local",le="+Inf"}'
    assert after[everything] == after['jackfield_call_duration_seconds_count{tool="add",source="local"}']


def test_a_key_that_sees_few_tools_gets_the_figures_of_those(api: Api) -> None:
    api.execute("boom")
    api.execute("echo")
    text = api.ask("GET", "/metrics", key="limited").text
    assert 'tool="echo"' in text
    assert 'tool="boom"' not in text


def test_the_openapi_document_names_every_route_and_its_security(api: Api) -> None:
    document: dict[str, Any] = api.ask("GET", "/openapi.json", key="reader").json()
    assert document["openapi"] == "3.1.0"
    assert {
        "/api/v1/tools",
        "/api/v1/tools/search",
        "/api/v1/tools/changes",
        "/api/v1/tools/{name}",
        "/api/v1/tools/{name}/execute",
        "/api/v1/calls",
        "/api/v1/calls/stream",
        "/api/v1/calls/{id}",
        "/api/v1/calls/{id}/cancel",
        "/api/login",
        "/api/logout",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/",
    } <= set(document["paths"])
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert document["paths"]["/healthz"]["get"]["security"] == []
    assert {"bearer": []} in document["paths"]["/api/v1/tools"]["get"]["security"]


class Links(HTMLParser):
    """What a page refers to, and whether it has script or style of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        self.files += [given[name] or "" for name in ("src", "href") if name in given]


def test_the_page_loads_only_its_own_open_files_and_runs_nothing_inline(api: Api) -> None:
    answer = api.ask("GET", "/", key=None)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    plain = (Path(__file__).parents[2] / "src/jackfield/console/static/index.html").read_text()
    for page in (answer.text, plain):  # the console where it is built, and the page where it is not
        links = Links()
        links.feed(page)
        assert links.inline == []
        for file in set(links.files) - {"/openapi.json"}:
            assert file.startswith("/"), file
            assert api.ask("GET", file, key=None).status_code == 200, file


def test_the_pages_script_never_makes_html_from_text() -> None:
    script = (Path(__file__).parents[2] / "src/jackfield/console/static/page.js").read_text()
    for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert danger not in script


def test_the_page_is_not_cached_beyond_a_new_version(api: Api) -> None:
    assert httpx2.get(api.gateway.url).headers["cache-control"] == "no-cache"
