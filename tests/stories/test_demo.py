"""The demo project, served: every one of its tools does what its description says."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.harness.process import RunningGateway, free_port, run_cli, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

DEMO = Path(__file__).parents[2] / "examples/demo"

TOOLS = {
    "about_this_gateway",
    "book_hotel",
    "confirmAction",
    "convert_currency",
    "convert_units",
    "count_down",
    "displayChart",
    "erase_notes",
    "fail_on_purpose",
    "find_primes",
    "gateway_health",
    "greet",
    "hotel_quote",
    "hotel_search",
    "qr_code",
    "read_thermometer",
    "roll_dice",
    "send_invoice",
    "tell_fortune",
    "text_statistics",
}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """The demo on a free port; its `gateway_health` asks at the demo's own port, so that is changed along."""
    folder = tmp_path_factory.mktemp("demo") / "project"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    port = free_port()
    config = (folder / "jackfield.toml").read_text(encoding="utf-8").replace("127.0.0.1:8420", f"127.0.0.1:{port}")
    with running_gateway(folder, config, env={"JACKFIELD_PORT": str(port)}) as gateway:
        yield gateway


def execute(gateway: RunningGateway, tool: str, arguments: Json) -> httpx2.Response:
    return httpx2.post(
        f"{gateway.url}/api/v1/tools/{tool}/execute", headers=gateway.headers, json={"arguments": arguments}, timeout=30
    )


def answer(gateway: RunningGateway, tool: str, arguments: Json) -> Json:
    response = execute(gateway, tool, arguments)
    assert response.status_code == 200, response.text
    decoded: Json = msgspec.json.decode(response.content)
    return decoded


def manifest(gateway: RunningGateway) -> Json:
    response = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers)
    decoded: Json = msgspec.json.decode(response.content)
    return decoded


@requirement("DISC-reference-tools")
def test_the_demo_publishes_its_tools_and_has_a_category_for_each(demo: RunningGateway) -> None:
    published = manifest(demo)
    assert {tool["name"] for tool in published["tools"]} == TOOLS
    assert {tool["category"] for tool in published["tools"]} == {entry["id"] for entry in published["categories"]}
    assert all(tool["description"] for tool in published["tools"])
    assert {tool["source"] for tool in published["tools"]} == {"local", "http", "internal", "space", "external"}


def test_no_source_of_the_demo_has_a_fault_and_no_tool_had_to_be_renamed(demo: RunningGateway) -> None:
    ready = msgspec.json.decode(httpx2.get(f"{demo.url}/readyz", headers=demo.headers).content)
    assert {source["status"] for source in ready["sources"]} == {"up"}
    assert "fault" not in demo.printed + demo.log
    assert "note " not in demo.printed + demo.log


@requirement("DISC-reference-tools")
@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("roll_dice", {"count": 3, "seed": 7}, {"rolls": [3, 2, 4], "total": 9}),
        ("convert_units", {"value": 1, "source": "mi", "target": "m"}, 1609.344),
        ("convert_units", {"value": 100, "source": "C", "target": "F"}, 212.0),
        ("convert_units", {"value": 7, "source": "F", "target": "F"}, 7.0),
        ("convert_currency", {"amount": 10, "source": "EUR", "target": "JPY"}, {"amount": 1635.0, "currency": "JPY"}),
        ("greet", {"name": "Ada", "languages": ["japanese"]}, {"japanese": "こんにちは、Adaさん"}),
        ("find_primes", {"limit": 30}, {"count": 10, "largest": [13, 17, 19, 23, 29]}),
        ("count_down", {"start": 1, "pause": 0}, "Lift-off!"),
        (
            "text_statistics",
            {"text": "To be, or not to be? That!", "top": 2},
            {
                "characters": 26,
                "words": 7,
                "sentences": 2,
                "frequent": [{"word": "be", "count": 2}, {"word": "to", "count": 2}],
            },
        ),
        (
            "hotel_search",
            {"city": "Lisbon", "by_the_water": True, "max_price": 200},
            [{"name": "Miradouro", "city": "Lisbon", "stars": 4, "price": 132.0, "by_the_water": True}],
        ),
        ("book_hotel", {"hotel": "Casa Azul"}, {"reference": "JF-6922", "hotel": "Casa Azul", "nights": 1}),
        (
            "hotel_quote",
            {
                "hotel": "casa azul",
                "arrival": "2026-02-27",
                "nights": 2,
                "party": {"adults": 2, "children": 2},
                "meals": "breakfast",
            },
            {
                "hotel": "Casa Azul",
                "arrival": "2026-02-27",
                "departure": "2026-03-01",
                "total": 336.0,
                "currency": "EUR",
            },
        ),
        (
            "displayChart",
            {"title": "Sales", "bars": [{"label": "May", "value": 3}]},
            {"success": True, "args": {"title": "Sales", "bars": [{"label": "May", "value": 3}]}},
        ),
    ],
)
def test_a_demo_tool_gives_its_result(demo: RunningGateway, tool: str, arguments: Json, result: Any) -> None:
    given = answer(demo, tool, arguments)
    assert (given["status"], given["result"]) == ("completed", result)


