"""Pictures of every page of the console, to be looked at: `python -m tests.console.pictures FOLDER`.

Of the gateway in `rich_scene.py`: light and dark, 1440, 1000 and 390 pixels wide, each as high as its page.
`--only NAME` leaves the others out; `--high 900` cuts them off, as for the documentation.
"""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, expect

from tests.console.places import WIDTHS
from tests.console.rich_scene import act, rich_gateway
from tests.console.visitor import Visitor, chromium

SCHEMES = ("light", "dark")
HIGHEST = 2600
PLACES = {
    "overview": "/overview?range=1440",
    "calls": "/calls",
    "call": "/calls/{call}",
    "call-failed": "/calls/{failed}",
    "call-approved": "/calls/{approved}",
    "waiting": "/waiting",
    "runs": "/runs",
    "run": "/runs/{run}",
    "run-messages": "/runs/{run}?tab=messages",
    "run-waits": "/runs/{waits}",
    "run-program": "/runs/{program}",
    "runs-compared": "/runs/compare?one={run}&other={other}",
    "spaces": "/spaces",
    "space": "/spaces/lobby",
    "space-app": "/spaces/shop",
    "space-table": "/spaces/desk",
    "agents": "/agents",
    "agent": "/agents/concierge",
    "tools": "/tools",
    "tool": "/tools/hotel_search",
    "tool-approval": "/tools/send_invoice",
    "tool-quarantined": "/tools/create_issue",
    "sources": "/sources",
    "source-quarantined": "/sources/github",
    "source-down": "/sources/crm",
    "source-login": "/sources/calendar",
    "source-new": "/sources?add=command",
    "source-http": "/sources/http",
    "tool-new": "/sources?add=tool",
    "access": "/access",
    "key": "/access/keys/mia",
    "people": "/access/people",
    "roles": "/access/roles",
    "groups": "/access/groups",
    "group": "/access/groups/travel",
    "connections": "/access/connections",
    "audit": "/access/audit",
    "settings": "/settings",
    "model": "/settings/models/mind",
    "notifications": "/settings/notifications",
    "hooks": "/settings/hooks",
    "limits": "/settings/limits",
    "config": "/settings/config",
}
SCROLLED = "() => { const main = document.querySelector('main'); return main.scrollHeight - main.clientHeight; }"


def take_pictures(visitor: Visitor, places: dict[str, str], folder: Path, *, high: int | None) -> None:
    """Of every page, in both schemes and all widths: `overview-1440-light.png`."""
    page = visitor.page
    for name, place in places.items():
        visitor.go(place)
        expect(page.locator("main h1").first).to_be_visible()
        expect(page.locator(".skeleton, .loading")).to_have_count(0)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for width in WIDTHS:
                page.set_viewport_size(ViewportSize(width=width, height=high or 900))
                if high is None:
                    whole = min(900 + page.evaluate(SCROLLED), HIGHEST)
                    page.set_viewport_size(ViewportSize(width=width, height=whole))
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="Take pictures of every page of the console.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", choices=sorted(PLACES))
    parser.add_argument("--high", type=int)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as project, rich_gateway(Path(project)) as gateway, chromium() as browser:
        ids = act(gateway)
        places = {name: place.format(**ids) for name, place in PLACES.items() if not given.only or name in given.only}
        visitor = Visitor(browser, gateway)
        visitor.sign_in()
        take_pictures(visitor, places, given.folder, high=given.high)
        visitor.context.close()


if __name__ == "__main__":
    main()
