"""An agent's call that wants a login: its owner is asked, the agent hears of the result by its inbox."""

from pathlib import Path

from jackfield.connections.owners import LoginsOfOwners
from jackfield.model.call import CallStatus, Delivery
from tests.calls.login_harness import SOURCE, LoginServer, add_login_source
from tests.requirement import requirement
from tests.stories.agent_harness import agents_gateway, inbox_of, told

CONFIG = """
[agents.concierge]
model = "mind"
[auth.keys.boss]
key = "boss-key"
scopes = ["admin"]
"""
SCRIPT = """
[[turns]]
when = { user = "Go" }
calls = [{ tool = "book", arguments = { n = 1 } }]
[otherwise]
say = "Noted."
"""
BOSS = {"x-api-key": "boss-key"}


@requirement("ID-login-agents")
async def test_the_one_who_made_an_agent_logs_in_for_it_and_its_call_runs_once(tmp_path: Path) -> None:
    server = LoginServer()
    async with agents_gateway(tmp_path, SCRIPT, CONFIG) as place:
        await add_login_source(place.gateway, server)
        made = await place.client.post("/api/agents", json={"id": "fay", "model": "mind"}, headers=BOSS)
        assert made.json()["agent"]["owner"] == "boss"
        await place.trigger("fay")
        await place.cycle("fay", 1)
        call = await place.call_of("book", agent="fay")
        assert (call.status, call.delivery, call.principal) == (
            CallStatus.PENDING_LOGIN,
            Delivery.INBOX,
            "agent:fay",
        )
        assert call.login is not None
        assert call.login.principal == "boss"
        said = told(place.requests[-1], "book")
        assert said["status"] == "pending_login"
        assert said["message"].startswith("Waiting for 'boss' to log in at 'local'."), said
        record = (await place.client.get(f"/api/v1/calls/{call.id}", headers=BOSS)).json()["call"]
        assert record["login_url"].endswith(f"/connect/{call.id}")
        other = (await place.client.get(f"/api/v1/calls/{call.id}")).json()["call"]
        assert other["login_url"] is None, "another administrator does not log in as the owner"
        server.log_in("boss")
        await place.gateway.answers.login_done(SOURCE, "boss")
        await place.cycle("fay", 2)
        assert f'[Tool Result: book] (callId: {call.id}) {{"booked":1}}' in inbox_of(place.requests[-1])
        assert server.acted == [call.id]


@requirement("ID-login-agents")
async def test_an_agent_of_the_config_has_a_login_of_its_own_that_an_administrator_makes(tmp_path: Path) -> None:
    server = LoginServer()
    async with agents_gateway(tmp_path, SCRIPT, CONFIG) as place:
        await add_login_source(place.gateway, server)
        assert (await place.client.get("/api/agents/concierge")).json()["agent"]["owner"] is None
        await place.trigger("concierge")
        await place.cycle("concierge", 1)
        call = await place.call_of("book", agent="concierge")
        assert call.login is not None
        assert call.login.principal == "agent:concierge"
        assert "Waiting for an administrator to log in" in told(place.requests[-1], "book")["message"]
        record = (await place.client.get(f"/api/v1/calls/{call.id}", headers=BOSS)).json()["call"]
        assert record["login_url"] is not None
        server.log_in("agent:concierge")
        await place.gateway.answers.login_done(SOURCE, "agent:concierge")
        await place.cycle("concierge", 2)
        assert server.acted == [call.id]


async def test_who_changes_an_agent_does_not_become_its_owner(tmp_path: Path) -> None:
    async with agents_gateway(tmp_path, SCRIPT, CONFIG) as place:
        await place.client.post("/api/agents", json={"id": "fay", "model": "mind"}, headers=BOSS)
        changed = await place.client.patch("/api/agents/fay", json={"name": "Fay"})
        assert (changed.json()["agent"]["name"], changed.json()["agent"]["owner"]) == ("Fay", "boss")
        assert place.gateway._login_name("agent:fay") == "boss"
        assert [place.gateway._login_name(name) for name in ("agent:nobody", "boss")] == ["agent:nobody", "boss"]


async def test_sources_ask_for_the_owners_logins() -> None:
    server = LoginServer()
    server.log_in("boss")
    logins = LoginsOfOwners(server, {"agent:fay": "boss"}.get)  # type: ignore[arg-type]
    assert not logins.is_missing(SOURCE, "agent:fay")
    assert logins.is_per_user(SOURCE)
    assert await logins.last_principal(SOURCE) == "boss"
