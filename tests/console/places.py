"""Every page of the console, with something on it: for the sweep, and for pictures of all pages.

`python -m tests.console.places FOLDER` takes the pictures: light and dark, 1440, 1000 and 390 pixels wide.
"""

import argparse
import re
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, expect

from tests.console.scene import ADMIN, CONFIG, FILES, execute, get, messages, post, say
from tests.console.visitor import Visitor, chromium
from tests.harness.process import RunningGateway, running_gateway
from tests.waiting import eventually

WIDTHS = (1440, 1000, 390)
SCHEMES = ("light", "dark")
PAGES = {
    "/overview": ".figures",
    "/calls": "main h1",
    "/waiting": ".schema-form input",
    "/runs": ".data-row.to",
    "/spaces": "main h1",
    "/spaces/hall": ".recharts-surface",
    "/agents": ".data-row.to",
    "/agents/ada": ".fact",
    "/tools": ".row",
    "/tools/shapes": ".try-it textarea",
    "/tools/poison": ".cards article",
    "/sources": "main [role='row']",
    "/sources/local": "main h1",
    "/access": "main h1",
    "/settings": "main h1",
}
"""Places, and what is there once they are drawn."""


def act(gateway: RunningGateway) -> dict[str, str]:
    """Do what makes the pages worth looking at; all places, with those of a call and a run."""
    execute(gateway, "poison", {})
    execute(gateway, "send_invoice", {"customer": "ACME", "amount": 3})
    execute(gateway, "askForDetails", {"question": "For the pages?"})
    call = post(gateway, "/api/v1/tools/get_weather/execute", {"arguments": {"city": "Tokyo"}})["call_id"]
    say(gateway, "hall", "Show a chart")
    eventually(lambda: any(one["metadata"].get("toolName") == "displayChart" for one in messages(gateway, "hall")))
    run = eventually(lambda: get(gateway, "/api/runs")["runs"])[0]["id"]
    return PAGES | {f"/calls/{call}": "main h1", f"/runs/{run}": "main h1"}


def take_pictures(visitor: Visitor, places: dict[str, str], folder: Path) -> None:
    """Of every page, in both schemes and all widths: `overview-1440-light.png`."""
    page = visitor.page
    for place, sign in places.items():
        name = re.sub(r"[^a-z]+", "-", re.sub(r"(call|run)_\w+", "one", place)).strip("-")
        visitor.go(place)
        expect(page.locator(sign).first).to_be_visible()
        expect(page.locator(".skeleton, .loading")).to_have_count(0)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for width in WIDTHS:
                page.set_viewport_size(ViewportSize(width=width, height=900))
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="Take pictures of every page of the console.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as project,
        running_gateway(Path(project), CONFIG, files=FILES, env=ADMIN) as gateway,
        chromium() as browser,
    ):
        visitor = Visitor(browser, gateway)
        visitor.sign_in()
        execute(gateway, "roll", {"sides": 0})
        take_pictures(visitor, act(gateway), folder)
        visitor.context.close()


if __name__ == "__main__":
    main()
