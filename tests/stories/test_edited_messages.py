"""Messages are edited over HTTP, by whoever said them, and everybody who follows the space sees it."""

from pathlib import Path

import pytest

from tests.harness.api import error_of
from tests.requirement import requirement
from tests.stories.spaces import followed, open_lobby

pytestmark = pytest.mark.timeout(120)


@requirement("CONSOLE-message-edit")
async def test_a_message_is_edited_by_its_author_and_seen_by_others(tmp_path: Path) -> None:
    with open_lobby(tmp_path) as lobby:
        message = lobby.say("Tea", key="caller")
        assert "editedAt" not in message
        path = f"/api/spaces/lobby/messages/{message['id']}"
        async with followed(lobby) as stream:
            edited = lobby.made("PATCH", path, key="caller", json={"content": "Coffee"})["message"]
            assert (await stream.event("space.message"))["message"] == edited
        assert (edited["content"], edited["seq"]) == ("Coffee", message["seq"])
        assert "editedAt" in edited
        assert lobby.messages()[-1] == edited
        earlier = lobby.made("GET", f"{path}/earlier")["earlier"]
        assert [each["content"] for each in earlier] == ["Tea"]
        for key, status in (("admin", 403), ("reader", 403)):
            assert lobby.ask("PATCH", path, key=key, json={"content": "x"}).status_code == status
        missing = lobby.ask("PATCH", "/api/spaces/lobby/messages/nothing", key="caller", json={"content": "x"})
        assert error_of(missing)["code"] == "not_found"
        assert lobby.made("POST", f"{path}/retry", key="caller") == {"success": True, "agents": ["ada"]}
        assert lobby.ask("POST", f"{path}/retry", key="reader").status_code == 403
        inbox = lobby.made("GET", "/api/agents/ada/inbox")["events"]
        assert [each["data"]["content"] for each in inbox] == ["Coffee", "Coffee"]
