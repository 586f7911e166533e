"""Agents and spaces: what an agent is, remembers and plans is edited in place; so are messages; agents are stopped."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.model_server import ModelServer, model_server
from tests.console.scene import ADMIN, get, messages, post
from tests.console.test_faults import AXE, serious
from tests.console.test_hostile import TRICKS, assert_unharmed
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]
MIA_KEY, LEO_KEY = "mia-key-012345678901", "leo-key-012345678901"

CONFIG = f"""
[auth.keys.mia]
key = "{MIA_KEY}"
scopes = ["call", "answer"]

[auth.keys.leo]
key = "{LEO_KEY}"
scopes = ["call"]

[models.mind]
provider = "openai"
base_url = "MODEL"
model = "tiny"

[agents.ada]
name = "Ada"
model = "mind"
spaces = ["lobby"]
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server() as served:
        yield served


@pytest.fixture(scope="module")
def office(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    config = CONFIG.replace("MODEL", model.url)
    with running_gateway(tmp_path_factory.mktemp("office"), config, env=ADMIN) as gateway:
        post(gateway, "/api/agents", {"id": "bob", "name": "Bob", "model": "mind", "instructions": "Help."})
        yield gateway


@requirement("CONSOLE-agents")
def test_an_agent_made_over_the_api_is_edited_in_place(visit: Visit, office: RunningGateway) -> None:
    boss = visit(gateway=office)
    page = boss.go("/agents")
    expect(page.get_by_role("table", name="Agents")).to_contain_text("Last activity")
    page.get_by_role("link", name="Bob").click()
    page.get_by_role("button", name="Edit settings").click()
    page.get_by_label("Instructions").fill(f"Help kindly. {TRICKS}")
    page.get_by_label("Tools").fill("add\nget_*")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Settings")).to_contain_text("add, get_*")
    assert_unharmed(page)
    kept = get(office, "/api/agents/bob")["agent"]
    assert (kept["instructions"], kept["tools"]) == (f"Help kindly. {TRICKS}", ["add", "get_*"])
    edit_state(page, "memories", "memory", {"Key": "tea", "Value": "green <b>tea</b>"})
    edit_state(page, "goals", "goal", {"Goal": "Serve tea", "Priority": "7"})
    edit_state(page, "plans", "plan", {"Name": "morning", "What it is told": "Make tea", "Cron": "0 8 * * *"})
    expect(page.get_by_role("region", name="Memories")).to_contain_text("tea: green <b>tea</b>")
    expect(page.get_by_role("region", name="Plans")).to_contain_text("cron 0 8 * * *")
    [goal] = get(office, "/api/agents/bob/goals")["goals"]
    assert (goal["description"], goal["priority"]) == ("Serve tea", 7)
    page.get_by_role("button", name="Edit goals").click()
    page.get_by_role("form", name="Edit goals").locator("textarea").fill("Serve coffee")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Goals")).to_contain_text("Serve coffee")
    [changed] = get(office, "/api/agents/bob/goals")["goals"]
    assert changed["id"] == goal["id"], "the same goal in other words"
    page.get_by_role("button", name="Edit memories").click()
    page.get_by_role("button", name="Remove memory 1").click()
    if AXE.is_file():
        assert serious(page) == []
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Memories")).to_contain_text("No memories.")


def edit_state(page: Page, what: str, one: str, fields: dict[str, str]) -> None:
    page.get_by_role("button", name=f"Edit {what}").click()
    form = page.get_by_role("form", name=f"Edit {what}")
    form.get_by_role("button", name=f"Add a {one}").click()
    for label, value in fields.items():
        form.get_by_label(label, exact=True).fill(value)
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)


@requirement("CONSOLE-agents")
def test_an_agent_of_the_config_says_where_it_is_changed(visit: Visit, office: RunningGateway) -> None:
    boss = visit(gateway=office)
    page = boss.go("/agents/ada")
    expect(page.get_by_text("This agent is in the config: change [agents.ada] there.")).to_be_visible()
    expect(page.get_by_role("button", name="Edit settings")).to_have_count(0)
    expect(page.get_by_role("button", name="Edit memories")).to_be_visible()
    mia = visit(MIA_KEY, gateway=office)
    mia.go("/agents/ada")
    expect(mia.page.get_by_role("heading", name="Ada")).to_be_visible()
    expect(mia.page.get_by_role("button", name="Edit memories")).to_have_count(0)


@requirement("CONSOLE-message-edit")
def test_a_message_is_edited_where_it_stands_and_others_see_it(visit: Visit, office: RunningGateway) -> None:
    post(office, "/api/spaces", {"id": "quiet"})
    mia, leo = visit(MIA_KEY, gateway=office), visit(LEO_KEY, gateway=office)
    mia.go("/spaces/quiet")
    expect(mia.page.get_by_role("heading", name="quiet")).to_be_visible()
    mia.say("Tea at four")
    leo.go("/spaces/quiet")
    seen = leo.page.locator(".message", has_text="Tea at")
    expect(seen).to_contain_text("Tea at four")
    expect(seen.get_by_role("button", name="Edit")).to_have_count(0)
    own = mia.page.locator(".message").first
    own.get_by_role("button", name="Edit").focus()
    mia.page.keyboard.press("Enter")
    mia.page.get_by_label("Edit message").fill("Tea at five <script>window.poisoned=11</script>")
    mia.page.keyboard.press("Enter")
    expect(seen).to_contain_text("Tea at five <script>window.poisoned=11</script>")
    seen.get_by_role("button", name="edited").click()
    expect(leo.page.get_by_role("dialog")).to_contain_text("Tea at four")
    assert_unharmed(leo.page)
    if AXE.is_file():
        assert serious(leo.page) == []
    [message] = messages(office, "quiet")
    assert (message["entityId"], message["content"][:11]) == ("mia", "Tea at five")


@requirement("CONSOLE-message-edit")
def test_an_agent_is_stopped_and_asked_again_from_the_conversation(
    visit: Visit, office: RunningGateway, model: ModelServer
) -> None:
    boss = visit(gateway=office)
    page = boss.go("/spaces/lobby")
    expect(page.get_by_role("heading", name="lobby")).to_be_visible()
    model.may_answer.clear()
    boss.say("Think about it")
    page.get_by_role("button", name="Stop Ada").click()
    expect(page.get_by_role("button", name="Stop Ada")).to_have_count(0)
    model.may_answer.set()
    first = get(office, "/api/agents/ada/cycles")["cycles"][0]
    assert first["status"] == "failed"
    page.locator(".message").first.get_by_role("button", name="Ask again").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Told again: ada")).to_be_visible()
    eventually(lambda: get(office, "/api/agents/ada/cycles")["cycles"][0]["number"] > first["number"])


@requirement("CONSOLE-agents")
def test_an_administrator_changes_who_is_in_a_space(visit: Visit, office: RunningGateway) -> None:
    post(office, "/api/spaces", {"id": "club"})
    boss = visit(gateway=office)
    page = boss.go("/spaces/club")
    page.get_by_text("0 members").click()
    page.get_by_label("New member").fill("bob")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".members")).to_contain_text("1 member")
    expect(page.locator(".members").get_by_role("link", name="bob")).to_have_attribute("href", "#/agents/bob")
    page.get_by_role("button", name="Remove bob").click()
    expect(page.locator(".members")).to_contain_text("0 members")
