"""Runs: what was asked and answered, every message as the model saw it, one time axis, waiting, cancel, compare."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from tests.console.model_server import ModelServer, model_server
from tests.console.scene import ADMIN, get, post
from tests.console.test_faults import AXE, serious
from tests.console.test_hostile import TRICKS, assert_unharmed
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]

CONFIG = """
[programs]
enabled = true

[models.mind]
provider = "openai"
base_url = "MODEL"
model = "tiny"
price = { input = 2.0, output = 10.0 }

[agents.ada]
name = "Ada"
model = "mind"
spaces = ["lobby"]

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.pay]
metadata = { requires_approval = true }
"""
TOOLS = '''
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount} <b onclick=alert(1)>euros</b>"
'''
PROGRAM = 'print("before <script>window.poisoned=10</script>")\npaid = await tools.pay(amount=5)\nreturn paid'


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server() as served:
        yield served


@pytest.fixture(scope="module")
def office(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("office")
    with running_gateway(folder, CONFIG.replace("MODEL", model.url), files={"tools/t.py": TOOLS}, env=ADMIN) as gateway:
        eventually(lambda: get(gateway, "/api/v1/tools?limit=1"))
        yield gateway


def respond(gateway: RunningGateway, said: str, **more: Any) -> str:
    tools = [{"type": "mcp", "server_label": "jackfield", "require_approval": "never"}]
    made = post(gateway, "/v1/responses", {"model": "mind", "input": said, "tools": tools, **more})
    return str(made["id"])


def run_of(gateway: RunningGateway, run_id: str) -> Any:
    return get(gateway, f"/api/runs/{run_id}")["run"]


@requirement("CONSOLE-runs", "CONSOLE-lists-about")
def test_a_run_shows_what_its_model_saw_and_how_long_everything_took(visit: Visit, office: RunningGateway) -> None:
    run_id = respond(office, f"Please add. {TRICKS}", instructions="Be <i>brief</i>.")
    boss = visit(gateway=office)
    page = boss.go(f"/runs/{run_id}")
    expect(page.get_by_role("heading", name="Response")).to_be_visible()
    expect(page.get_by_role("region", name="Prompt")).to_contain_text("Please add. <script>window.poisoned=5</script>")
    expect(page.get_by_role("region", name="Answer")).to_contain_text("<img src=x onerror='window.poisoned=9'>")
    facts = page.locator(".fact-list").first
    expect(facts).to_contain_text("2,400 in (2,000 cached), 60 out")
    expect(facts).to_contain_text("0.0054")
    record = run_of(office, run_id)
    first = record["steps"][0]
    bar = page.locator('.timeline a[href="#step-1"] .bar')
    assert first["n"] == 1
    assert bar.get_attribute("title") == f"model: {taken(first['modelMs'])}"
    expect(facts.get_by_role("link", name="1", exact=True)).to_have_attribute("href", f"#/calls?run={run_id}")
    widths = page.locator(".timeline .bar").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().left)")
    assert widths == sorted(widths), "one axis, in the order of things"
    expect(page.locator(".timeline a")).to_have_count(3)
    page.get_by_role("link", name="Messages").click()
    step = page.get_by_role("region", name="Messages of step 1")
    expect(step).to_contain_text("Be <i>brief</i>.")
    expect(step).to_contain_text("Please add.")
    expect(step).to_contain_text("Let me add.")
    second = page.get_by_role("region", name="Messages of step 2")
    second.get_by_role("button", name="messages of the steps before").click()
    expect(second).to_contain_text("Please add.")
    expect(second).to_contain_text("result add3")
    assert_unharmed(page)
    if AXE.is_file():
        assert serious(page) == []
    page.reload()
    expect(step).to_contain_text("Let me add.")
    boss.go("/runs?kind=response")
    row = page.get_by_role("table", name="Runs").get_by_role("row").filter(has_text="Please add.").first
    expect(row).to_contain_text("Please add. <script>window.poisoned=5</script>")
    assert_unharmed(page)


def taken(milliseconds: int) -> str:
    return f"{max(1, milliseconds)} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


@requirement("CONSOLE-runs")
def test_a_run_that_needs_an_approval_reads_as_waiting_and_goes_on(visit: Visit, office: RunningGateway) -> None:
    run_id = respond(office, "Please pay", background=True)
    eventually(lambda: run_of(office, run_id)["waitsFor"])
    boss = visit(gateway=office)
    page = boss.go(f"/runs/{run_id}")
    expect(page.locator(".run-waits")).to_contain_text("Waits for an approval: pay, since")
    waiting = page.locator(".timeline a.call")
    expect(waiting).to_contain_text("waiting")
    expect(waiting.locator(".bar.requires_action")).to_be_visible()
    expect(waiting.locator(".bar.running")).to_have_count(0)
    boss.card("pay").get_by_role("button", name="Approve").click()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("Done.")
    expect(page.locator(".run-head .badge")).to_have_text("completed")
    expect(page.locator(".timeline a.call .bar")).to_have_count(2)


@requirement("CONSOLE-runs")
def test_runs_are_filtered_in_the_address_cancelled_and_compared(
    visit: Visit, office: RunningGateway, model: ModelServer
) -> None:
    one = respond(office, "Hello")
    model.may_answer.clear()
    other = respond(office, "Wait for me", background=True)
    boss = visit(gateway=office)
    page = boss.go("/runs?kind=response&status=running")
    table = page.get_by_role("table", name="Runs")
    expect(table.get_by_role("link", name="Response")).to_have_count(1)
    table.get_by_role("link", name="Response").click()
    expect(page).to_have_url(f"{office.url}/#/runs/{other}")
    page.get_by_role("button", name="Cancel run").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    expect(page.locator(".run-head .badge")).to_have_text("cancelled")
    model.may_answer.set()
    assert run_of(office, other)["status"] == "cancelled"
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("link", name="Choose from all runs").click()
    page.get_by_label("Status").select_option("completed")
    expect(page).to_have_url(re.compile("status=completed"))
    page.locator(f'a[href="#/runs/compare?one={other}&other={one}"]').click()
    compared = page.locator("table.compare")
    expect(compared.locator("tr.differs", has_text="Status")).to_contain_text("cancelled")
    expect(compared.locator("tr.differs", has_text="Asked")).to_contain_text("Wait for me")
    if AXE.is_file():
        assert serious(page) == []
    page.go_back()
    expect(page.get_by_text("Choose the run to compare with")).to_be_visible()


@requirement("CONSOLE-runs")
def test_a_run_that_failed_says_why_and_is_resumed_and_its_calls_are_a_click_away(
    visit: Visit, office: RunningGateway, model: ModelServer
) -> None:
    model.is_out_of_order = True
    run_id = respond(office, "Please add", background=True)
    eventually(lambda: run_of(office, run_id)["status"] == "failed")
    model.is_out_of_order = False
    boss = visit(gateway=office)
    page = boss.go(f"/runs/{run_id}")
    expect(page.locator(".run-head .badge")).to_have_text("failed")
    expect(page.locator(".run-facts .fault")).to_contain_text("400")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("Done.")
    expect(page.locator(".run-head .badge")).to_have_text("completed")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    page.locator(f'a[href="#/calls?run={run_id}"]').click()
    expect(page.locator(".calls-frame [data-call]")).to_have_count(1)
    expect(page.locator(".calls-frame [data-call]")).to_contain_text("add")


@requirement("CONSOLE-waiting-programs")
def test_a_program_that_waits_is_not_in_waiting_and_nobody_answers_in_its_place(
    visit: Visit, office: RunningGateway
) -> None:
    made = post(
        office, "/api/v1/tools/run_program/execute", {"arguments": {"code": "return await tools.pay(amount=9)"}}
    )
    started = eventually(lambda: run_of(office, f"prog_{made['call_id']}")["waitsFor"])
    boss = visit(gateway=office)
    page = boss.go("/waiting")
    pending = page.get_by_role("list", name="Pending calls")
    expect(pending.locator(f'li[data-waits="{started[0]["callId"]}"]')).to_be_visible()
    expect(pending.get_by_text("run_program")).to_have_count(0)
    run_id = get(office, f"/api/v1/calls/{made['call_id']}")["call"]["run_id"]
    answered = httpx2.post(
        f"{office.url}/api/runs/{run_id}/tool-results",
        headers=office.headers,
        json={"callId": made["call_id"], "result": "made up"},
    )
    assert answered.status_code == 403
    boss.card("pay").get_by_role("button", name="Approve").click()
    ended = eventually(lambda: get(office, f"/api/v1/calls/{made['call_id']}")["call"]["result"])
    assert "paid 9" in str(ended)


@requirement("CONSOLE-runs")
def test_a_program_shows_its_code_log_and_the_call_that_started_it(visit: Visit, office: RunningGateway) -> None:
    made = post(office, "/api/v1/tools/run_program/execute", {"arguments": {"code": PROGRAM}})
    run_id = f"prog_{made['call_id']}"
    eventually(lambda: run_of(office, run_id)["status"] == "parked")
    boss = visit(gateway=office)
    page = boss.go(f"/runs/{run_id}")
    expect(page.locator(".run-head .badge")).to_contain_text("waiting")
    expect(page.locator(".fact-list").first).to_contain_text("Waiting since")
    expect(page.get_by_role("region", name="Program")).to_contain_text("await tools.pay(amount=5)")
    page.get_by_role("link", name="Log").click()
    expect(page.get_by_label("What the program printed")).to_contain_text("before <script>window.poisoned=10</script>")
    page.get_by_role("link", name="Timeline").click()
    boss.card("pay").get_by_role("button", name="Approve").click()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("paid 5 <b onclick=alert(1)>euros</b>")
    assert_unharmed(page)
    parent = run_of(office, run_id)["parent"]["runId"]
    page.get_by_role("link", name=parent[:60]).click()
    expect(page.get_by_role("link", name="The program that it ran")).to_be_visible()
