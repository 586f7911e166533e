"""Calls in a space are shown by the name of their tool, and answered where they stand."""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.console.scene import HUSAM_KEY, MIA_KEY, call_of, execute, get, messages, post, say
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]


def waiting(gateway: RunningGateway) -> int:
    return len(get(gateway, "/api/v1/calls?status=pending,pending_approval,waiting&limit=500")["calls"])


@requirement("SPACE-by-name-component", "SPACE-field-name-ui", "SPACE-message-render-by-name")
def test_a_call_is_shown_by_the_component_that_the_config_s_folder_registers_for_its_tool(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    husam.go("/spaces/hall")
    husam.say("How is the weather?")
    expect(husam.card("get_weather").locator("p.sky")).to_have_text("21 °C")


@requirement("SPACE-by-name-fallback", "SPACE-field-name-ui")
def test_a_tool_without_a_component_is_shown_with_its_result_and_its_arguments(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/tools/shapes")
    page.get_by_label("names*").fill('["Ada", 1]')
    page.get_by_role("button", name="Call tool").click()
    card = husam.page.locator(".try-it article")
    expect(card.locator(".state-word")).to_have_text("completed")
    expect(card).to_contain_text("names")
    card.get_by_text("Details").click()
    expect(card.get_by_role("heading", name="Arguments")).to_be_visible()
    expect(card.locator("details")).to_contain_text("Ada")


@requirement("SPACE-by-name-chart", "SPACE-example-chart-rendered", "SPACE-message-render-by-name")
def test_a_chart_is_drawn_and_can_be_read_as_a_table(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    husam.go("/spaces/hall")
    husam.say("Draw me a chart")
    card = husam.card("displayChart")
    expect(card.locator("figcaption")).to_have_text("Rain in mm")
    expect(card.locator(".recharts-bar-rectangle")).to_have_count(2)
    card.get_by_text("Show as table").click()
    expect(card.locator("tbody tr")).to_have_text(["Mon3", "Tue5"])


@requirement("SPACE-by-name-confirm", "SPACE-example-confirm-seen", "SPACE-example-confirm-answer", "SPACE-type-space")
def test_yes_and_no_each_reach_the_agent(visit: Visit, stage: RunningGateway) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/garden")
    for button, outcome in (("Confirm", "true"), ("Reject", "false")):
        husam.say(f"Please confirm with {button}")
        card = husam.card("confirmAction")
        expect(card).to_contain_text("Shall I?")
        expect(card.get_by_role("button")).to_have_text(["Reject", "Confirm"])
        expect(page).to_have_title(f"({waiting(stage)}) Spaces · Jackfield")
        card.get_by_role("button", name=button).click()
        expect(card.locator(".state-word")).to_have_text("completed")
        expect(page.locator(".message", has_text="came back").last).to_contain_text(f'"confirmed":{outcome}')
    left = waiting(stage)
    expect(page).to_have_title(f"({left}) Spaces · Jackfield" if left else "Spaces · Jackfield")
    inbox = get(stage, "/api/agents/ada/inbox")["events"]
    answers = [event["data"]["result"] for event in inbox if event["type"] == "tool_result"]
    assert {"confirmed": True} in answers
    assert {"confirmed": False} in answers


@requirement("SPACE-type-space", "SPACE-type-space-user-result")
def test_a_form_made_from_the_schema_refuses_what_does_not_fit_and_sends_what_does(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/cellar")
    husam.say("Ask me for details")
    card = husam.card("askForDetails")
    card.get_by_label("Your name*").fill("Husam")
    card.get_by_role("button", name="Send").click()
    expect(card.get_by_text("Required.")).to_be_visible()
    card.get_by_label("Nights*").fill("3")
    card.get_by_label("Breakfast").check()
    card.get_by_role("button", name="Send").click()
    expect(card.locator(".state-word")).to_have_text("completed")
    told = page.locator(".message", has_text="askForDetails came back").last
    expect(told).to_contain_text('"nights":3')
    expect(told).to_contain_text('"breakfast":true')


def test_one_of_several_answers_is_chosen(visit: Visit, stage: RunningGateway) -> None:
    options = [{"label": "Window", "value": "w"}, {"label": "Aisle", "value": "a", "description": "more room"}]
    call_id = execute(stage, "chooseOption", {"question": "Which seat?", "options": options})
    page = visit(HUSAM_KEY).go(f"/waiting/{call_id}")
    expect(page.get_by_role("button", name="Choose")).to_be_disabled()
    page.get_by_role("radio", name="Aisle").check()
    page.get_by_role("button", name="Choose").click()
    expect(page.get_by_text("Chosen: a")).to_be_visible()
    assert call_of(stage, call_id)["result"] == {"choice": "a"}


def test_a_call_is_approved_with_the_arguments_as_they_were_edited(visit: Visit, stage: RunningGateway) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/attic")
    husam.say("Send the invoice")
    card = husam.card("send_invoice")
    expect(card.locator(".state-word")).to_have_text("needs your approval")
    expect(card).to_contain_text("1200")
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("Arguments").fill('{"customer": "ACME", "amount": 12')
    card.get_by_role("button", name="Approve").click()
    expect(card.get_by_role("alert")).to_contain_text("not valid JSON")
    card.get_by_label("Arguments").fill('{"customer": "ACME", "amount": 12}')
    card.get_by_role("button", name="Approve").click()
    expect(card).to_contain_text("12 euros asked of ACME")
    call_id = card.get_attribute("data-call")
    assert call_id is not None
    assert call_of(stage, call_id)["arguments"] == {"customer": "ACME", "amount": 12}
    expect(page.locator(".card.requires_action")).to_have_count(0)


def test_two_people_see_the_same_space_and_one_answer_is_enough(visit: Visit) -> None:
    husam, mia = visit(HUSAM_KEY), visit(MIA_KEY)
    husam.go("/spaces/lobby")
    mia.go("/spaces/lobby")
    husam.say("Please confirm, one of us")
    expect(mia.page.locator(".message.person").last).to_contain_text("one of us")
    for person in (husam, mia):
        expect(person.card("confirmAction").get_by_role("button", name="Confirm")).to_be_visible()
    mia.card("confirmAction").get_by_role("button", name="Confirm").click()
    for person in (husam, mia):
        expect(person.card("confirmAction")).to_contain_text("Confirmed")
        expect(person.card("confirmAction").get_by_role("button")).to_have_count(0)


def test_what_arrives_while_nobody_looks_is_there_when_somebody_comes_back(visit: Visit, stage: RunningGateway) -> None:
    husam = visit(HUSAM_KEY)
    husam.go("/spaces/lobby")
    expect(husam.page.get_by_role("heading", name="lobby")).to_be_visible()
    before = len(messages(stage, "lobby"))
    husam.page.close()
    say(stage, "lobby", "Show a chart to whoever comes")
    eventually(lambda: any("displayChart" in str(one["metadata"]) for one in messages(stage, "lobby")[before:]))
    husam.page = husam.context.new_page()
    husam.go("/spaces/lobby")
    expect(husam.card("displayChart").locator(".recharts-bar-rectangle")).to_have_count(2)
    expect(husam.page.locator(".message", has_text="to whoever comes")).to_have_count(1)


@requirement("SAFE-causes-are-shown")
def test_where_a_tool_file_failed_is_read_from_the_card_by_an_administrator_alone(
    visit: Visit, stage: RunningGateway
) -> None:
    post(stage, "/api/v1/tools/roll/execute", {"arguments": {"sides": 0}}, key=HUSAM_KEY)
    card = visit(stage.key).go("/tools/roll").locator("article", has_text="a die without sides")
    card.get_by_text("Traceback").click()
    expect(card.locator("pre")).to_contain_text("in roll")
    page = visit(HUSAM_KEY).go("/tools/roll")
    expect(page.locator("article", has_text="a die without sides")).to_be_visible()
    expect(page.get_by_text("Traceback")).to_have_count(0)


def test_the_search_of_the_tools_page_and_of_the_palette_finds_what_the_gateways_finds(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/tools")
    for words in ("city", "wether"):  # a parameter's name, and a letter too few
        page.get_by_label("Search tools").fill(words)
        expect(page.get_by_role("region", name="Tools").get_by_role("link", name="get_weather")).to_be_visible()
    page.get_by_label("Search tools").fill("nothing like it")
    expect(page.get_by_text("No tools match")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("city")
    expect(page.get_by_role("option").filter(has_text="get_weather")).to_be_visible()


@requirement("CONSOLE-try-it")
def test_a_call_that_runs_shows_how_far_it_is_and_can_be_cancelled(visit: Visit) -> None:
    page = visit().go("/tools/climb")
    page.get_by_label("steps").fill("3")
    page.get_by_role("button", name="Call tool").click()
    running = page.get_by_role("group", name="The call runs")
    expect(running).to_contain_text("3 of 3 step 3 <b>up</b>")
    expect(running.locator(".elapsed")).to_have_text(re.compile(r"\d+(\.\d)? m?s"))
    expect(page.get_by_role("button", name="Call tool")).to_be_disabled()
    running.get_by_role("button", name="Cancel call").click()
    expect(page.locator(".try-it article .state-word")).to_have_text("cancelled")
    expect(running).to_have_count(0)
    expect(page.get_by_role("button", name="Call tool")).to_be_enabled()
