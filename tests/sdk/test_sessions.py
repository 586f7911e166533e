"""`client.sessions` where the gateway does what a healthy one never does: it is gone, and stays so."""

import asyncio

import pytest

from jackfield.sdk import Client, SessionFailed, sessions
from tests.sdk.server import ScriptedGateway, refuses, says

SESSION = {
    "id": "ses_1",
    "agent": "helper",
    "kind": "agent",
    "status": "running",
    "owner": "ant",
    "caller_id": "caller",
    "tools": [],
    "last_event_index": -1,
    "created_at": "2026-01-15T10:30:00.000Z",
}
OPENED = {"session_id": "ses_1", "spawned": True, "last_event_index": -1, "session": SESSION}


async def test_who_waits_in_a_session_whose_gateway_stays_away_is_told_so(
    scripted: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "AWAY_SECONDS", 0.2)
    scripted.on("/api/sessions", says(OPENED, status=201))
    scripted.on("/api/sessions/ses_1/messages", says(OPENED))
    scripted.on("/api/sessions/ses_1/events", refuses(503, "unavailable"))
    async with Client(scripted.url, "a-key-of-somebody") as client, asyncio.timeout(10):
        session = await client.sessions.open("helper")
        with pytest.raises(SessionFailed, match="was over before the agent had answered"):
            await session.ask("hello?")
