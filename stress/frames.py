"""The console while 50 calls a second arrive: how long its frames take, and whether it shows the last of them.

A real gateway with 100,000 calls on record, Chromium without a graphics card, and callers at a fixed rate in a process
of their own. A page is looked at for as long without any calls first. A screen that is drawn 60 times a second has a
frame of 17 ms; a person notices from about 100 ms on.
"""

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct
from playwright.async_api import Browser, Page, async_playwright, expect

from jackfield.store import open_store
from stress.processes import KEY, Project, victims
from stress.report import Report
from tests.console.visitor import CHROMIUM_ARGS, find_chromium
from tests.harness.many_calls import insert_calls

PER_SECOND = 50
ON_RECORD = 100_000
SLOWEST_MEDIAN_MS = 50
"""Three frames of a screen. What a busy machine adds is in the slow ones, which are reported only."""
CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.shown]
visible = true
"""
TOOLS = '''
def counted(number: int) -> int:
    """A number."""
    return number


def shown(number: int) -> dict:
    """A number that a space shows."""
    return {"number": number, "text": f"this is number {number}"}
'''
PROJECT = Project(CONFIG, {"tools/numbers.py": TOOLS})
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


class Watched(Struct, frozen=True):
    """A page, and the calls that arrive while it is looked at."""

    name: str
    place: str
    tool: str
    space: str | None = None


PAGES = (
    Watched("overview", "/overview", "counted"),
    Watched("calls", "/calls", "counted"),
    Watched("space", "/spaces/busy", "shown", "busy"),
)


async def watch_frames(url: str, folder: Path, *, seed: int, gateways: int, seconds: int) -> Report:
    """Each page for so many seconds at rest, and as long under load."""
    report = Report(part="console", seed=seed)
    await _fill(url, folder)
    async with victims(folder, url, count=gateways, project=PROJECT) as (victim, *_), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(playwright), args=CHROMIUM_ARGS)
        for page in PAGES:
            await _watch(report, browser, victim.url, page, seconds=seconds)
        await browser.close()
    return report


async def _fill(url: str, folder: Path) -> None:
    store = open_store(url, folder=folder, data=folder)
    await store.open()
    await insert_calls(store, ON_RECORD)
    await store.close()


async def _watch(report: Report, browser: Browser, url: str, watched: Watched, *, seconds: int) -> None:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    headers = {"x-api-key": KEY}
    if watched.space is not None:
        await context.request.post(f"{url}/api/spaces", headers=headers, data={"id": watched.space})
    await context.request.post(f"{url}/api/login", headers=headers, data={})
    page = await context.new_page()
    await page.goto(f"{url}/#{watched.place}")
    await expect(page.locator("main h1")).to_be_visible()
    _note(report, f"{watched.name} at rest", await page.evaluate(FRAMES, seconds))
    load = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stress.frames", url, watched.tool, watched.space or "", str(PER_SECOND * seconds),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    times = await page.evaluate(FRAMES, seconds)
    printed, _ = await load.communicate()
    made = json.loads(printed)
    median = _note(report, f"{watched.name} under load", times)
    report.seen[f"{watched.name}: calls a second"] = round(made["rate"])
    report.expect(made["done"] == PER_SECOND * seconds, f"{watched.name}: {made['done']} calls came back")
    report.expect(median <= SLOWEST_MEDIAN_MS, f"{watched.name}: half of the frames took more than {median:.0f} ms")
    await _expect_shown(report, page, watched, last=PER_SECOND * seconds - 1, total=made["total"])
    await context.close()


def _note(report: Report, what: str, times: list[float]) -> float:
    """Median, 95th of 100, and the longest, in ms."""
    median = statistics.median(times)
    for name, value in (("p50", median), ("p95", statistics.quantiles(times, n=20)[-1]), ("max", max(times))):
        report.seen[f"{what}: frame ms {name}"] = round(value)
    report.seen[f"{what}: frames"] = len(times)
    return median


async def _expect_shown(report: Report, page: Page, watched: Watched, *, last: int, total: int) -> None:
    """None was lost on the way to the page."""
    if watched.name == "overview":
        sign = (
            page.get_by_role("region", name="By tool").get_by_role("row", name=watched.tool).get_by_role("cell").first
        )
        wanted = f"{total:,}"
    elif watched.name == "calls":
        sign, wanted = page.get_by_role("table", name="Calls"), f'{{"number":{last}}}'
    else:
        sign, wanted = page.locator("article").last, f"this is number {last}"
    try:
        await expect(sign).to_contain_text(wanted, timeout=30_000)
    except AssertionError as fault:
        report.expect(holds=False, otherwise=f"{watched.name} does not show {wanted}: {fault}")


async def make_calls(url: str, tool: str, space: str, count: int) -> dict[str, Any]:
    """So many calls, one every 20 ms by the clock, however long each takes."""
    path, began = f"{url}/api/v1/tools/{tool}/execute", time.monotonic()
    more = {} if space == "" else {"space_id": space}
    async with httpx2.AsyncClient(headers={"x-api-key": KEY}, timeout=60) as client:

        async def one(number: int) -> bool:
            await asyncio.sleep(began + number / PER_SECOND - time.monotonic())
            answer = await client.post(path, json={"arguments": {"number": number}} | more)
            return answer.status_code == 200

        outcomes = await asyncio.gather(*(one(number) for number in range(count)))
        took = time.monotonic() - began
        found = (await client.get(f"{url}/api/v1/overview")).json()["tools"]
    total = next(one["calls"] for one in found if one["name"] == tool)
    return {"done": sum(outcomes), "rate": count / took, "total": total}


if __name__ == "__main__":
    to, of, seen_in, how_many = sys.argv[1:]
    print(json.dumps(asyncio.run(make_calls(to, of, seen_in, int(how_many)))))
