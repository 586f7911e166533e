"""What is being written goes on after a reload and after the gateway's end, and nothing is lost or there twice."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.console.scene import ADMIN, CONFIG, FILES, HUSAM_KEY, STORY, messages, say
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway, start_gateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]
FEW_WORDS = "word0 word1 word2"


@requirement("CON-spaces-events")
def test_a_page_that_is_reloaded_in_the_middle_of_a_message_shows_the_whole_of_it_once(visit: Visit) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/hall")
    husam.say("Tell me a story")
    expect(page.locator(".flying")).to_contain_text(FEW_WORDS)
    page.reload()
    expect(page.locator(".flying")).to_contain_text(FEW_WORDS)
    expect(page.locator(".markdown", has_text=FEW_WORDS)).to_have_text(STORY)
    expect(page.locator(".message", has_text=FEW_WORDS)).to_have_count(1)


@requirement("CON-spaces-events")
def test_a_gateway_that_is_killed_in_the_middle_of_a_message_costs_the_page_nothing(
    visit: Visit, tmp_path: Path
) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=FILES, env=ADMIN)
    try:
        husam = visit(HUSAM_KEY, gateway=gateway)
        page = husam.go("/spaces/lobby")
        husam.say("Tell me a story")
        expect(page.locator(".flying")).to_contain_text(FEW_WORDS)
        gateway.kill()
        expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
        gateway = start_gateway(tmp_path, env=ADMIN)
        say(gateway, "lobby", "Are you still there?", by="mia")
        expect(page.locator(".message", has_text="Are you still there?")).to_have_count(1)
        expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_have_count(0)
        expect(page.locator(".message", has_text="Tell me a story")).to_have_count(1)
        expect(page.locator(".message.agent:not(.flying)").last).to_be_visible(timeout=20_000)
        expect(page.locator(".message.agent", has_text=FEW_WORDS)).to_have_count(_told(gateway))
        expect(page.locator(".flying")).to_have_count(0)
    finally:
        gateway.kill()


def _told(gateway: RunningGateway) -> int:
    return sum(FEW_WORDS in one["content"] for one in messages(gateway, "lobby"))
