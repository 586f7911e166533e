"""A gateway behind a gateway: both ends of a login are ours, and neither knows."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.connections.world import Place, UpstreamServer, gateway_at, go_on
from tests.identity.oauth.programs import Page
from tests.requirement import requirement
from tests.waiting import eventually_async

TOOL = '''
def hello(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
'''
KEYS = '[auth.keys.ann]\nkey = "key-of-ann"\nscopes = ["call"]\n'
BEHIND = f'{KEYS}[sources.mine]\nkind = "files"\npath = "tools/*.py"\n'


async def log_in(front: Place, behind: Place) -> None:
    """Ann's browser goes from one gateway to the other, allows what is asked, and comes back."""
    pressed = await front.press(await front.link("ann"), "ann")
    assert pressed.status_code == 200, pressed.text
    elsewhere = await behind.browser("ann")
    page = Page(await elsewhere.get(go_on(pressed.text)))
    assert "Jackfield" in page.text
    form = dict(page.fields) | {"decision": "allow"}
    allowed = await elsewhere.post("/oauth/authorize", data=form, headers={"origin": behind.url})
    assert allowed.status_code == 303, allowed.text
    back = urlsplit(allowed.headers["location"])
    done = await (await front.browser("ann")).get(f"{back.path}?{back.query}")
    assert "You are connected" in done.text, done.text


async def principals(place: Place) -> list[Any]:
    answer = await place.client.get("/api/v1/calls", headers=place.headers("admin"))
    return [call["principal"] for call in answer.json()["calls"]]


@requirement("ID-upstream-login")
async def test_a_person_logs_in_at_a_gateway_behind_and_calls_its_tools_in_their_own_name(tmp_path: Path) -> None:
    tools = tmp_path / "behind" / "tools"
    tools.mkdir(parents=True)
    (tools / "hello.py").write_text(TOOL)
    nobody = UpstreamServer()
    async with gateway_at(tmp_path / "behind", nobody, config=BEHIND) as behind:
        config = f'{KEYS}[sources.far]\nkind = "mcp"\nurl = "{behind.url}/mcp"\nauth = "user"\n'
        async with gateway_at(tmp_path / "front", nobody, config=config) as front:
            await log_in(front, behind)

            async def has_run() -> bool:
                path = "/api/v1/tools/hello/execute"
                said = {"arguments": {"name": "Ann"}}
                answer = await front.client.post(path, json=said, headers=front.headers("ann"))
                return answer.status_code == 200 and "Hello Ann" in answer.text

            await eventually_async(has_run)
            assert set(await principals(behind)) == {"ann"}

            gone = await front.client.delete("/api/v1/connections/far", headers=front.headers("ann"))
            assert gone.status_code == 204, gone.text
