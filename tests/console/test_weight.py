"""The console is light: little to load, and thousands of messages do not slow it down."""

import statistics
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.console.conftest import MANY
from tests.console.scene import HUSAM_KEY, say
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway
from tests.waiting import eventually

Visit = Callable[..., Visitor]
Record = Callable[[str, object], None]
MOST_BYTES = 200_000
SLOWEST_FRAME_MS = 150.0
"""For 95 of 100 frames, on a machine without a graphics card that is busy with other tests; a screen alone takes 17."""

TO_THE_START = """async () => {
  const list = document.querySelector(".vlist");
  const end = Date.now() + 20000;
  while (list.querySelector('[data-seq="1"]') === null && Date.now() < end) {
    list.scrollTop = 0;
    await new Promise(requestAnimationFrame);
  }
  return list.querySelector('[data-seq="1"]') !== null;
}"""
SIZES = """() => performance.getEntries()
  .filter((one) => one.transferSize !== undefined && one.initiatorType !== "fetch")
  .map((one) => one.transferSize)"""
"""Of the page and its files; how much has been said in a space is another matter."""

SCROLL = """async () => {
  const list = document.querySelector(".vlist");
  const times = [];
  let before = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 120; frame++) {
    list.scrollTop += 400;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
  }
  return times;
}"""
TEN_FRAMES = "async () => { for (let n = 0; n < 10; n++) await new Promise(requestAnimationFrame); }"
TOP_MESSAGE = """() => {
  const edge = document.querySelector(".vlist").getBoundingClientRect().top;
  const top = (one) => one.getBoundingClientRect().top - edge;
  const seen = [...document.querySelectorAll(".message")].map((one) => [Number(one.dataset.seq), top(one)]);
  return seen.filter(([, top]) => top >= 0).sort((one, other) => one[1] - other[1])[0];
}"""

TOP_MESSAGE_AT_REST = f"""async () => {{
  const look = {TOP_MESSAGE};
  const frames = {TEN_FRAMES};
  for (let before = null, now = look(), end = Date.now() + 20000; Date.now() < end; before = now, now = look()) {{
    if (String(before) === String(now)) return now;
    await frames();
  }}
}}"""
"""Once everything that is in the page has been measured."""

TOP_OF = """(seq) => {
  const list = document.querySelector(".vlist");
  return list.querySelector(`[data-seq="${seq}"]`).getBoundingClientRect().top - list.getBoundingClientRect().top;
}"""
A_LINE = 30
"""Pixels. The list guesses the height of rows until they are measured, and is off by a sender's line at times."""


def test_the_first_page_takes_less_than_200_kb(visit: Visit, record_property: Record) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/long")
    expect(page.locator(".markdown").first).to_be_visible()
    sizes = husam.evaluate(SIZES)
    record_property("first_load_bytes", sum(sizes))
    assert 50_000 < sum(sizes) < MOST_BYTES


def test_five_thousand_messages_scroll_smoothly(visit: Visit, record_property: Record) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/long")
    expect(page.get_by_text(f"Message {MANY}:")).to_be_visible()
    assert husam.evaluate(TO_THE_START), "scrolling up does not lead to the first message"
    expect(page.get_by_text("Message 1:", exact=False).first).to_be_visible()
    assert page.locator(".message").count() < 100, "only what is seen is in the page"
    times = husam.evaluate(SCROLL)
    usual, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    record_property("frame_ms", {"median": round(usual, 1), "p95": round(slow, 1)})
    assert slow < SLOWEST_FRAME_MS


def test_who_has_scrolled_up_stays_there_whatever_comes_before_or_after(visit: Visit, stage: RunningGateway) -> None:
    husam = visit(HUSAM_KEY)
    page = husam.go("/spaces/long")
    expect(page.locator(".message").last).to_be_visible()
    held: list[Route] = []
    page.route("**/*beforeSeq*", lambda route: held.append(route))  # noqa: PLW0108 - playwright marks the function
    husam.evaluate("() => { document.querySelector('.vlist').scrollTop = 300; }")
    before = husam.evaluate(TOP_MESSAGE_AT_REST)
    with page.expect_response(lambda answer: "beforeSeq" in answer.url):
        held[0].continue_()
    husam.evaluate(TEN_FRAMES)

    def moved_by() -> float:
        """How far the message that was at the top is from where it was."""
        now: float = husam.evaluate(TOP_OF, before[0])
        return float(abs(now - before[1]))

    eventually(lambda: moved_by() < A_LINE)  # earlier messages are put in front without a jump
    assert husam.evaluate("() => document.querySelector('.vlist').scrollTop") > 2_000

    say(stage, "long", "Something new", by="mia")
    new = page.get_by_role("button", name="New messages")
    expect(new).to_be_visible()
    assert moved_by() < A_LINE
    new.click()
    expect(page.locator(".message", has_text="Something new").last).to_be_in_viewport()
    expect(new).to_have_count(0)