def test_the_http_tool_of_the_demo_asks_the_gateway_itself(demo: RunningGateway) -> None:
    given = answer(demo, "gateway_health", {})
    assert given["status"] == "completed", given
    assert given["result"]["status"] == "ready"


@requirement("WORK-inprocess-registry", "WORK-inprocess-config")
def test_a_demo_tool_reads_registry_settings_and_config_through_its_context(demo: RunningGateway) -> None:
    about = answer(demo, "about_this_gateway", {})["result"]
    assert about["gateway"] == "jackfield-demo"
    assert about["motto"] == "Anything can be patched into anything."
    assert {name for names in about["tools"].values() for name in names} == TOOLS


def test_a_demo_tool_with_a_dependency_draws_a_code_in_a_process_of_its_own(demo: RunningGateway) -> None:
    lines = answer(demo, "qr_code", {"text": "https://example.org"})["result"].split("\n")
    assert sum(line.count("█▀▀▀▀▀█") for line in lines) == 3  # the three corners
    assert len({len(line) for line in lines}) == 1


def test_the_hotels_of_the_demo_are_looked_up_by_a_worker_that_has_nothing_to_install(demo: RunningGateway) -> None:
    answer(demo, "hotel_search", {"city": "Tokyo"})
    workers = msgspec.json.decode(httpx2.get(f"{demo.url}/api/v1/workers", headers=demo.headers).content)["workers"]
    [hotels] = [worker for worker in workers if worker["name"] == "hotels"]
    assert (hotels["state"], hotels["restarts"]) == ("running", 0)
    assert hotels["calls"] >= 1


def test_the_demo_has_a_tool_that_fails_and_one_that_fails_for_some_arguments(demo: RunningGateway) -> None:
    assert answer(demo, "fail_on_purpose", {})["error"]["message"] == (
        "RuntimeError: This tool always fails: you asked for it."
    )
    assert answer(demo, "convert_units", {"value": 1, "source": "kg", "target": "km"})["error"]["message"] == (
        "ValueError: kg cannot become km: they measure different things."
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("roll_dice", {"count": 101}, "count"),
        ("roll_dice", {"sides": 7}, "sides"),
        ("hotel_search", {"city": "Atlantis"}, "city"),
        ("hotel_quote", {"hotel": "Casa Azul", "arrival": "soon", "nights": 1}, "arrival"),
        ("hotel_quote", {"hotel": "Casa Azul", "arrival": "2026-05-01", "nights": 1, "party": {"adults": 0}}, "party"),
        ("send_invoice", {"customer": "Acme", "amount": 0}, "amount"),
        ("displayChart", {"title": "Sales", "bars": []}, "bars"),
    ],
)
def test_a_demo_tool_refuses_arguments_that_its_hints_rule_out(
    demo: RunningGateway, tool: str, arguments: Json, place: str
) -> None:
    response = execute(demo, tool, arguments)
    assert response.status_code == 400
    error = msgspec.json.decode(response.content)["error"]
    assert error["code"] == "invalid_arguments"
    assert any(detail["path"].startswith(place) for detail in error["details"]), error


def test_the_demo_has_a_tool_for_each_kind_of_policy(demo: RunningGateway) -> None:
    switched_off = execute(demo, "erase_notes", {"folder": "inbox"})
    assert switched_off.status_code == 403
    needs_consent = execute(demo, "send_invoice", {"customer": "Acme", "amount": 1})
    assert needs_consent.status_code == 202
    fortunes = [execute(demo, "tell_fortune", {"name": "Ada"}).status_code for _ in range(4)]
    assert fortunes == [200, 200, 200, 429]


@requirement("TOOL-agentic-engine")
def test_the_model_of_the_demo_finds_a_hotel_with_the_demos_own_tools(demo: RunningGateway) -> None:
    found = respond(demo, input="A hotel in Lisbon?")
    assert [item["type"] for item in found["output"]] == ["mcp_list_tools", "message", "mcp_call", "message"]
    assert found["output"][-1]["content"][0]["text"] == "Casa Azul is the cheapest, at 84.0 euros a night."


@pytest.mark.parametrize(
    ("approve", "says"), [(True, "Invoice 0374 is on its way to Acme."), (False, "Then I will not send it.")]
)
def test_the_model_of_the_demo_sends_an_invoice_only_with_a_persons_consent(
    demo: RunningGateway, approve: Any, says: str
) -> None:
    asked = respond(demo, input="Please invoice Acme for 120.")
    request = asked["output"][-1]
    assert (request["type"], request["name"]) == ("mcp_approval_request", "send_invoice")
    answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}
    told = respond(demo, input=[answer], previous_response_id=asked["id"])
    assert told["output"][-1]["content"][0]["text"] == says


def respond(gateway: RunningGateway, **body: Any) -> Json:
    asked = {"model": "demo", "tools": [{"type": "mcp", "server_label": "jackfield"}], **body}
    response = httpx2.post(f"{gateway.url}/v1/responses", headers=gateway.headers, json=asked, timeout=30)
    assert response.status_code == 200, response.text
    decoded: Json = msgspec.json.decode(response.content)
    return decoded


