"""The README's tour through the demo, in a browser: every step as a newcomer would take it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.visitor import Visitor, printed_link
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]
DEMO = Path(__file__).parents[2] / "examples/demo"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("demo") / "project"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    with running_gateway(folder) as gateway:
        yield gateway


@requirement(
    "CON-console-tour",
    "SPACE-by-name-component",
    "SPACE-by-name-chart",
    "SPACE-by-name-confirm",
    "SPACE-example-chart-rendered",
)
def test_a_hotel_is_found_shown_confirmed_and_booked(visit: Visit, demo: RunningGateway) -> None:
    link = printed_link(demo)
    visitor = visit("", gateway=demo)
    page = visitor.page
    page.goto(link)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Spaces").click()
    page.get_by_role("link", name="lobby").click()
    visitor.say("Book a hotel in Tokyo")

    chart = visitor.card("displayChart")
    expect(chart.locator("figcaption")).to_have_text("A night in Tokyo, in euros")
    expect(chart.locator(".recharts-bar-rectangle")).to_have_count(3)
    question = visitor.card("confirmAction")
    expect(question).to_contain_text("Book Yanaka House in Tokyo")
    question.get_by_role("button", name="Confirm").click()
    expect(page.locator(".markdown").last).to_contain_text("a room at Yanaka House is yours")

    page.get_by_role("link", name="Runs").click()
    expect(page.locator(".data-row.to")).to_have_count(2)
    page.locator(".data-row.to a").first.click()
    expect(visitor.card("book_hotel")).to_contain_text("A room at Yanaka House, reference JF-")
    page.go_back()
    page.locator(".data-row.to a").last.click()
    expect(page.locator(".timeline")).to_contain_text("hotel_search")
    expect(visitor.card("hotel_search").locator("tbody tr").first).to_contain_text("Yanaka House")

    page.get_by_role("link", name="Agents").click()
    page.get_by_role("link", name="Concierge").click()
    expect(page.get_by_role("link", name="Cycle 2")).to_be_visible()

    page.get_by_role("link", name="Tools").click()
    page.get_by_label("Search tools").fill("add dice")
    page.get_by_role("link", name="roll_dice").click()
    page.get_by_role("button", name="Call tool").click()
    expect(page.locator(".try-it article .state-word")).to_have_text("completed")
