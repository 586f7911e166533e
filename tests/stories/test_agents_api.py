"""Agents over HTTP: made, changed and deleted by administrators, and what they have in mind."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.harness.api import Api, error_of, open_api
from tests.requirement import requirement
from tests.waiting import eventually

CONFIG = """
[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.ada]
name = "Ada"
model = "mind"
instructions = "Be brief."
spaces = ["home"]

[agents.ada.mcp]
servers = [{ name = "far", url = "http://127.0.0.1:9/mcp?token=hidden", headers = { Authorization = "Bearer hidden" } }]
"""
MIND = """
[otherwise]
say = "Noted."
"""
Json = dict[str, Any]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway"), extra=CONFIG, files={"mind.toml": MIND}) as opened:
        yield opened


def ask(api: Api, method: str, path: str, body: object = None, *, status: int = 200, key: str = "admin") -> Any:
    answer = _sent(api, method, path, body, key=key)
    assert answer.status_code == status, answer.text
    return answer.json()


def _sent(api: Api, method: str, path: str, body: object, *, key: str) -> httpx2.Response:
    return api.ask(method, path, key=key) if body is None else api.ask(method, path, key=key, json=body)


def refused(api: Api, method: str, path: str, body: object = None, *, status: int, key: str = "admin") -> Json:
    answer = _sent(api, method, path, body, key=key)
    assert answer.status_code == status, answer.text
    return error_of(answer)


def cycles(api: Api, agent: str) -> list[Json]:
    found: list[Json] = ask(api, "GET", f"/api/agents/{agent}/cycles")["cycles"]
    return found


def done_about(api: Api, agent: str, event_id: str) -> Json:
    """The finished cycle that was about this event."""
    return (
        eventually(
            lambda: next((c for c in cycles(api, agent) if event_id in c["consumed"] and c["status"] == "done"), None)
        )
        or {}
    )


@requirement("CON-agents-crud")
def test_an_agent_is_made_changed_woken_and_deleted(api: Api) -> None:
    made = ask(
        api, "POST", "/api/agents", {"id": "bob", "model": "mind", "maxSteps": 3, "spaces": ["attic"]}, status=201
    )
    assert (made["entityId"], made["agent"]["id"], made["agent"]["maxSteps"]) == ("bob", "bob", 3)
    assert made["agent"] == ask(api, "GET", "/api/agents/bob")["agent"]
    assert {a["id"] for a in ask(api, "GET", "/api/agents")["agents"]} >= {"ada", "bob"}
    assert [m["entityId"] for m in ask(api, "GET", "/api/spaces/attic/members")["members"]] == ["bob"]

    changed = ask(api, "PATCH", "/api/agents/bob", {"name": "Bob", "context_tokens": 2000})["agent"]
    assert (changed["name"], changed["contextTokens"], changed["maxSteps"], changed["model"]) == (
        "Bob",
        2000,
        3,
        "mind",
    )

    woken = ask(api, "POST", "/api/agents/bob/trigger", {"serviceName": "clock", "payload": {"hour": 9}}, key="caller")
    cycle = done_about(api, "bob", woken["eventId"])
    assert (cycle["number"], cycle["summary"], cycle["consumed"]) == (1, "Noted.", [woken["eventId"]])
    assert cycle["inputTokens"] > 0
    assert cycle["finishedAt"] >= cycle["createdAt"]
    [event] = ask(api, "GET", "/api/agents/bob/inbox")["events"]
    assert (event["type"], event["status"]) == ("service", "processed")
    shown = ask(api, "GET", "/api/agents/bob")["agent"]
    assert (shown["status"], shown["lastCycle"]) == ("asleep", cycle)

    assert ask(api, "DELETE", "/api/agents/bob") == {"success": True}
    assert refused(api, "GET", "/api/agents/bob", status=404)["code"] == "agent_not_found"
    assert ask(api, "GET", "/api/spaces/attic/members")["members"] == []


@requirement("CON-agents-crud")
def test_clients_of_the_seeds_era_make_agents_in_their_own_spelling(api: Api) -> None:
    config = {
        "version": "1.0",
        "agent": {"system": "Be kind."},
        "model": {"provider": "x", "name": "mind"},
        "tools": ["add"],
    }
    body = {"name": "Carol", "description": "Helps.", "configJson": config}
    made = ask(api, "POST", "/api/agents", body, status=201)
    agent = made["agent"]
    assert made["entityId"] == agent["id"] != ""
    told = {key: agent[key] for key in ("name", "description", "instructions", "model", "tools")}
    assert told == {
        "name": "Carol",
        "description": "Helps.",
        "instructions": "Be kind.",
        "model": "mind",
        "tools": ["add"],
    }
    with_tool = {"tools": [{"name": "x", "executionType": "internal", "description": "y"}]}
    refusal = refused(api, "POST", "/api/agents", {"name": "Dan", "configJson": with_tool}, status=400)
    assert "POST /api/v1/tools" in refusal["message"]


def test_an_agent_of_the_config_is_shown_without_its_secrets_and_changed_there_alone(api: Api) -> None:
    answer = api.ask("GET", "/api/agents/ada", key="reader")
    assert "hidden" not in answer.text
    agent = answer.json()["agent"]
    assert (agent["origin"], agent["name"], agent["instructions"]) == ("config", "Ada", "Be brief.")
    assert agent["mcpServers"] == [{"name": "far", "transport": None, "allowedTools": None}]
    for method, body in (("PATCH", {"name": "Eve"}), ("DELETE", None)):
        assert "in the config" in refused(api, method, "/api/agents/ada", body, status=409)["message"]
    taken = refused(api, "POST", "/api/agents", {"id": "ada"}, status=409)
    assert "already" in taken["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"id": "a b"}, "id"),
        ({"id": "x", "maxSteps": 0}, "maxSteps"),
        ({"id": "x", "colour": "red"}, "colour"),
        ({"id": "x", "model": "nobody"}, "model"),
        ({"id": "x", "spaces": ["a b"]}, "spaces[0]"),
        ({"id": "x", "max_steps": 2, "maxSteps": 3}, "maxSteps"),
        ({"id": "x", "mcp": {"servers": [{"name": "own", "command": ["sh"]}]}}, "mcp"),
        ({"id": "x", "configJson": "no json"}, "configJson"),
        ({"id": "x", "configJson": {"tools": 5}}, "tools"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_with_the_key_that_is_wrong(api: Api, body: Json, param: str) -> None:
    assert refused(api, "POST", "/api/agents", body, status=400)["param"] == param
    assert api.ask("GET", "/api/agents/x").status_code == 404


@requirement("CON-agents-crud")
def test_memories_are_read_and_replaced_as_a_whole(api: Api) -> None:
    path = "/api/agents/ada/memories"
    first = {"memories": [{"key": "tea", "value": "green"}, {"key": "cat", "value": "Mo"}]}
    kept = ask(api, "PUT", path, first)["memories"]
    assert [(m["key"], m["value"]) for m in kept] == [("cat", "Mo"), ("tea", "green")]
    kept[0]["value"] = "Momo"
    again = ask(api, "PUT", path, {"memories": kept[:1]})
    assert [(m["key"], m["value"]) for m in again["memories"]] == [("cat", "Momo")]
    assert ask(api, "GET", path) == again
    assert ask(api, "PUT", path, {"memories": []}) == {"memories": []}
    twice = {"memories": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}
    assert "'a'" in refused(api, "PUT", path, twice, status=400)["message"]
    assert refused(api, "PUT", path, {"memories": [{"key": "a"}]}, status=400)["param"] == "value"
    long = {"memories": [{"key": "a", "value": "x" * 20_001}]}
    assert "20,000 are the most" in refused(api, "PUT", path, long, status=400)["message"]
    many = {"memories": [{"key": str(number), "value": "x"} for number in range(1001)]}
    assert "1,000 at most" in refused(api, "PUT", path, many, status=400)["message"]


@requirement("CON-agents-crud")
def test_goals_are_read_and_replaced_and_keep_their_ids(api: Api) -> None:
    path = "/api/agents/ada/goals"
    body = {"goals": [{"description": "Learn"}, {"description": "Rest", "priority": 5}]}
    rest, learn = ask(api, "PUT", path, body)["goals"]
    assert (rest["description"], rest["priority"], learn["status"]) == ("Rest", 5, "active")
    changed = ask(api, "PUT", path, {"goals": [{**learn, "status": "done"}]})["goals"]
    assert changed == [{**learn, "status": "done"}]
    unknown = refused(api, "PUT", path, {"goals": [{"id": rest["id"], "description": "Rest"}]}, status=400)
    assert rest["id"] in unknown["message"]
    assert ask(api, "GET", path)["goals"] == changed


@requirement("CON-agents-plans", "CON-agents-crud")
def test_plans_say_when_in_one_of_three_ways_and_in_utc_unless_a_zone_is_given(api: Api) -> None:
    path = "/api/agents/ada/plans"
    now = datetime.now(UTC)
    plans = [
        {"name": "soon", "instruction": "Stretch", "runAfter": "2 hours"},
        {"name": "then", "scheduledAt": "2031-05-01T10:00:00Z"},
        {"name": "there", "scheduledAt": "2031-05-01T10:00:00", "timeZone": "Asia/Tokyo"},
        {"name": "daily", "cron": "0 9 * * *"},
        {"name": "daily in Tokyo", "cron": "0 9 * * *", "timeZone": "Asia/Tokyo"},
    ]
    kept = {plan["name"]: plan for plan in ask(api, "PUT", path, {"plans": plans})["plans"]}
    soon = datetime.fromisoformat(kept["soon"]["nextRunAt"])
    assert abs(soon - now - timedelta(hours=2)) < timedelta(seconds=30)
    assert kept["then"]["nextRunAt"] == "2031-05-01T10:00:00.000Z"
    assert kept["there"]["nextRunAt"] == "2031-05-01T01:00:00.000Z"
    assert kept["daily"]["nextRunAt"].endswith("T09:00:00.000Z")
    assert kept["daily in Tokyo"]["nextRunAt"].endswith("T00:00:00.000Z")
    assert [kept[name]["isRecurring"] for name in ("soon", "then", "daily")] == [False, False, True]

    sent_back = [kept["daily in Tokyo"], {**kept["then"], "instruction": "Dance"}]
    again = {plan["name"]: plan for plan in ask(api, "PUT", path, {"plans": sent_back})["plans"]}
    assert again == {"daily in Tokyo": kept["daily in Tokyo"], "then": {**kept["then"], "instruction": "Dance"}}
    assert ask(api, "PUT", path, {"plans": []}) == {"plans": []}


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"name": "x"}, "exactly one of runAfter, scheduledAt and cron"),
        ({"name": "x", "runAfter": "2 hours", "cron": "* * * * *"}, "It has runAfter, cron."),
        ({"name": "x", "runAfter": "soon"}, "<n> seconds|minutes|hours|days"),
        ({"name": "x", "scheduledAt": "tomorrow"}, "2026-01-15T10:30:00Z"),
        ({"name": "x", "cron": "every day"}, "minute hour day month weekday"),
        ({"name": "x", "cron": "* * * * *", "timeZone": "Mars"}, "Europe/Berlin"),
        ({"name": "x", "runAfter": "1 day", "colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_plan_without_a_time_that_comes_is_refused_with_the_cure(api: Api, plan: Json, says: str) -> None:
    assert says in refused(api, "PUT", "/api/agents/ada/plans", {"plans": [plan]}, status=400)["message"]
    assert ask(api, "GET", "/api/agents/ada/plans") == {"plans": []}


@requirement("CON-agents-plans")
def test_a_plan_wakes_its_agent_when_its_time_has_come_and_is_not_due_again_when_it_is_sent_back(api: Api) -> None:
    path = "/api/agents/ada/plans"
    at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    [plan] = ask(api, "PUT", path, {"plans": [{"name": "tea", "instruction": "Drink it", "scheduledAt": at}]})["plans"]
    cycle = done_about(api, "ada", f"{plan['id']}:{plan['scheduledAt']}")
    [event] = [e for e in ask(api, "GET", "/api/agents/ada/inbox")["events"] if e["eventId"] in cycle["consumed"]]
    assert event["data"] == {"planId": plan["id"], "planName": "tea", "instruction": "Drink it"}
    assert event["timestamp"] >= plan["scheduledAt"]

    [done] = ask(api, "GET", path)["plans"]
    assert (done["status"], done["nextRunAt"]) == ("done", None)
    assert ask(api, "PUT", path, {"plans": [done]})["plans"] == [done]
    ask(api, "PUT", path, {"plans": []})


@requirement("CON-agents-crud")
def test_a_key_of_an_agent_reads_and_changes_only_its_own_state(api: Api) -> None:
    ask(api, "POST", "/api/agents", {"id": "eve", "model": "mind"}, status=201)
    mine = {"memories": [{"key": "me", "value": "Ada"}]}
    assert ask(api, "PUT", "/api/agents/ada/memories", mine, key="ada")["memories"][0]["value"] == "Ada"
    assert [agent["id"] for agent in ask(api, "GET", "/api/agents", key="ada")["agents"]] == ["ada"]
    for method, path in (
        ("GET", "/api/agents/eve"),
        ("GET", "/api/agents/eve/cycles"),
        ("GET", "/api/agents/eve/goals"),
    ):
        assert refused(api, method, path, status=403, key="ada")["code"] == "forbidden"
    refused(api, "PUT", "/api/agents/eve/memories", mine, status=403, key="ada")
    refused(api, "POST", "/api/agents", {"id": "x"}, status=403, key="ada")


def test_who_may_read_reads_agents_and_changes_none(api: Api) -> None:
    for part in ("", "/cycles", "/memories", "/goals", "/plans"):
        ask(api, "GET", f"/api/agents/ada{part}", key="reader")
    for method, path, body in (
        ("PUT", "/api/agents/ada/memories", {"memories": []}),
        ("PATCH", "/api/agents/ada", {"name": "x"}),
        ("DELETE", "/api/agents/ada", None),
        ("POST", "/api/agents", {"id": "x"}),
    ):
        refused(api, method, path, body, status=403, key="reader")
        refused(api, method, path, body, status=403, key="caller")
    refused(api, "GET", "/api/agents", status=403, key="server")
    refused(api, "GET", "/api/agents", status=403, key="sandbox")


def test_cycles_come_in_pages_newest_first(api: Api) -> None:
    ask(api, "POST", "/api/agents", {"id": "pages", "model": "mind"}, status=201)
    for number in range(3):
        woken = ask(api, "POST", "/api/agents/pages/trigger", {"serviceName": "s", "payload": number})
        done_about(api, "pages", woken["eventId"])
    first = ask(api, "GET", "/api/agents/pages/cycles?limit=2")
    rest = ask(api, "GET", f"/api/agents/pages/cycles?limit=2&cursor={first['next_cursor']}")
    assert [[c["number"] for c in page["cycles"]] for page in (first, rest)] == [[3, 2], [1]]
    assert rest["next_cursor"] is None
    assert refused(api, "GET", "/api/agents/nobody/cycles", status=404)["code"] == "agent_not_found"
