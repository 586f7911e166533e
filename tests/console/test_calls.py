"""The page of calls over 100,000 of them, and the page of one call; two people who see different ones."""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Page, expect

from jackfield.store import open_store
from jackfield.store.scripts import Sql, run
from tests.console.scene import ADMIN, get, post
from tests.console.test_faults import serious
from tests.console.test_hostile import TRICKS, assert_unharmed
from tests.console.visitor import PHONE, Visitor
from tests.harness.many_calls import insert_calls
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

Visit = Callable[..., Visitor]
Record = Callable[[str, object], None]
MANY = 100_000
MIA_KEY, HUSAM_KEY = "mia-key-of-the-calls-00", "husam-key-of-the-calls0"
DEEP = 3_000
SLOWEST_FRAME_MS = 1_000.0
"""For half of the frames, on a machine without a graphics card that other tests share: no more than a sanity check."""
CONFIG = f"""
[auth.keys.mia]
key = "{MIA_KEY}"
scopes = ["call"]

[auth.keys.husam]
key = "{HUSAM_KEY}"
scopes = ["call", "answer"]

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.send_invoice.metadata]
requires_approval = true
"""
TOOLS = '''
def echo(value: dict | None = None, note: str = "") -> dict:
    """Give back what came."""
    return {"value": value, "note": note}


def count(number: int) -> int:
    """A number."""
    return number


def breaks() -> int:
    """Never works."""
    raise ValueError("<img src=x onerror='window.poisoned=9'>")


def send_invoice(customer: str, amount: int = 1) -> str:
    """Send an invoice."""
    return f"{amount} of {customer}"
'''
FOUND_OUT = Sql(
    "mark_as_found_out",
    "UPDATE calls SET verified_by = (SELECT max(id) FROM calls WHERE run_id = 'run_2') "
    "WHERE id = (SELECT min(id) FROM calls WHERE run_id = 'run_2')",
)
"""As if its gateway had gone meanwhile, and another call had told what came of it."""
HOSTILE: dict[str, Any] = {
    "quote": 'it\'s $(touch x) `id` "q" \\ !! %s \n next',
    "bidi": "pay \u202e001\u202c me, zero\u200bwidth",
    "svg": "<svg onload='window.poisoned=1'><script>window.poisoned=2</script></svg>",
    "emoji": "\U0001f600 é",
    "</script><b>key</b>": [TRICKS, None, True, 1.5, -0.0001, {}],
    "large": 12345678901234567890123,
    "deep": [[[[[[[[["end"]]]]]]]]],
}
FRAMES = """async (seconds) => {
  const times = [];
  const end = performance.now() + seconds * 1000;
  for (let before = await new Promise(requestAnimationFrame); performance.now() < end; ) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
  }
  return times;
}"""
SCROLL = """async () => {
  const frame = document.querySelector(".calls-frame");
  const times = [];
  let before = await new Promise(requestAnimationFrame);
  for (let step = 0; step < 240; step++) {
    frame.scrollTop += 700;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
  }
  return times;
}"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("calls")
    seeding = threading.Thread(target=lambda: asyncio.run(_seed(folder)))
    seeding.start()
    seeding.join(120)
    with running_gateway(folder, CONFIG, files={"tools/calls.py": TOOLS}, env=ADMIN) as running:
        yield running


async def _seed(folder: Path) -> None:
    data = folder / ".jackfield"
    data.mkdir(exist_ok=True)
    store = open_store("sqlite:///", folder=folder, data=data)
    await store.open()
    await insert_calls(store, MANY)
    await store.write(partial(run, FOUND_OUT))
    await store.close()


def made(gateway: RunningGateway, tool: str, arguments: dict[str, Any], *, key: str | None = None) -> str:
    call_id: str = post(gateway, f"/api/v1/tools/{tool}/execute", {"arguments": arguments}, key=key)["call_id"]
    return call_id


def call_of(gateway: RunningGateway, call_id: str) -> Any:
    return get(gateway, f"/api/v1/calls/{call_id}")["call"]


def row(page: Page, call_id: str) -> Any:
    return page.locator(f'.calls-frame [data-call="{call_id}"]')


def rows(page: Page) -> Any:
    return page.locator(".calls-frame [data-call]")


def last_index(page: Page) -> int:
    return int(page.evaluate("() => [...document.querySelectorAll('[data-call]')].at(-1).ariaRowIndex"))


def slow(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


HEIGHTS = "[...new Set([...document.querySelectorAll('[data-call]')].map((row) => row.offsetHeight))]"


def rows_are_high(page: Page, pixels: int) -> bool:
    return bool(page.evaluate(HEIGHTS) == [pixels])


@requirement("CON-calls")
def test_a_hundred_thousand_calls_scroll_and_only_those_in_view_are_in_the_page(
    visit: Visit, gateway: RunningGateway, record_property: Record
) -> None:
    visitor = visit(gateway=gateway)
    page = visitor.go("/calls?range=1440")
    expect(rows(page).first).to_be_visible()
    times = visitor.evaluate(SCROLL)
    eventually(lambda: last_index(page) > DEEP or visitor.evaluate(SCROLL) is None)
    assert rows(page).count() < 100
    indexes = [
        int(index or 0)
        for index in page.eval_on_selector_all("[data-call]", "(all) => all.map((one) => one.ariaRowIndex)")
    ]
    assert indexes == list(range(indexes[0], indexes[0] + len(indexes)))
    record_property("scroll_frame_ms", {"median": round(statistics.median(times), 1), "p95": round(slow(times), 1)})
    assert statistics.median(times) < SLOWEST_FRAME_MS
    for width in (1440, 1000, 390):  # rows are as high as the list reckons, or its end would lie above its last rows
        page.set_viewport_size({"width": width, "height": 800})
        eventually(partial(rows_are_high, page, 44 if width == 390 else 36), what=lambda: page.evaluate(HEIGHTS))


@requirement("CON-calls")
def test_filters_live_in_the_address_and_what_is_filtered_is_exported(visit: Visit, gateway: RunningGateway) -> None:
    visitor = visit(gateway=gateway)
    page = visitor.go("/calls")
    expect(rows(page).first).to_be_visible()
    page.get_by_label("Status").select_option("failed")
    page.get_by_label("Tool", exact=True).fill("rare_tool")
    expect(page.locator(".calls-foot")).to_contain_text("There are no older ones.")
    expect(rows(page).first).to_contain_text("failed")
    assert "status=failed" in page.url
    assert "tool=rare_tool" in page.url
    shown = page.get_by_role("table", name="Calls").get_attribute("aria-rowcount")
    page.reload()
    expect(page.get_by_label("Tool", exact=True)).to_have_value("rare_tool")
    expect(page.get_by_role("table", name="Calls")).to_have_attribute("aria-rowcount", str(shown))
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == int(shown or 0) - 1
    assert {(call["tool"], call["status"]) for call in map(json.loads, lines)} == {("rare_tool", "failed")}
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Search arguments, results, errors").fill('{"number":77777}')
    expect(page.locator(".calls-foot")).to_contain_text("1 call. There are no older ones.")
    expect(rows(page)).to_contain_text('{"number":77777}')
    rows(page).get_by_role("link").click()
    expect(page.get_by_role("list", name="History of the call")).to_be_visible()
    page.go_back()
    expect(rows(page)).to_contain_text('{"number":77777}')
    page.get_by_label("Search arguments, results, errors").fill("nowhere to be found")
    expect(page.get_by_text("No call matches these filters")).to_be_visible()


@requirement("CON-calls-live")
def test_it_is_live_can_be_paused_and_catches_up_without_loss(visit: Visit, gateway: RunningGateway) -> None:
    visitor = visit(gateway=gateway)
    page = visitor.go("/calls?tool=count")
    expect(page.locator(".tail")).to_contain_text("live")
    first = made(gateway, "count", {"number": 1})
    expect(row(page, first)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    missed = [made(gateway, "count", {"number": number}) for number in range(2, 12)]
    expect(page.locator(".tail")).to_contain_text(re.compile("1[01] new or changed"))
    assert row(page, missed[0]).count() == 0
    page.get_by_role("button", name="Resume").click()
    for call_id in missed:
        expect(row(page, call_id)).to_be_visible()
    refused = httpx2.post(f"{gateway.url}/api/v1/tools/count/execute", headers=gateway.headers, json={"arguments": {}})
    assert refused.status_code == 400
    expect(rows(page).first).to_contain_text("refused")


@requirement("CON-calls-live")
def test_fifty_calls_a_second_do_not_disturb_it_and_none_is_lost(
    visit: Visit, gateway: RunningGateway, record_property: Record
) -> None:
    visitor = visit(gateway=gateway)
    page = visitor.go("/calls")
    expect(page.locator(".tail")).to_contain_text("live")
    expect(rows(page).first).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator(".calls-frame").evaluate("(frame) => { frame.scrollTop = 36 * 50; }")
    reading = eventually(lambda: page.evaluate(TOP_ROW))
    calls: list[str] = []

    def load() -> None:
        with httpx2.Client(headers=gateway.headers, timeout=60) as client, ThreadPoolExecutor(4) as pool:
            path, pause = f"{gateway.url}/api/v1/tools/count/execute", threading.Event()

            def one(number: int) -> None:
                answer = client.post(path, json={"arguments": {"number": number}})
                calls.append(answer.json()["call_id"])

            for number in range(100):
                pool.submit(one, 1000 + number)
                pause.wait(0.02)  # the load itself: 50 a second

    loading = threading.Thread(target=load)
    loading.start()
    times = visitor.evaluate(FRAMES, 3)
    loading.join(60)
    assert eventually(lambda: page.evaluate(TOP_ROW)) == reading, "who reads further down is not moved"
    page.locator(".calls-frame").evaluate("(frame) => { frame.scrollTop = 0; }")
    eventually(lambda: call_ids_from(page, set(calls)))
    record_property("live_frame_ms", {"median": round(statistics.median(times), 1), "p95": round(slow(times), 1)})
    assert statistics.median(times) < SLOWEST_FRAME_MS
    before = len(asked)
    visitor.evaluate(FRAMES, 1)
    again = [url for url in asked[before:] if "/api/v1/calls?" in url]
    assert len(again) <= 2, f"nothing happens, and it asks: {again}"


TOP_ROW = """() => {
  const frame = document.querySelector(".calls-frame");
  const edge = frame.getBoundingClientRect().top;
  const all = [...frame.querySelectorAll("[data-call]")];
  return all.find((one) => Math.abs(one.getBoundingClientRect().top - edge) < 36)?.dataset.call;
}"""


def call_ids_from(page: Page, wanted: set[str]) -> bool:
    """Whether all of these calls are in the list, of which only a part is in the page."""
    seen: set[str] = set()
    for step in range(40):
        page.locator(".calls-frame").evaluate("(frame, top) => { frame.scrollTop = top; }", step * 36 * 12)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen |= set(page.eval_on_selector_all("[data-call]", "(all) => all.map((one) => one.dataset.call)"))
    return wanted <= seen


@requirement("CON-calls")
def test_it_works_by_keyboard(visit: Visit, gateway: RunningGateway) -> None:
    visitor = visit(gateway=gateway)
    page = visitor.go("/calls?tool=tool_3")
    expect(rows(page).first).to_be_visible()
    rows(page).first.get_by_role("link").focus()
    for key in ("j", "ArrowDown", "k", "PageDown", "Home", "j"):
        page.keyboard.press(key)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    focused = page.evaluate("() => document.activeElement.closest('[data-call]').ariaRowIndex")
    assert focused == "3"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="tool_3")).to_be_visible()


@requirement("CON-call-page")
def test_a_call_s_page_has_its_history_its_error_with_what_to_do_and_its_links(
    visit: Visit, gateway: RunningGateway
) -> None:
    wrong = httpx2.post(
        f"{gateway.url}/api/v1/tools/count/execute", headers=gateway.headers, json={"arguments": {"number": "x"}}
    )
    assert wrong.status_code == 400
    refused = get(gateway, "/api/v1/calls?status=refused&tool=count&limit=1")["calls"][0]["id"]
    broken = made(gateway, "breaks", {})
    visitor = visit(gateway=gateway)
    page = visitor.go(f"/calls/{refused}")
    expect(page.locator(".advice")).to_contain_text("do not fit the tool's schema")
    page = visitor.go(f"/calls/{broken}")
    history = page.get_by_role("list", name="History of the call")
    for word in ("Asked", "Started", "Settled", "Delivered"):
        expect(history).to_contain_text(word)
    expect(history).to_contain_text("failed: tool_error")
    expect(page.locator("article")).to_contain_text("<img src=x onerror=")
    assert_unharmed(page)
    page.get_by_role("link", name="of this tool").click()
    expect(page.get_by_label("Tool", exact=True)).to_have_value("breaks")
    expect(row(page, broken)).to_be_visible()


@requirement("CON-call-page")
def test_a_call_that_another_one_had_to_find_out_about_leads_to_it(visit: Visit, gateway: RunningGateway) -> None:
    found = get(gateway, "/api/v1/calls?run_id=run_2")["calls"]
    verified = next(one for one in found if one["verified_by"] is not None)
    page = visit(gateway=gateway).go(f"/calls/{verified['id']}")
    page.get_by_role("link", name=verified["verified_by"]).click()
    expect(page).to_have_url(f"{gateway.url}/#/calls/{verified['verified_by']}")


@requirement("CON-call-page")
def test_curl_and_python_make_the_same_call_whatever_is_in_it(
    visit: Visit, gateway: RunningGateway, tmp_path: Path
) -> None:
    arguments = {"value": HOSTILE, "note": "it's"}
    call_id = made(gateway, "echo", arguments)
    visitor = visit(gateway=gateway)
    page = visitor.go(f"/calls/{call_id}")
    expect(page.get_by_role("list", name="History of the call")).to_be_visible()
    assert_unharmed(page)
    expect(page.get_by_text("⟨U+202E⟩001").first).to_be_visible()
    environment = {"PATH": os.environ["PATH"], "JACKFIELD_KEY": gateway.key, "HOME": str(tmp_path)}
    for name, command in (("curl", ["sh", "-c"]), ("Python", [sys.executable, "-c"])):
        page.get_by_role("button", name=name, exact=True).click()
        text = page.locator("pre.code").first.text_content() or ""
        assert text.isascii()
        assert gateway.key not in text
        done = subprocess.run(
            [*command, text], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        newest = get(gateway, "/api/v1/calls?tool=echo&limit=1")["calls"][0]
        assert newest["id"] != call_id
        assert newest["arguments"] == arguments, name
        call_id = newest["id"]
    assert list(tmp_path.iterdir()) == [], "nothing in the arguments was carried out"


@requirement("CON-call-replay")
def test_a_replay_is_a_new_call_with_other_arguments_and_asks_first_where_the_tool_does(
    visit: Visit, gateway: RunningGateway
) -> None:
    first = made(gateway, "count", {"number": 41})
    visitor = visit(gateway=gateway)
    page = visitor.go(f"/calls/{first}")
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("spinbutton").or_(page.get_by_role("textbox")).first.fill("42")
    page.get_by_role("button", name="Call tool").click()
    page.get_by_role("link", name="Open the new call").click()
    expect(page.get_by_role("link", name=first)).to_be_visible()
    again = get(gateway, "/api/v1/calls?tool=count&limit=1")["calls"][0]
    assert (again["arguments"], again["replay_of"]) == ({"number": 42}, first)

    guarded = made(gateway, "send_invoice", {"customer": "ACME"})
    page = visitor.go(f"/calls/{guarded}")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("send_invoice needs approval.")).to_be_visible()
    page.get_by_role("button", name="Call tool").click()
    dialog = page.get_by_role("dialog", name="Ask for approval")
    expect(dialog).to_be_visible()
    assert len(get(gateway, "/api/v1/calls?tool=send_invoice&status=pending_approval")["calls"]) == 1, "it asks first"
    dialog.get_by_role("button", name="Call tool").click()
    page.get_by_role("link", name="Open the new call").click()
    expect(page.get_by_role("link", name=guarded)).to_be_visible()

    page.get_by_role("button", name="Cancel call").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel call").click()
    expect(page.locator(".page-head .badge")).to_have_text("cancelled")
    page = visitor.go(f"/calls/{guarded}")
    visitor.card("send_invoice").get_by_role("button", name="Approve").click()
    expect(page.get_by_role("list", name="History of the call")).to_contain_text("Decided")
    expect(page.get_by_role("list", name="History of the call")).to_contain_text("by admin")


@requirement("CON-calls")
def test_who_may_not_see_a_call_does_not_find_it(visit: Visit, gateway: RunningGateway) -> None:
    theirs = made(gateway, "count", {"number": 7001})
    own = made(gateway, "count", {"number": 7002}, key=MIA_KEY)
    visitor = visit(MIA_KEY, gateway=gateway)
    page = visitor.go("/calls")
    expect(row(page, own)).to_be_visible()
    expect(page.get_by_text("Yours, and those that you may answer")).to_be_visible()
    late = made(gateway, "count", {"number": 7003}), made(gateway, "count", {"number": 7004}, key=MIA_KEY)
    expect(row(page, late[1])).to_be_visible()
    assert {tool.strip() for tool in page.locator("[data-call] code").all_text_contents()} == {"count"}
    assert row(page, theirs).count() == row(page, late[0]).count() == 0
    page = visitor.go(f"/calls/{theirs}")
    expect(page.get_by_role("alert")).to_contain_text("There is no call")


@requirement("CON-calls", "CON-call-page")
def test_foreign_text_is_text_in_the_list_and_axe_finds_nothing_serious(visit: Visit, gateway: RunningGateway) -> None:
    hostile = made(gateway, "echo", {"value": HOSTILE, "note": "x" * 50_000})
    shown = made(gateway, "echo", {"note": "<img src=x onerror='window.poisoned=1'> \u202etricks"})
    name = "<svg onload='window.poisoned=3'>\u202e" * 5
    unknown = f"{gateway.url}/api/v1/tools/{quote(name, safe='')}/execute"
    assert httpx2.post(unknown, headers=gateway.headers, json={"arguments": HOSTILE}).status_code == 404
    refused = get(gateway, "/api/v1/calls?status=refused&limit=1")["calls"][0]
    assert "<svg onload" in refused["tool"]
    for scheme in ("light", "dark"):
        visitor = visit(
            gateway=gateway, scheme=scheme, size=PHONE if scheme == "dark" else {"width": 1200, "height": 800}
        )
        page = visitor.go("/calls")
        expect(row(page, shown)).to_be_visible()
        expect(row(page, hostile)).to_be_visible()
        if scheme == "light":
            expect(row(page, shown)).to_contain_text("⟨U+202E⟩tricks")
            expect(row(page, hostile)).to_contain_text("long")
        assert_unharmed(page)
        assert serious(page) == []
        expect(row(page, refused["id"])).to_contain_text("<svg onload")
        page = visitor.go(f"/calls/{refused['id']}")
        expect(page.locator(".advice")).to_contain_text("There is no such tool")
        assert_unharmed(page)
        page = visitor.go(f"/calls/{hostile}")
        expect(page.get_by_role("heading", name="echo")).to_be_visible()
        expect(page.get_by_role("list", name="History of the call")).to_be_visible()
        assert visitor.evaluate("() => document.querySelector('main').scrollWidth <= innerWidth")
        assert_unharmed(page)
        assert serious(page) == []


@requirement("CON-waiting-bulk")
def test_several_are_decided_at_once_each_on_record_and_what_failed_says_why(
    visit: Visit, gateway: RunningGateway
) -> None:
    waiting = [made(gateway, "send_invoice", {"customer": f"bulk {number}"}, key=MIA_KEY) for number in range(4)]
    visitor = visit(HUSAM_KEY, gateway=gateway)
    page = visitor.go("/waiting")
    for number in range(4):
        expect(page.get_by_text(f"bulk {number}").first).to_be_visible()
    cards = page.get_by_role("list", name="Pending calls").locator("[data-waits]")
    page.locator(f'[data-waits="{waiting[0]}"]').focus()
    for key in ("x", "j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_text("3 marked")).to_be_visible()
    assert serious(page) == []
    marked = [
        one for one in waiting if "marked" in (page.locator(f'[data-waits="{one}"]').get_attribute("class") or "")
    ]
    assert len(marked) == 3
    assert cards.count() >= 4
    held: list[Any] = []
    page.route(f"**/{marked[0]}/approve", lambda route: held.append(route))  # noqa: PLW0108 - playwright marks the function
    page.keyboard.press("a")
    page.get_by_role("dialog", name="Approve 3 calls?").get_by_role("button", name="Approve 3 calls").click()
    eventually(lambda: held or page.evaluate("() => new Promise(requestAnimationFrame)") is None)
    post(gateway, f"/api/v1/calls/{marked[0]}/reject", {"reason": "somebody was first"})
    held[0].continue_()
    outcome = page.locator(".bulk-outcome")
    expect(outcome).to_contain_text("2 calls approved, 1 not")
    expect(outcome.get_by_role("listitem")).to_contain_text("send_invoice")
    decided = [call_of(gateway, one) for one in marked]
    assert [call["decision"] for call in decided] == ["rejected", "approved", "approved"]
    assert [call["decided_by"] for call in decided] == ["admin", "husam", "husam"]

    more = [made(gateway, "send_invoice", {"customer": f"more {number}"}, key=MIA_KEY) for number in range(2)]
    expect(page.get_by_text("more 1").first).to_be_visible()
    page.get_by_label("All 3").check()
    page.get_by_role("button", name="Reject …").click()
    page.get_by_label("Reason").last.fill("not this month")
    page.get_by_role("button", name="Reject 3 calls").click()
    expect(outcome).to_contain_text("3 calls rejected")
    for one in more:
        call = call_of(gateway, one)
        assert (call["status"], call["decided_by"]) == ("rejected", "husam")
        assert "not this month" in call["error"]["message"]


@requirement("CON-call-page")
def test_a_number_of_many_digits_is_shown_approved_and_edited_as_it_is(visit: Visit, gateway: RunningGateway) -> None:
    """A browser's own numbers would round it, and a person would allow something else than what they saw."""
    large = 12345678901234567891
    visitor = visit(gateway=gateway)
    for is_edited in (False, True):
        call_id = made(gateway, "send_invoice", {"customer": "digits", "amount": large})
        page = visitor.go(f"/calls/{call_id}")
        card = visitor.card("send_invoice")
        expect(card.locator(".tree")).to_contain_text(str(large))
        if is_edited:
            card.get_by_role("button", name="Edit").click()
            expect(card.get_by_label("Arguments")).to_have_value(re.compile(str(large)))
            card.get_by_label("Arguments").fill(f'{{"customer": "digits", "amount": {large + 2}}}')
        card.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("list", name="History of the call")).to_contain_text("Settled")
        assert call_of(gateway, call_id)["arguments"]["amount"] == large + 2 * is_edited