def test_the_thermometer_of_the_demo_is_read_by_a_program_beside_the_gateway(demo: RunningGateway) -> None:
    server = subprocess.Popen([sys.executable, demo.folder / "thermometer.py"], env=demo.environment)
    try:
        given = answer(demo, "read_thermometer", {"room": "cellar"})
    finally:
        server.terminate()
        server.wait(15)
    assert (given["status"], given["result"]) == ("completed", {"room": "cellar", "celsius": 12.0})


def test_a_person_answers_the_question_of_the_demo(demo: RunningGateway) -> None:
    asked = execute(demo, "confirmAction", {"question": "Ship it?"})
    assert asked.status_code == 202
    call_id = msgspec.json.decode(asked.content)["call_id"]
    answered = run_cli("answer", call_id, '{"confirmed": true}', cwd=demo.folder)
    assert answered.returncode == 0, answered.stderr
    record = httpx2.get(f"{demo.url}/api/v1/calls/{call_id}", headers=demo.headers)
    assert msgspec.json.decode(record.content)["call"]["result"] == {"confirmed": True}


def chat(demo: RunningGateway, typed: str, *options: str) -> str:
    done = run_cli("chat", "lobby", *options, cwd=demo.folder, stdin=typed)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def the_chart(demo: RunningGateway) -> Json:
    """The newest chart in the lobby."""
    page = httpx2.get(f"{demo.url}/api/spaces/lobby/messages", headers=demo.headers)
    shown = [message["metadata"] for message in msgspec.json.decode(page.content)["messages"]]
    charts: list[Json] = [call for call in shown if call.get("toolName") == "displayChart"]
    return charts[-1]


@requirement(
    "SPACE-type-space",
    "SPACE-type-space-user-result",
    "SPACE-example-confirm-seen",
    "SPACE-example-confirm-answer",
    "SPACE-cycle-ends",
    "SPACE-cycle-acts-on-result",
    "SPACE-results-wakes",
)
def test_the_concierge_searches_shows_asks_sleeps_and_books_when_the_answer_comes(demo: RunningGateway) -> None:
    shown = chat(demo, "Book a hotel in Tokyo\n", "--as", "Ada").splitlines()
    assert shown[:3] == [
        "Ada: Book a hotel in Tokyo",
        "Concierge: Let me see what Tokyo has.",
        "Concierge shows displayChart",
    ]
    assert shown[-3:] == [
        "Concierge asks confirmAction",
        "  Book Yanaka House in Tokyo for 112.0 euros a night?",
        "  Answer yes, no, or JSON.",
    ]
    chart = the_chart(demo)
    assert (chart["status"], [bar["value"] for bar in chart["args"]["bars"]]) == ("complete", [112.0, 186.0, 340.0])
    assert run_cli("agents", cwd=demo.folder).stdout.splitlines()[1].split()[:2] == ["concierge", "asleep"]

    [question] = [call for call in pending(demo) if call["tool"] == "confirmAction" and call["agent"] == "concierge"]
    body = {"callId": question["id"], "result": {"confirmed": True}}
    path = f"/api/runs/{question['run_id']}/tool-results"
    assert httpx2.post(f"{demo.url}{path}", headers=demo.headers, json=body).status_code == 200
    said = eventually(lambda: next((text for text in texts(demo) if text.startswith("Done:")), None))
    assert said == "Done: a room at Yanaka House is yours. The reference is JF-8368."


def test_the_concierge_books_nothing_for_who_says_no_and_knows_what_else_to_say(demo: RunningGateway) -> None:
    shown = chat(demo, "any hotels in kyoto?\nno\nThanks!\nFind me a hotel\nHello\n", "--as", "Bo").splitlines()
    rest = shown[shown.index('  → confirmAction: {"confirmed":false}') + 1 :]
    assert rest == [
        "Concierge: Then I book nothing. Ask me again whenever you like.",
        "Bo: Thanks!",
        "Concierge: You are welcome.",
        "Bo: Find me a hotel",
        "Concierge: Gladly. In which city? I know hotels in Bergen, Hamburg, Kyoto, Lisbon and Tokyo.",
        "Bo: Hello",
        "Concierge: Hello Bo! I find hotels and book them. Try: Book a hotel in Tokyo.",
    ]


def test_the_banner_of_the_demo_says_where_to_meet_the_concierge(demo: RunningGateway) -> None:
    assert "jackfield chat lobby\n        to chat with Concierge" in demo.printed + demo.log


def pending(demo: RunningGateway) -> list[Json]:
    page = httpx2.get(f"{demo.url}/api/v1/calls", params={"status": "pending"}, headers=demo.headers)
    calls: list[Json] = msgspec.json.decode(page.content)["calls"]
    return calls


def texts(demo: RunningGateway) -> list[str]:
    page = httpx2.get(f"{demo.url}/api/spaces/lobby/messages", headers=demo.headers)
    return [message["content"] for message in msgspec.json.decode(page.content)["messages"]]
