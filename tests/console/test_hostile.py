"""What tools, models and people say is text. Nothing in it runs, loads or turns around."""

from collections.abc import Callable
from urllib.parse import quote

import httpx2
from playwright.sync_api import Page, expect

from tests.console.scene import HUSAM_KEY, execute, post, say
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]

TRICKS = """\
<script>window.poisoned=5</script> <img src="https://evil.example/p.png" onerror="window.poisoned=6">
[harmless](javascript:window.poisoned=7) [data](data:text/html,<script>alert(1)</script>)
![pixel](https://evil.example/pixel.png) <a href="javascript:window.poisoned=8">click</a>
[real](https://example.org/) \u202ereversed\u202c zero\u200bwidth

| <b onclick=alert(1)>head</b> | second |
|---|---|
| <script>window.poisoned=11</script> | [cell](javascript:window.poisoned=12) |
"""


def assert_unharmed(page: Page) -> None:
    assert page.evaluate("() => window.poisoned") is None
    assert page.locator("main iframe, main script, main img, main [onclick], main [onerror]").count() == 0
    assert page.locator('a[href^="javascript:" i], a[href^="data:" i]').count() == 0


def test_a_result_full_of_html_and_tricks_is_shown_as_it_is_written(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/attic")
    husam.say("Give me poison")
    card = husam.card("poison")
    expect(card).to_contain_text("<script>window.poisoned=2</script>")
    expect(card).to_contain_text("pay ⟨U+202E⟩001⟨U+202C⟩ me")
    expect(card).to_contain_text("<b>key</b>")
    card.get_by_role("button", name="Show all 300,000 characters").click()
    expect(card).to_contain_text("(100,000 more characters)")
    assert_unharmed(page)


@requirement("CONSOLE-markdown-tables")
def test_a_message_full_of_tricks_is_text_with_one_honest_link(visit: Visit, stage: RunningGateway) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/hall")
    expect(page.get_by_role("heading", name="hall")).to_be_visible()
    say(stage, "hall", TRICKS, by="<b>mallory</b>")
    message = page.locator(".message", has_text="harmless").last
    expect(message).to_contain_text("<script>window.poisoned=5</script>")
    expect(message).to_contain_text("⟨U+202E⟩reversed")
    expect(message).to_contain_text("zero⟨U+200B⟩width")
    expect(message.locator("strong")).to_have_text("<b>mallory</b>")
    expect(message.locator("th").first).to_have_text("<b onclick=alert(1)>head</b>")
    expect(message.locator("td")).to_have_text(["<script>window.poisoned=11</script>", "cell"])
    expect(message.get_by_role("link")).to_have_text(["real"])
    assert message.get_by_role("link").get_attribute("rel") == "noopener noreferrer nofollow"
    assert_unharmed(page)


def test_what_lists_say_of_spaces_and_refused_calls_is_text(visit: Visit, stage: RunningGateway) -> None:
    post(stage, "/api/spaces", {"id": "still"})  # where no agent answers
    say(stage, "still", TRICKS, by="<i>mallory</i>")
    name = quote("<svg onload='window.poisoned=13'>", safe="")
    path = f"{stage.url}/api/v1/tools/{name}/execute"
    assert httpx2.post(path, headers=stage.headers, json={"arguments": {}}).status_code == 404
    page = visit().go("/spaces")
    row = page.get_by_role("table", name="Spaces").get_by_role("row").filter(has_text="still")
    expect(row).to_contain_text("<i>mallory</i>: <script>window.poisoned=5</script>")
    assert_unharmed(page)
    page.goto(f"{stage.url}/#/access/audit?action=call.*")
    entry = page.get_by_role("list", name="Audit log").locator("li").filter(has_text="<svg onload").first
    expect(entry).to_contain_text("There is no tool")
    entry.locator("summary").click()
    expect(entry.get_by_role("link", name="View call")).to_be_visible()
    assert_unharmed(page)


def test_definitions_and_arguments_are_text_wherever_they_are_shown(visit: Visit, stage: RunningGateway) -> None:
    execute(stage, "confirmAction", {"question": TRICKS})
    husam = visit()
    page = husam.go("/tools/poison")
    expect(page.get_by_text("<script>window.poisoned=4</script>").first).to_be_visible()
    assert_unharmed(page)
    husam.go("/waiting")
    expect(page.get_by_text("[harmless](javascript:").first).to_be_visible()
    assert_unharmed(page)


def test_the_page_s_policy_runs_nothing_that_did_not_come_from_the_gateway(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    husam.go("/spaces")
    script = """() => {
      const refused = [];
      try { document.body.innerHTML = "<p>x</p>"; } catch (fault) { refused.push("html"); }
      const added = document.createElement("div");
      try { added.setAttribute("onclick", "1"); } catch (fault) { refused.push("handler"); }
      return refused;
    }"""
    assert husam.evaluate(script) == ["html", "handler"]
