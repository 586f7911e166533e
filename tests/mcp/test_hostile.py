"""Whatever is sent to `/mcp`, the answer is one that the protocol has, and the gateway is well afterwards."""

import random
from pathlib import Path
from typing import Any

from tests.mcp.scene import META, VERSION, Scene, mcp_scene

MESSAGES = 400
METHODS = ["tools/call", "tools/list", "initialize", "ping", "subscriptions/listen", "server/discover", "x", "", "\x00"]
VALUES: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "echo", "\x00", "ü", [], {}, [[]], {"text": 5}, {"_meta": 1}]
NAMES = ["name", "arguments", "cursor", "level", "requestState", "inputResponses", "protocolVersion", "capabilities"]


def message(chance: random.Random) -> dict[str, Any]:
    """A message that is wrong in a few places and right in the rest."""
    params: Any = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randrange(4))}
    if chance.random() < 0.7:
        params["_meta"] = {**META, **({"progressToken": chance.choice(VALUES)} if chance.random() < 0.3 else {})}
    whole = {"jsonrpc": "2.0", "id": 1, "method": chance.choice(METHODS), "params": params}
    if chance.random() < 0.3:
        whole[chance.choice([*whole, "result", "error"])] = chance.choice(VALUES)
    return whole


def headers(chance: random.Random, sent: dict[str, Any], session: dict[str, str]) -> dict[str, str]:
    method = sent.get("method")
    plain = {"mcp-protocol-version": VERSION, "mcp-method": method if isinstance(method, str) and method > " " else "x"}
    params = sent.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    if name == "echo":
        plain["mcp-name"] = "echo"
    return chance.choice([plain, plain, session, session, {}, {"mcp-protocol-version": "2099-01-01"}])


async def test_no_message_crashes_the_server(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        for _ in range(MESSAGES):
            sent = message(chance)
            if sent.get("method") == "subscriptions/listen":
                continue  # its good answer does not end
            answer = await scene.post(sent, headers=headers(chance, sent, session))
            assert answer.status_code in {200, 202, 400, 404}, (sent, answer.text)
            if answer.status_code != 202:
                told = answer.json()
                assert ("result" in told) is not ("error" in told), (sent, told)
                assert told.get("error", {}).get("code") != -32603, (sent, told)
        await still_well(scene)


async def still_well(scene: Scene) -> None:
    result = (await scene.ask("tools/call", {"name": "echo", "arguments": {"text": "well"}})).json()["result"]
    assert result["content"] == [{"type": "text", "text": "well"}]
